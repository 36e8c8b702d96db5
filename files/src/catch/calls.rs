//! The calls that the filter stops, and the meaning of their arguments.

use super::listener::Notice;
use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW, c_long};

/// A name in a call: an open folder or AT_FDCWD, and the address of the path.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    pub folder: i32,
    pub path: u64,
}

#[derive(Debug, Clone, Copy)]
pub enum Call {
    Open {
        spot: Spot,
        flags: i32,
        mode: u32,
    },
    /// `openat2`: the flags and the mode are at an address.
    OpenHow {
        spot: Spot,
        how: u64,
    },
    Look {
        spot: Spot,
        follows: bool,
        look: Look,
    },
    Change {
        spot: Spot,
        follows: bool,
        change: Change,
    },
    Rename {
        from: Spot,
        to: Spot,
        flags: u32,
    },
    Link {
        from: Spot,
        to: Spot,
        follows: bool,
    },
    Unlink {
        spot: Spot,
    },
    /// A new process. The flags of `clone3` are at an address.
    Fork {
        is_thread_at: Option<u64>,
    },
    Exit {
        status: i32,
        of_thread: bool,
    },
    Other,
}

#[derive(Debug, Clone, Copy)]
pub enum Look {
    Stat { to: u64 },
    Statx { flags: u64, mask: u64, to: u64 },
    Access { mode: u64, flags: u64 },
}

#[derive(Debug, Clone, Copy)]
pub enum Change {
    Mode(u32),
    Owner(u32, u32),
    Times { at: u64, unit: Unit },
    Size(i64),
}

/// The unit of the times in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    Microseconds,
    /// Two numbers of whole seconds.
    Seconds,
}

const FCHMODAT2: c_long = 452;

/// Calls that the filter always stops.
pub const ALWAYS: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_truncate,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Calls that the filter stops unless an argument has these bits. With the bits, `clone` starts a thread, and a stat
/// takes a descriptor, not a name.
pub const WITHOUT: &[(c_long, usize, u32)] = &[
    (libc::SYS_clone, 0, libc::CLONE_THREAD as u32),
    (libc::SYS_newfstatat, 3, AT_EMPTY_PATH as u32),
    (libc::SYS_statx, 2, AT_EMPTY_PATH as u32),
];

pub fn read(notice: &Notice) -> Call {
    let a = notice.arguments;
    let at = |folder: usize| Spot { folder: a[folder] as i32, path: a[folder + 1] };
    let follows = |flags: u64| flags as i32 & AT_SYMLINK_NOFOLLOW == 0;
    match notice.number as c_long {
        libc::SYS_openat => Call::Open { spot: at(0), flags: a[2] as i32, mode: a[3] as u32 },
        libc::SYS_openat2 => Call::OpenHow { spot: at(0), how: a[2] },
        libc::SYS_newfstatat => Call::Look { spot: at(0), follows: follows(a[3]), look: Look::Stat { to: a[2] } },
        libc::SYS_statx => {
            let look = Look::Statx { flags: a[2], mask: a[3], to: a[4] };
            Call::Look { spot: at(0), follows: follows(a[2]), look }
        }
        libc::SYS_faccessat => Call::Look { spot: at(0), follows: true, look: Look::Access { mode: a[2], flags: 0 } },
        libc::SYS_faccessat2 => {
            Call::Look { spot: at(0), follows: follows(a[3]), look: Look::Access { mode: a[2], flags: a[3] } }
        }
        libc::SYS_renameat => Call::Rename { from: at(0), to: at(2), flags: 0 },
        libc::SYS_renameat2 => Call::Rename { from: at(0), to: at(2), flags: a[4] as u32 },
        libc::SYS_linkat => Call::Link { from: at(0), to: at(2), follows: a[4] as i32 & AT_SYMLINK_FOLLOW != 0 },
        libc::SYS_unlinkat if a[2] as i32 & AT_REMOVEDIR == 0 => Call::Unlink { spot: at(0) },
        libc::SYS_fchmodat => Call::Change { spot: at(0), follows: true, change: Change::Mode(a[2] as u32) },
        FCHMODAT2 => Call::Change { spot: at(0), follows: follows(a[3]), change: Change::Mode(a[2] as u32) },
        libc::SYS_fchownat => {
            let change = Change::Owner(a[2] as u32, a[3] as u32);
            Call::Change { spot: at(0), follows: follows(a[4]), change }
        }
        libc::SYS_utimensat => {
            let change = Change::Times { at: a[2], unit: Unit::Nanoseconds };
            Call::Change { spot: at(0), follows: follows(a[3]), change }
        }
        libc::SYS_truncate => {
            let spot = Spot { folder: AT_FDCWD, path: a[0] };
            Call::Change { spot, follows: true, change: Change::Size(a[1] as i64) }
        }
        libc::SYS_clone => Call::Fork { is_thread_at: None },
        libc::SYS_clone3 => Call::Fork { is_thread_at: Some(a[0]) },
        libc::SYS_exit => Call::Exit { status: a[0] as i32, of_thread: true },
        libc::SYS_exit_group => Call::Exit { status: a[0] as i32, of_thread: false },
        _ => read_old(notice),
    }
}

/// The older calls, which only x86_64 has.
#[cfg(target_arch = "x86_64")]
fn read_old(notice: &Notice) -> Call {
    let a = notice.arguments;
    let spot = Spot { folder: AT_FDCWD, path: a[0] };
    let to = Spot { folder: AT_FDCWD, path: a[1] };
    let change = |change: Change| Call::Change { spot, follows: true, change };
    match notice.number as c_long {
        libc::SYS_open => Call::Open { spot, flags: a[1] as i32, mode: a[2] as u32 },
        libc::SYS_creat => {
            Call::Open { spot, flags: libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode: a[1] as u32 }
        }
        libc::SYS_stat => Call::Look { spot, follows: true, look: Look::Stat { to: a[1] } },
        libc::SYS_lstat => Call::Look { spot, follows: false, look: Look::Stat { to: a[1] } },
        libc::SYS_access => Call::Look { spot, follows: true, look: Look::Access { mode: a[1], flags: 0 } },
        libc::SYS_rename => Call::Rename { from: spot, to, flags: 0 },
        libc::SYS_link => Call::Link { from: spot, to, follows: false },
        libc::SYS_unlink => Call::Unlink { spot },
        libc::SYS_chmod => change(Change::Mode(a[1] as u32)),
        libc::SYS_chown => change(Change::Owner(a[1] as u32, a[2] as u32)),
        libc::SYS_lchown => Call::Change { spot, follows: false, change: Change::Owner(a[1] as u32, a[2] as u32) },
        libc::SYS_utime => change(Change::Times { at: a[1], unit: Unit::Seconds }),
        libc::SYS_utimes => change(Change::Times { at: a[1], unit: Unit::Microseconds }),
        libc::SYS_futimesat => {
            let spot = Spot { folder: a[0] as i32, path: a[1] };
            Call::Change { spot, follows: true, change: Change::Times { at: a[2], unit: Unit::Microseconds } }
        }
        libc::SYS_fork | libc::SYS_vfork => Call::Fork { is_thread_at: None },
        _ => Call::Other,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_old(_: &Notice) -> Call {
    Call::Other
}

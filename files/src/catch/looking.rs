//! Calls about a file by name: stat, access, chmod, utimes, truncate. The answer is about the staged file.

use super::{
    caller::Caller,
    calls::{Change, Look, Spot, Unit},
    supervisor::{Reply, Supervisor},
};
use crate::helper::Answer;
use rustix::{
    fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, chmodat, chownat, utimensat},
    io::Errno,
};
use std::{ffi::CString, io, mem, os::unix::ffi::OsStrExt, path::Path};

const TRIES_MAX: usize = 4;

impl Supervisor<'_> {
    pub(super) fn look(&self, caller: &Caller, spot: Spot, follows: bool, look: Look) -> Reply {
        self.placed(caller, "look", (spot, follows), |path| at(path, caller, look))
    }

    pub(super) fn change(&mut self, caller: &Caller, spot: Spot, follows: bool, change: Change) -> Reply {
        if let Change::Size(size) = change {
            let Some(found) = self.find_wanted(caller, spot, follows) else { return Reply::Pass };
            return self.truncate(caller, &found, size);
        }
        self.placed(caller, "settle", (spot, follows), |path| apply(path, caller, change))
    }

    /// Does the call on the path that the helper gives. Asks again if the helper has moved the file meanwhile.
    fn placed(
        &self,
        caller: &Caller,
        verb: &str,
        (spot, follows): (Spot, bool),
        call: impl Fn(&Path) -> Result<i64, i32>,
    ) -> Reply {
        let mut result = Err(libc::ENOENT);
        for _ in 0..TRIES_MAX {
            let Some(found) = self.find_wanted(caller, spot, follows) else { return Reply::Pass };
            result = match self.asker.about(verb, &found) {
                Answer::At(path, _) => call(&path),
                Answer::Error(number, _) => Err(number),
                _ => return Reply::Pass,
            };
            if result != Err(libc::ENOENT) {
                break;
            }
        }
        Reply::Done(result)
    }
}

/// A buffer large enough for each struct below, and aligned for it.
type Room = [u64; 64];

fn at(path: &Path, caller: &Caller, look: Look) -> Result<i64, i32> {
    let mut room: Room = [0; 64];
    let (number, more, to, size) = match look {
        Look::Stat { to } => (libc::SYS_newfstatat, [0, 0], to, mem::size_of::<libc::stat>()),
        Look::Statx { flags, mask, to } => (libc::SYS_statx, [flags, mask], to, mem::size_of::<libc::statx>()),
        Look::Access { mode, flags } => (libc::SYS_faccessat2, [mode, flags], 0, 0),
    };
    ask_kernel(number, path, more, &mut room).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    if size > 0 {
        let bytes: Vec<u8> = room.iter().flat_map(|word| word.to_ne_bytes()).take(size).collect();
        caller.put(to, &bytes)?;
    }
    Ok(0)
}

/// Asks the kernel, as the program expects the kernel's struct, not that of a library.
#[allow(unsafe_code)]
fn ask_kernel(number: libc::c_long, path: &Path, more: [u64; 2], room: &mut Room) -> io::Result<()> {
    const { assert!(mem::size_of::<Room>() >= mem::size_of::<libc::stat>()) };
    const { assert!(mem::size_of::<Room>() >= mem::size_of::<libc::statx>()) };
    let path = CString::new(path.as_os_str().as_bytes())?;
    let (folder, name, to) = (libc::AT_FDCWD, path.as_ptr(), room.as_mut_ptr());
    // SAFETY: the path ends with a NUL byte, and the room is as large as the kernel's struct. Both live during the call.
    let result = unsafe {
        match number {
            libc::SYS_newfstatat => libc::syscall(number, folder, name, to, more[0]),
            libc::SYS_statx => libc::syscall(number, folder, name, more[0], more[1], to),
            _ => libc::syscall(libc::SYS_faccessat2, folder, name, more[0], more[1]),
        }
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn apply(path: &Path, caller: &Caller, change: Change) -> Result<i64, i32> {
    let done = match change {
        Change::Mode(mode) => chmodat(CWD, path, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty()),
        Change::Owner(user, group) => {
            // The largest number leaves the owner unchanged.
            let user = (user != u32::MAX).then(|| Uid::from_raw(user));
            let group = (group != u32::MAX).then(|| Gid::from_raw(group));
            chownat(CWD, path, user, group, AtFlags::empty())
        }
        Change::Times { at, unit } => {
            let times = times(caller, at, unit).ok_or(libc::EFAULT)?;
            utimensat(CWD, path, &times, AtFlags::empty())
        }
        Change::Size(_) => Err(Errno::INVAL),
    };
    done.map(|()| 0).map_err(Errno::raw_os_error)
}

/// The times of access and modification. `None`: the address is unreadable.
fn times(caller: &Caller, at: u64, unit: Unit) -> Option<Timestamps> {
    let [a, a_part, m, m_part] = match (at, unit) {
        (0, _) => [0, libc::UTIME_NOW, 0, libc::UTIME_NOW],
        (_, Unit::Seconds) => {
            let [a, m] = caller.numbers::<2>(at)?;
            [a, 0, m, 0]
        }
        (_, Unit::Nanoseconds) => caller.numbers::<4>(at)?,
        (_, Unit::Microseconds) => {
            let [a, a_part, m, m_part] = caller.numbers::<4>(at)?;
            [a, a_part * 1000, m, m_part * 1000]
        }
    };
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    Some(Timestamps { last_access: time(a, a_part), last_modification: time(m, m_part) })
}

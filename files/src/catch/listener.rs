//! The descriptor through which the kernel reports calls and takes answers.

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

pub struct Listener(OwnedFd);

/// A call that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub struct Notice {
    id: u64,
    /// The thread that called.
    pub task: i32,
    pub number: i64,
    pub arguments: [u64; 6],
}

/// Room for later kernels: they may write more.
#[repr(C)]
struct Roomy {
    notice: libc::seccomp_notif,
    more: [u64; 16],
}

impl Listener {
    pub fn new(listener: OwnedFd) -> Listener {
        Listener(listener)
    }

    /// The next call. `None`: the last process under the filter has ended.
    pub fn receive(&self) -> io::Result<Option<Notice>> {
        loop {
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            if !fds[0].revents().contains(PollFlags::IN) {
                return Ok(None);
            }
            // The kernel wants zeros.
            let zero = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
            let notice = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data: zero };
            let mut roomy = Roomy { notice, more: [0; 16] };
            match call(self.0.as_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &mut roomy) {
                Ok(_) => {
                    let libc::seccomp_notif { id, pid, data, .. } = roomy.notice;
                    let (task, number) = (pid as i32, i64::from(data.nr));
                    return Ok(Some(Notice { id, task, number, arguments: data.args }));
                }
                // The caller was killed in the meantime.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the caller still waits. If not, its number may belong to another process.
    pub fn is_waiting(&self, notice: &Notice) -> bool {
        let mut id = notice.id;
        call(self.0.as_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id).is_ok()
    }

    /// Lets the kernel do the call.
    pub fn pass(&self, notice: &Notice) {
        self.send(libc::seccomp_notif_resp {
            id: notice.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        });
    }

    pub fn answer(&self, notice: &Notice, result: Result<i64, i32>) {
        let (val, error) = result.map_or_else(|number| (0, -number), |value| (value, 0));
        self.send(libc::seccomp_notif_resp { id: notice.id, val, error, flags: 0 });
    }

    fn send(&self, mut answer: libc::seccomp_notif_resp) {
        // This fails only if the caller is gone.
        let _ = call(self.0.as_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &mut answer);
    }

    /// Gives the caller a descriptor of `file`, and its number as the result of the call.
    pub fn give(&self, notice: &Notice, file: BorrowedFd<'_>, is_closed_at_exec: bool) -> io::Result<()> {
        give(self.0.as_fd(), notice.id, file, is_closed_at_exec).map(drop)
    }
}

/// Fails with ENOENT for an unknown call. Linux before 5.14 fails with EINVAL.
pub fn give(listener: BorrowedFd<'_>, id: u64, file: BorrowedFd<'_>, is_closed_at_exec: bool) -> io::Result<i32> {
    let mut given = libc::seccomp_notif_addfd {
        id,
        flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
        srcfd: file.as_raw_fd() as u32,
        newfd: 0,
        newfd_flags: if is_closed_at_exec { libc::O_CLOEXEC as u32 } else { 0 },
    };
    call(listener, libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut given)
}

#[allow(unsafe_code)]
fn call<T>(listener: BorrowedFd<'_>, request: libc::Ioctl, argument: &mut T) -> io::Result<i32> {
    const { assert!(mem::size_of::<T>() >= 8) };
    // SAFETY: each request above comes with the struct that the kernel defines for it, or a larger one, alive and
    // writable during the call.
    match unsafe { libc::ioctl(listener.as_raw_fd(), request, std::ptr::from_mut(argument)) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

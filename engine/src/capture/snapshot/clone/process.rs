//! The child that copies a snapshot, as a process: starts it, watches it, ends it.

use super::child::Parent;
use crate::{
    device::forks,
    ground::{above_standard, files},
};
use nix::sys::signal::{SigSet, SigmaskHow};
use std::{
    io::{self, PipeWriter},
    mem,
    ops::Range,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

#[derive(Debug)]
pub(super) struct Process {
    pub(super) pidfd: OwnedFd,
    ended: Option<Ended>,
    /// The child ends when this is closed.
    _life: PipeWriter,
    /// The fork count of this process when it made the child. In a forked process, the child is not its child.
    forks: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    ByItself,
    BySignal(i32),
    /// The child has ended, and the kernel has already reported its status to other code.
    Unknown,
}

impl Process {
    /// Clones this process; the clone only runs `run`. `passed_on`: pages that children do not get otherwise, but the
    /// clone gets.
    pub(super) fn clone_now(passed_on: &[Range<usize>], run: impl FnOnce(Parent)) -> io::Result<Process> {
        let (end, life) = files::pipe()?;
        // Otherwise a signal to all processes of a job would run the program's handlers in the clone.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let parent = Parent::this(end.as_fd());
        passed_on.iter().for_each(|pages| advise(pages, libc::MADV_DOFORK));
        let made = above_standard(|| clone(|| run(parent)));
        passed_on.iter().for_each(|pages| advise(pages, libc::MADV_DONTFORK));
        let restored = mask.thread_set_mask();
        let process = Process { pidfd: made?, ended: None, _life: life, forks: forks() };
        restored?;
        Ok(process)
    }

    /// The end of the child, if it has ended.
    pub(super) fn poll_ended(&mut self) -> Option<Ended> {
        self.ended = self.ended.or_else(|| self.reap(libc::WNOHANG));
        self.ended
    }

    #[cfg(test)]
    pub(super) fn await_end(&mut self) -> Ended {
        let ended = self.ended.or_else(|| self.reap(0)).unwrap_or(Ended::Unknown);
        *self.ended.insert(ended)
    }

    #[allow(unsafe_code)]
    fn reap(&self, options: libc::c_int) -> Option<Ended> {
        loop {
            // SAFETY: any bytes are a valid one, which outlives the call.
            let mut said: libc::siginfo_t = unsafe { mem::zeroed() };
            let (fd, options) = (self.pidfd.as_raw_fd() as libc::id_t, libc::WEXITED | libc::__WALL | options);
            // SAFETY: as above; the descriptor is that of the child, and no other is touched.
            let returned = unsafe { libc::waitid(libc::P_PIDFD, fd, &mut said, options) };
            if returned == 0 {
                // SAFETY: waitid fills these fields.
                let (pid, status) = unsafe { (said.si_pid(), said.si_status()) };
                return match said.si_code {
                    _ if pid == 0 => None,
                    libc::CLD_EXITED => Some(Ended::ByItself),
                    _ => Some(Ended::BySignal(status)),
                };
            }
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return Some(Ended::Unknown);
            }
        }
    }
}

impl Drop for Process {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if self.ended.is_none() && self.forks == forks() {
            let null = std::ptr::null::<libc::siginfo_t>();
            // SAFETY: the descriptor is that of our own child, even if another process has its number by now.
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.pidfd.as_raw_fd(), libc::SIGKILL, null, 0) };
            self.reap(0);
        }
    }
}

/// A child with a copy of this process's memory. `wait` does not find it, and its end sends no signal.
#[allow(unsafe_code)]
fn clone(run: impl FnOnce()) -> io::Result<OwnedFd> {
    let mut pidfd: libc::c_int = -1;
    let flags = libc::CLONE_PIDFD as libc::c_long;
    // SAFETY: without a stack of its own, the child goes on here, on a copy of this one, and ends below. The work of
    // glibc around a fork is left out on purpose: the child calls nothing that needs it.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    match pid {
        0 => {
            run();
            // SAFETY: nothing of this process is cleaned up, because all of it is the program's.
            unsafe { libc::_exit(0) }
        }
        pid if pid > 0 => {
            // SAFETY: a new descriptor, which nothing else owns.
            Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[allow(unsafe_code)]
fn advise(pages: &Range<usize>, advice: libc::c_int) {
    // SAFETY: changes whether children inherit pages of our own (`Transfer::new`); a failure shows in the child.
    unsafe { libc::madvise(pages.start as *mut libc::c_void, pages.len(), advice) };
}

/// Whether the child will be able to close the program's files: a pipe that it held open would not end.
#[allow(unsafe_code)]
pub(super) fn check_descriptors_close() -> io::Result<()> {
    // SAFETY: closes no descriptor, because none has such a number.
    let returned = unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, 0) };
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

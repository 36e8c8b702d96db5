//! The child that copies a snapshot, as a process: made, watched, ended.

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
    /// How often this process had come out of a fork when it made the child, which is a child of none that it forks since.
    forks: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    ByItself,
    BySignal(i32),
    /// The child has ended, and somebody else has asked the kernel how.
    Unknown,
}

impl Process {
    /// Clones this process, for `run` to be all that the clone does. `passed_on`: pages that children do not get
    /// otherwise, and the clone gets.
    pub(super) fn clone_now(passed_on: &[Range<usize>], run: impl FnOnce(Parent)) -> io::Result<Process> {
        let (end, life) = files::pipe()?;
        // A signal that is sent to all processes of a job would have the program's handlers run in the clone.
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

    /// How it has ended, if it has.
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
            // SAFETY: as above; the descriptor is a child's, and no other is touched.
            let returned = unsafe { libc::waitid(libc::P_PIDFD, fd, &mut said, options) };
            if returned == 0 {
                // SAFETY: these fields are what waitid fills.
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
            // SAFETY: the descriptor is that of our own child, whatever process has its number by now.
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.pidfd.as_raw_fd(), libc::SIGKILL, null, 0) };
            self.reap(0);
        }
    }
}

/// A child with a copy of this process's memory: none that `wait` finds, and whose end no signal tells.
#[allow(unsafe_code)]
fn clone(run: impl FnOnce()) -> io::Result<OwnedFd> {
    let mut pidfd: libc::c_int = -1;
    let flags = libc::CLONE_PIDFD as libc::c_long;
    // SAFETY: with no stack of its own the child goes on here, on a copy of this one, and ends below. What
    // glibc does around a fork is left out on purpose: the child calls nothing that would need it.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    match pid {
        0 => {
            run();
            // SAFETY: nothing of this process is cleaned up, as all of it is the program's.
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
    // SAFETY: whether children inherit pages of our own (`Transfer::new`); a failure shows in the child.
    unsafe { libc::madvise(pages.start as *mut libc::c_void, pages.len(), advice) };
}

/// Whether the child will be able to let go of the program's files: a pipe that it held would not end.
#[allow(unsafe_code)]
pub(super) fn check_descriptors_close() -> io::Result<()> {
    // SAFETY: closes no descriptor, as there is none with such a number.
    let returned = unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, 0) };
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

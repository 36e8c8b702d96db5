//! Waiting for another process: a futex in shared memory, with a count of waiters, so that a wake without waiters costs
//! no system call.
//!
//! Every wait ends after 20 ms at the latest: the process that should have woken the waiter may be dead, and these
//! words may hold any value.

use crate::ground::world;
use std::{
    ptr,
    sync::atomic::{AtomicU32, Ordering, fence},
    time::Duration,
};

const TIME_OUT_NS: i64 = 20_000_000;

#[repr(C, align(64))]
pub(super) struct Signal {
    /// Incremented by each wake.
    sequence: AtomicU32,
    waiters: AtomicU32,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited<T> {
    Ready(T),
    Woken,
    TimedOut,
}

impl Signal {
    /// Registers as a waiter, calls `ready`, and sleeps if that returns `None`.
    pub(super) fn wait<T>(&self, ready: impl FnOnce() -> Option<T>) -> Waited<T> {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let seen = self.sequence.load(Ordering::SeqCst);
        // Either `ready` sees the work that the other side did before it looked for waiters, or the other side sees
        // this waiter.
        fence(Ordering::SeqCst);
        let waited = match ready() {
            Some(ready) => Waited::Ready(ready),
            None if self.sleep(seen) => Waited::Woken,
            None => Waited::TimedOut,
        };
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    /// Whether a process waits. A waiter that died counts forever, which only makes the callers slower.
    pub(super) fn has_waiters(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0
    }

    #[cfg(test)]
    pub(super) fn waiters(&self) -> u32 {
        self.waiters.load(Ordering::SeqCst)
    }

    #[cfg(test)]
    pub(super) fn sequence(&self) -> u32 {
        self.sequence.load(Ordering::SeqCst)
    }

    pub(super) fn wake_one(&self) {
        self.wake(1);
    }

    pub(super) fn wake_all(&self) {
        self.wake(i32::MAX);
    }

    #[allow(unsafe_code)]
    fn wake(&self, count: i32) {
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) == 0 {
            return;
        }
        self.sequence.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the word lives as long as `self`; the kernel only looks up its address.
        unsafe { libc::syscall(libc::SYS_futex, self.sequence.as_ptr(), libc::FUTEX_WAKE, count) };
    }

    /// Sleeps. Returns whether the sleep ended before its timeout.
    #[allow(unsafe_code)]
    fn sleep(&self, seen: u32) -> bool {
        if let Some(world) = world() {
            let until = world.now() + Duration::from_nanos(TIME_OUT_NS as u64);
            return world.wait("a process", Some(until), &mut || self.sequence.load(Ordering::SeqCst) != seen);
        }
        let time = libc::timespec { tv_sec: 0, tv_nsec: TIME_OUT_NS };
        let none = ptr::null::<u32>();
        // SAFETY: as in `wake`; `time` outlives the call. The futex is not private, because other processes wake it.
        let ended =
            unsafe { libc::syscall(libc::SYS_futex, self.sequence.as_ptr(), libc::FUTEX_WAIT, seen, &time, none, 0) };
        ended == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
    }
}

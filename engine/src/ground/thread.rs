//! Threads of our own in the program's process.

use super::lock;
use crate::error::{Error, Result};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::{
    io,
    sync::Mutex,
    thread::{self, JoinHandle, Scope, ScopedJoinHandle},
};

/// Starts a thread that gets none of the program's signals: signals are for the program's own threads.
pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    without_signals(|| thread::Builder::new().name(name).spawn(work))
}

/// Like `spawn`, for work that borrows.
pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    without_signals(|| thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work))
}

/// Whether a thread takes a processor from who runs there as soon as it has something to do, or waits for the end of that one's
/// time slice.
#[derive(Debug)]
pub(crate) struct Urgency {
    /// `None`: as the user has it, who has set something else.
    is_urgent: Option<bool>,
}

impl Urgency {
    pub(crate) fn of_this_thread() -> Urgency {
        // SAFETY: 0 is the calling thread.
        #[allow(unsafe_code)]
        let policy = unsafe { libc::sched_getscheduler(0) };
        Urgency { is_urgent: (policy == libc::SCHED_OTHER).then_some(true) }
    }

    /// Only on the thread that this is of.
    pub(crate) fn set(&mut self, is_urgent: bool) {
        if self.is_urgent.is_none_or(|now| now == is_urgent) {
            return;
        }
        let policy = if is_urgent { libc::SCHED_OTHER } else { libc::SCHED_BATCH };
        let priority = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and the priority outlives the call.
        #[allow(unsafe_code)]
        let set = unsafe { libc::sched_setscheduler(0, policy, &priority) };
        self.is_urgent = (set == 0).then_some(is_urgent);
    }
}

/// More threads are no faster: a few come near to what memory gives.
const AT_ONCE_MAX: usize = 4;

/// How many threads a rank may keep busy at once, where `ranks` ranks share the processors.
pub(crate) fn threads_at_once(ranks: usize) -> usize {
    thread::available_parallelism().map_or(1, |cores| (cores.get() / ranks.max(1)).clamp(1, AT_ONCE_MAX))
}

/// Has `work` done for each of `all`, by up to `threads` threads, the calling one among them.
pub(crate) fn each_at_once<T: Send>(threads: usize, name: &str, all: Vec<T>, work: impl Fn(T) + Sync) {
    let wanted = threads.min(all.len()).saturating_sub(1);
    let all = Mutex::new(all.into_iter());
    let next = || lock(&all).next();
    let work = || std::iter::from_fn(next).for_each(&work);
    thread::scope(|scope| {
        // Without a further thread it takes longer, and is done all the same.
        let _ = (0..wanted).take_while(|_| spawn_scoped(scope, name, work).is_ok()).count();
        work();
    });
}

fn without_signals<T>(start: impl FnOnce() -> io::Result<T>) -> Result<T> {
    let failed = |e| Error::io("starting", "a thread", e);
    let mut blocked = SigSet::all();
    // A fault of the thread itself, or in memory of the program that it touches, is answered at once.
    for own in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP] {
        blocked.remove(own);
    }
    // A new thread inherits the mask.
    let mask = blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(|errno| failed(errno.into()))?;
    let started = start().map_err(failed);
    mask.thread_set_mask().map_err(|errno| failed(errno.into()))?;
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(unsafe_code)]
    fn policy() -> i32 {
        // SAFETY: 0 is the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_is_urgent_or_not_unless_the_user_has_set_something_else() {
        let mut urgency = Urgency::of_this_thread();
        let found = [true, false, false, true].map(|is_urgent| {
            urgency.set(is_urgent);
            policy()
        });
        assert_eq!(found, [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_BATCH, libc::SCHED_OTHER]);
        urgency.set(false);
        let mut urgency = Urgency::of_this_thread();
        urgency.set(true);
        assert_eq!(policy(), libc::SCHED_BATCH);
    }

    #[test]
    fn each_is_done_once_whatever_the_number_of_threads() {
        for (threads, count) in [(0, 5), (1, 5), (3, 2), (3, 100), (4, 0)] {
            let done = Mutex::new(Vec::new());
            each_at_once(threads, "test", (0..count).collect(), |one: usize| lock(&done).push(one));
            let mut done = done.into_inner().unwrap();
            done.sort_unstable();
            assert_eq!(done, (0..count).collect::<Vec<_>>(), "{threads} threads");
        }
    }
}

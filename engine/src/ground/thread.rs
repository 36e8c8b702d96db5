//! Mainstay's own threads in the program's process.

use super::{lock, world};
use crate::error::{Error, Result};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::{
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr, slice,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// A thread of Mainstay's own that returns a `T`.
#[derive(Debug)]
pub(crate) struct Thread<T> {
    end: Arc<End<T>>,
    /// `None`: the thread is in a simulated world.
    handle: Option<JoinHandle<()>>,
}

/// The end of a thread.
#[derive(Debug)]
struct End<T> {
    result: Mutex<Option<thread::Result<T>>>,
    is_over: AtomicBool,
}

/// Where threads are started that borrow; all end before `scope` returns.
pub(crate) struct Scope<'scope, 'env> {
    threads: &'scope thread::Scope<'scope, 'env>,
    /// The ends of threads in a simulated world.
    simulated: Mutex<Vec<Arc<End<()>>>>,
}

impl<T> End<T> {
    fn new() -> Arc<End<T>> {
        Arc::new(End { result: Mutex::new(None), is_over: AtomicBool::new(false) })
    }

    /// Does `work`, and keeps its result, even if it panics.
    fn keep_result_of(&self, work: impl FnOnce() -> T) {
        let result = catch_unwind(AssertUnwindSafe(|| in_default_arithmetic(work)));
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.is_over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn take(&self) -> Option<thread::Result<T>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> Thread<T> {
    pub(crate) fn is_finished(&self) -> bool {
        self.end.is_over()
    }

    pub(crate) fn join(self) -> thread::Result<T> {
        match self.handle {
            Some(handle) => handle.join()?,
            None => wait_for(slice::from_ref(&self.end)),
        }
        self.end.take().expect("the result of a thread that is over")
    }
}

/// Waits for threads of a simulated world.
fn wait_for<T>(all: &[Arc<End<T>>]) {
    if let Some(world) = world() {
        world.wait("a thread", None, &mut || all.iter().all(|end| end.is_over()));
    }
}

/// Starts a thread that gets none of the program's signals, and does not trap if a program has enabled traps for
/// underflow.
pub(crate) fn spawn<T: Send + 'static>(name: String, work: impl FnOnce() -> T + Send + 'static) -> Result<Thread<T>> {
    let end = End::new();
    let of_thread = end.clone();
    let run = move || of_thread.keep_result_of(work);
    let handle = match world() {
        Some(world) => {
            world.start(&name, Box::new(run));
            None
        }
        None => Some(without_signals(|| thread::Builder::new().name(name).spawn(run))?),
    };
    Ok(Thread { end, handle })
}

/// Runs `work`, which may start threads that borrow.
pub(crate) fn scope<'env, T>(work: impl for<'scope> FnOnce(&Scope<'scope, 'env>) -> T) -> T {
    thread::scope(|threads| work(&Scope { threads, simulated: Mutex::default() }))
}

impl<'scope> Scope<'scope, '_> {
    /// Like `spawn`, for work that borrows.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'scope) -> Result<()> {
        match world() {
            Some(world) => {
                let end = End::new();
                let of_thread = end.clone();
                let run: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || of_thread.keep_result_of(work));
                // SAFETY: only the lifetime changes. The scope ends after the thread, and before the values that it borrows.
                #[allow(unsafe_code)]
                let run = unsafe { mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, Box<dyn FnOnce() + Send>>(run) };
                world.start(name, run);
                lock(&self.simulated).push(end);
            }
            None => {
                let run = || in_default_arithmetic(work);
                without_signals(|| thread::Builder::new().name(name.to_owned()).spawn_scoped(self.threads, run))?;
            }
        }
        Ok(())
    }
}

/// Waits for the threads of a simulated world. `std` waits for those of the system.
impl Drop for Scope<'_, '_> {
    fn drop(&mut self) {
        let simulated = mem::take(&mut *lock(&self.simulated));
        wait_for(&simulated);
        let panic = simulated.iter().find_map(|end| end.take()?.err());
        if let Some(panic) = panic.filter(|_| !thread::panicking()) {
            resume_unwind(panic);
        }
    }
}

/// Whether a thread with new work interrupts the running thread at once, or waits for the end of its time slice.
#[derive(Debug)]
pub(crate) struct Urgency {
    /// `None`: the user has chosen another policy, which stays.
    is_urgent: Option<bool>,
}

impl Urgency {
    pub(crate) fn of_this_thread() -> Urgency {
        // SAFETY: 0 is the calling thread.
        #[allow(unsafe_code)]
        let policy = unsafe { libc::sched_getscheduler(0) };
        Urgency { is_urgent: (policy == libc::SCHED_OTHER).then_some(true) }
    }

    /// Call it only on the thread that this belongs to.
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

/// More threads are not faster: a few nearly reach the speed of memory.
const AT_ONCE_MAX: usize = 4;

/// The number of threads that a rank may keep busy at once, if `ranks` ranks share the processors.
pub(crate) fn threads_at_once(ranks: usize) -> usize {
    thread::available_parallelism().map_or(1, |cores| (cores.get() / ranks.max(1)).clamp(1, AT_ONCE_MAX))
}

/// Runs `work` for each of `all`, on up to `threads` threads including the calling one.
pub(crate) fn each_at_once<T: Send>(threads: usize, name: &str, all: Vec<T>, work: impl Fn(T) + Sync) {
    let wanted = threads.min(all.len()).saturating_sub(1);
    let all = Mutex::new(all.into_iter());
    let next = || lock(&all).next();
    let work = || std::iter::from_fn(next).for_each(&work);
    scope(|scope| {
        // Without further threads it takes longer, but is done.
        let _ = (0..wanted).take_while(|_| scope.spawn(name, work).is_ok()).count();
        work();
    });
}

fn without_signals<T>(start: impl FnOnce() -> io::Result<T>) -> Result<T> {
    let failed = |e| Error::io("starting", "a thread", e);
    let mut blocked = SigSet::all();
    // Signals of the thread's own faults, or of faults in the program's memory, are handled at once.
    for own in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP] {
        blocked.remove(own);
    }
    // A new thread inherits the mask.
    let mask = blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(|errno| failed(errno.into()))?;
    let started = start().map_err(failed);
    mask.thread_set_mask().map_err(|errno| failed(errno.into()))?;
    started
}

/// Runs `work` on a new thread in the default floating-point environment: a thread inherits rounding and traps from its
/// creator.
fn in_default_arithmetic<T>(work: impl FnOnce() -> T) -> T {
    #[allow(unsafe_code)]
    unsafe extern "C" {
        /// From C's fenv.h.
        fn fesetenv(environment: *const libc::c_void) -> libc::c_int;
    }
    /// The environment in which programs start, in all C libraries of Linux.
    const FE_DFL_ENV: *const libc::c_void = ptr::without_provenance(usize::MAX);
    // SAFETY: nothing is read at that address, which is only a marker. Only this thread changes, and it has not
    // computed anything yet.
    #[allow(unsafe_code)]
    unsafe {
        fesetenv(FE_DFL_ENV);
    }
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI32;

    /// Story: a Fortran program with -ffpe-trap=underflow died of a predictor's computation in a thread of its own.
    #[test]
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    fn a_thread_does_not_trap_where_its_maker_does() {
        #[allow(unsafe_code)]
        unsafe extern "C" {
            fn feenableexcept(exceptions: i32) -> i32;
            fn fedisableexcept(exceptions: i32) -> i32;
            fn fegetexcept() -> i32;
        }
        const UNDERFLOW: i32 = 0x10;
        // SAFETY: only this thread changes, and nothing underflows meanwhile.
        #[allow(unsafe_code)]
        let traps = || unsafe { fegetexcept() };
        #[allow(unsafe_code)]
        // SAFETY: as above.
        unsafe {
            feenableexcept(UNDERFLOW);
        }
        let own = traps();
        let of_thread = spawn("test".to_owned(), traps).unwrap().join().unwrap();
        let of_scoped = AtomicI32::new(-1);
        scope(|scope| scope.spawn("test", || of_scoped.store(traps(), Ordering::Relaxed)).unwrap());
        #[allow(unsafe_code)]
        // SAFETY: as above.
        unsafe {
            fedisableexcept(UNDERFLOW);
        }
        assert_eq!((own, of_thread, of_scoped.into_inner()), (UNDERFLOW, 0, 0));
    }

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

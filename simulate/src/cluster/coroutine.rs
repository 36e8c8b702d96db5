//! Threads of the cluster as coroutines: one hands over to the next without the system.

use corosensei::{CoroutineResult, Yielder, stack::DefaultStack};
use std::{
    cell::{Cell, RefCell},
    ptr,
};

const STACK_BYTES: usize = 2 << 20;

thread_local! {
    /// Suspends the coroutine that runs on this thread of the system.
    static RUNNING: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
    /// Stacks of coroutines that have ended.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Work that can stop in its middle. If it is dropped there, no destructor of the work runs, as in a killed process.
pub(super) struct Coroutine(Option<corosensei::Coroutine<(), (), ()>>);

// SAFETY: the thread of the system that runs the cluster starts, resumes and drops all coroutines of it.
#[allow(unsafe_code)]
unsafe impl Send for Coroutine {}

impl Coroutine {
    pub(super) fn of(work: impl FnOnce() + Send + 'static) -> Coroutine {
        let stack = STACKS.with_borrow_mut(Vec::pop);
        let stack = stack.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("memory for a stack"));
        let run = |yielder: &Yielder<(), ()>, ()| {
            RUNNING.set(yielder);
            work();
        };
        Coroutine(Some(corosensei::Coroutine::with_stack(stack, run)))
    }

    /// Goes on with the work until it stops or is over. Returns whether it is over.
    pub(super) fn resume(&mut self) -> bool {
        let coroutine = self.0.as_mut().expect("a coroutine that is not dropped");
        matches!(coroutine.resume(()), CoroutineResult::Return(()))
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        let Some(mut coroutine) = self.0.take() else { return };
        // SAFETY: the work is over, or the whole run is, so nothing uses values on this stack again.
        #[allow(unsafe_code)]
        unsafe {
            coroutine.force_reset();
        }
        STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
    }
}

/// Stops the coroutine that runs until another `resume`.
pub(super) fn suspend() {
    let yielder = RUNNING.get();
    // SAFETY: the yielder lives as long as the work of its coroutine, which is here.
    #[allow(unsafe_code)]
    unsafe {
        (*yielder).suspend(());
    }
    RUNNING.set(yielder);
}

//! Watches the thread that runs ranks, and interrupts a rank that makes no call of the gate for long. So it can be saved.
#![allow(unsafe_code)]

use crate::x86_64::{INTERRUPT, is_in_rank};
use std::{
    sync::{
        Once,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// A rank is interrupted after 10 to 20 ms without a call.
const LONG: Duration = Duration::from_millis(10);
/// The number of times that a rank was started or resumed.
static STARTS: AtomicU64 = AtomicU64::new(0);
/// The rank that runs has made no call for long.
static IS_LONG: AtomicBool = AtomicBool::new(false);

/// A rank starts to run, or goes on after a call.
pub(super) fn rank_starts() {
    // One thread runs all ranks, so no other one changes the number.
    STARTS.store(STARTS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    IS_LONG.store(false, Ordering::Relaxed);
}

pub(super) fn is_long() -> bool {
    IS_LONG.load(Ordering::Relaxed)
}

/// Starts the thread that watches this one, once for the process. It also takes the signals that this one blocks.
pub(super) fn this_thread() {
    static WATCHES: Once = Once::new();
    // SAFETY: asks for the number of this thread. A wheel's C library has no function for it.
    let runner = unsafe { libc::syscall(libc::SYS_gettid) };
    WATCHES.call_once(|| {
        thread::spawn(move || watch(runner));
    });
}

fn watch(runner: libc::c_long) -> ! {
    let mut last = 0;
    loop {
        thread::sleep(LONG);
        let starts = STARTS.load(Ordering::Relaxed);
        IS_LONG.store(starts == last, Ordering::Relaxed);
        if starts == last && is_in_rank() {
            // SAFETY: that thread has a handler for the signal, which ignores it outside of a rank.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), runner, INTERRUPT) };
        }
        last = starts;
    }
}

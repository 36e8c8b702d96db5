//! The judge of a target: no panic, and bounds on memory and on processor time.
#![allow(unsafe_code)]

use crate::{Target, memory, seed::tell};
use std::{
    panic,
    process::abort,
    ptr,
    sync::{Mutex, Once, PoisonError},
};

/// Processor seconds for one input. Most take some microseconds.
const SECONDS_MAX: i64 = 3;

/// The fault of a target.
pub type Verdict = Result<(), String>;

static PANIC: Mutex<String> = Mutex::new(String::new());

/// Judges one input after the other. Only one thread of a process may do so at a time: the bounds count for all of it.
pub struct Judge {
    target: &'static Target,
}

impl Judge {
    pub fn of(target: &'static Target) -> Judge {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            panic::set_hook(Box::new(|info| *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string()));
            // SAFETY: the handler ends the process. It prints first, and the interrupted code prints nothing.
            unsafe { libc::signal(libc::SIGPROF, took_too_long as *const () as usize) };
        });
        Judge { target }
    }

    /// Lets the target read the bytes, as they are and with repaired checksums.
    pub fn judge(&self, seed: u64, bytes: &[u8]) -> Verdict {
        crate::seed::begin(seed);
        let mut repaired = bytes.to_vec();
        (self.target.repair)(&mut repaired);
        self.read(bytes)?;
        if repaired == bytes { Ok(()) } else { self.read(&repaired) }
    }

    fn read(&self, bytes: &[u8]) -> Verdict {
        let begins = memory::begin();
        limit_time(SECONDS_MAX);
        let read = panic::catch_unwind(|| (self.target.read)(bytes));
        limit_time(0);
        let (took, most) = (memory::peak() - begins, self.target.memory.at_most(bytes.len()));
        read.map_err(|_| PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone())?;
        let too_much =
            || format!("it took {took} bytes of memory for an input of {}: at most {most} are right", bytes.len());
        if took <= most { Ok(()) } else { Err(too_much()) }
    }
}

extern "C" fn took_too_long(_: i32) {
    tell(&format_args!("it took more than {SECONDS_MAX} s of processor time"));
    abort();
}

/// Sends SIGPROF after so many seconds of processor time; 0: never.
fn limit_time(seconds: i64) {
    let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let limit = libc::itimerval { it_interval: zero, it_value: libc::timeval { tv_sec: seconds, ..zero } };
    // SAFETY: the kernel reads the limit, and writes nothing.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &limit, ptr::null_mut()) };
}

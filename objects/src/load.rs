//! Measuring work: processor time, not wall-clock time, because other processes take part of that.

/// Processor time of this thread so far, in nanoseconds.
pub(crate) fn processor_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written into `now`, a local variable.
    #[allow(unsafe_code)]
    let told = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    if told == 0 { now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 } else { 0 }
}

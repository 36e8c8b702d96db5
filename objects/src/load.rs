//! What work takes: the time of a processor, not that of the clock on the wall, which others take a part of.

/// What this thread has had of a processor so far, in nanoseconds.
pub(crate) fn processor_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written into `now`, which is ours.
    #[allow(unsafe_code)]
    let told = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    if told == 0 { now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 } else { 0 }
}

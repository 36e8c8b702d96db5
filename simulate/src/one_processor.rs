//! The processor of a run.

/// Keeps the threads of a run on one processor, so that one hands over to the next without waking another processor.
pub struct OneProcessor(libc::cpu_set_t);

impl OneProcessor {
    /// The processor is chosen by `number` of those that this thread may use.
    pub fn choose(number: usize) -> OneProcessor {
        // SAFETY: all zeros are a valid set, and the sets outlive the calls.
        #[allow(unsafe_code)]
        unsafe {
            let mut before: libc::cpu_set_t = std::mem::zeroed();
            let bytes = size_of_val(&before);
            if libc::sched_getaffinity(0, bytes, &raw mut before) == 0 {
                let all: Vec<usize> =
                    (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &before)).collect();
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(all[number % all.len().max(1)], &mut one);
                libc::sched_setaffinity(0, bytes, &raw const one);
            }
            OneProcessor(before)
        }
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // SAFETY: as above.
        #[allow(unsafe_code)]
        unsafe {
            libc::sched_setaffinity(0, size_of_val(&self.0), &raw const self.0);
        }
    }
}

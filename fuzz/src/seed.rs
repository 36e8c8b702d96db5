//! The input that is being read, for messages of faults that end the process.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

static SEED: AtomicU64 = AtomicU64::new(0);

/// The input of this seed is read from now on.
pub(crate) fn begin(seed: u64) {
    SEED.store(seed, Relaxed);
}

/// Prints a fault that may end the process.
pub(crate) fn tell(what: &fmt::Arguments) {
    eprintln!("seed {}: {what}", SEED.load(Relaxed));
}

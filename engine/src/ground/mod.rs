//! What every stage stands on, and what stands on nothing of ours but the errors: the time, threads, and locks within
//! the process.
//!
//! What must hold: time is taken here alone, so that a simulation can give another one.

mod clock;
mod lock;
mod thread;

pub use clock::unix_ns;
pub(crate) use clock::{Instant, sleep};
pub(crate) use lock::lock;
pub(crate) use thread::{spawn, spawn_scoped};

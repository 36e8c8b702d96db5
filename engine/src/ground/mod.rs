//! What every stage stands on: the time, threads, and locks within the process. This folder itself uses nothing of ours
//! but the errors.
//!
//! What must hold: time is taken in this folder alone, so that a simulation can give another one.

mod clock;
pub(crate) mod control_group;
mod lock;
mod thread;

pub use clock::unix_ns;
pub(crate) use clock::{Instant, pause, processor_us, sleep};
pub(crate) use lock::lock;
pub(crate) use thread::{Urgency, each_at_once, spawn, spawn_scoped, threads_at_once};

//! The basis of every stage: time, threads, locks within the process, and opening files. From the rest of Mainstay,
//! this folder uses only the errors.
//!
//! Invariant: time is read only in this folder, so a simulation can replace it. Files are opened only in this folder,
//! so no descriptor is below 3.

mod clock;
pub(crate) mod control_group;
mod descriptor;
pub(crate) mod files;
mod lock;
mod thread;

pub use clock::unix_ns;
pub(crate) use clock::{Instant, pause, processor_us, sleep, thread_time};
pub(crate) use descriptor::above_standard;
pub use files::{kernel_bytes, kernel_text};
pub(crate) use lock::lock;
pub(crate) use thread::{Urgency, each_at_once, spawn, spawn_scoped, threads_at_once};

//! What every stage stands on: the time, threads, locks within the process, and opening files. This folder itself uses
//! nothing of ours but the errors.
//!
//! What must hold: time is taken in this folder alone, so that a simulation can give another one; and files are opened in this
//! folder alone, so that no descriptor is below 3.

mod clock;
pub(crate) mod control_group;
mod descriptor;
pub(crate) mod files;
mod lock;
mod thread;

pub use clock::unix_ns;
pub(crate) use clock::{Instant, pause, processor_us, sleep};
pub(crate) use descriptor::above_standard;
pub use files::{kernel_bytes, kernel_text};
pub(crate) use lock::lock;
pub(crate) use thread::{Urgency, each_at_once, spawn, spawn_scoped, threads_at_once};

//! The basis of every stage: time, threads, locks within the process, and opening files. From the rest of Mainstay,
//! this folder uses only the errors.
//!
//! Invariants: time is read only in this folder. All waits of the engine are here, so a simulation can replace them
//! (`world`); only `group` has others, for MPI and for threads as ranks. Files are opened only in this folder, so no
//! descriptor is below 3.

pub(crate) mod change;
mod clock;
pub(crate) mod control_group;
mod descriptor;
pub(crate) mod files;
mod lock;
mod system;
mod thread;
mod wait;
#[cfg_attr(not(feature = "simulation"), allow(dead_code, reason = "only a simulated world reads them"))]
mod world;

pub use clock::unix_ns;
pub(crate) use clock::{Instant, pause, processor_us, sleep, thread_time};
pub(crate) use descriptor::above_standard;
pub use files::{kernel_bytes, kernel_text};
pub(crate) use lock::{Once, lock};
pub(crate) use system::{process_id, random, variable};
pub(crate) use thread::{Scope, Thread, Urgency, each_at_once, scope, spawn, threads_at_once};
pub(crate) use wait::{Condvar, receive};
#[cfg(not(feature = "simulation"))]
pub(crate) use world::FileOperation;
#[cfg(feature = "simulation")]
pub use world::{FileOperation, World, current_world, set_world};
pub(crate) use world::{is_on_simulated_disk, perform, world};

//! A cluster in one process: the engine as it is, under every schedule and every fault that a seed draws.
//!
//! A `plan` has the jobs that run one after the other, and their faults. `job` runs them in a `cluster`, with messages by
//! `group`. A `judge` compares the restored state with the promises.

mod acts;
pub mod cluster;
mod fixed;
mod group;
mod job;
mod judge;
pub mod objects;
pub mod plan;
mod program;
mod run;
mod shrink;
pub mod slots;

pub use fixed::fix_addresses;
pub use run::{Ran, run};
pub use shrink::shrink;

//! A cluster in one process: the engine as it is, under every schedule and every fault that a seed draws.
//!
//! A `plan` has the jobs that run one after the other, and their faults. `job` runs them in a `cluster`, with messages by
//! `group`, with commands (`tool`) beside them. A `judge` compares the restored state with the promises.

mod acts;
pub mod cluster;
mod ending;
mod fixed;
mod folder;
mod group;
mod job;
mod judge;
mod left;
mod life;
mod lock;
mod mark;
pub mod objects;
mod openings;
mod operate;
pub mod plan;
mod program;
mod rot;
mod run;
mod shrink;
pub mod slots;
mod tool;
mod workload;

pub use fixed::fix_addresses;
pub use run::{Ran, run};
pub use shrink::shrink;

//! A cluster in one process: the engine as it is, under schedules and faults that a seed draws.
//!
//! A `plan` has jobs that run one after the other, and their faults. `operate` starts each `job` in a `cluster`, and commands
//! (`tool`) beside it. A rank's `life` makes the calls of its program; `group` carries the messages. A `judge` compares the
//! restored states with the promises. The programs have regions (`program`) or `objects`. `slots` has plans of its own: ranks
//! in slots that send messages.

mod acts;
pub mod cluster;
mod ending;
mod fixed;
mod folder;
mod group;
mod job;
mod judge;
mod leaks;
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

//! Carries bytes to the space: I/O threads hash, write, and at the end publish.
//!
//! Owns one revision on its way from t1 to t3. What must hold: nothing is written before the roots
//! that free its blocks are durable, and after a failed write the revision is never published; what the record
//! beside the pool calls done is in the space.

mod load;
mod order;
mod plan;
mod publish;
mod rows;
mod saving;
mod sizing;
mod threads;

pub(crate) use load::Load;
pub(crate) use order::Order;
pub(crate) use plan::{Contents, Plan, Staged};
pub(crate) use rows::Rows;
pub(crate) use saving::{Saving, lock};
pub(crate) use sizing::{RUNS, portion_blocks};
pub(crate) use threads::{IoThreads, spawn, spawn_scoped};

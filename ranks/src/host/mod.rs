//! The host: runs the ranks of this process in turn, and saves them together with the other hosts.
//!
//! Invariants: all hosts do the same collective calls in the same order, because process 0 alone decides on them and tells
//! the others. A host enters one only when all its ranks are at the gate.

mod job;
mod moving;
mod start;
mod trap;
mod turns;
mod watch;

pub use moving::Balance;
pub use start::{Ended, Options, Reserved, run};

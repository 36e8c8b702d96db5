//! Carries chunks to the space: I/O threads hash, write, and at the end publish.
//!
//! Owns one revision on its way from t1 to t3. What must hold: nothing is written before the roots
//! that free its blocks are durable, and after a failed write the revision is never published.

mod saving;
mod threads;

pub(crate) use saving::{Plan, Saving, lock};
pub(crate) use threads::IoThreads;

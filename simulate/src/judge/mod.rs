//! The judge of a run.

mod promises;
mod tended;

pub use promises::{Judge, Place};

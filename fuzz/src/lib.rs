//! Hostile bytes for every reader of foreign bytes.
//!
//! A *target* reads bytes as a file, a message or shared memory. Its inputs come from a seed: a kept file of Mainstay, changed
//! at random (`mutate`). Checksums are repaired, so that the bytes reach the reader behind them. A `judge` lets a target
//! neither panic, nor take much more memory or time than its input has bytes. `make` writes the kept files.

mod image;
mod judge;
pub mod kept;
pub mod make;
mod memory;
pub mod mutate;
mod patches;
mod program;
mod promises;
mod scratch;
mod seed;
mod target;
pub mod targets;

pub use judge::{Judge, Verdict};
pub use scratch::Scratch;
pub use target::{MemoryMax, Target};

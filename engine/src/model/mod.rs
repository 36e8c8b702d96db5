//! Theory of checkpointing: the best interval for each level, the remaining probability of failure, the size of the
//! pool, and the memory needed. Formulas only; nothing here measures or saves.

mod interval;
mod levels;
mod memory;
mod pool;
mod reliability;

pub use interval::{daly, young};
pub use levels::{LEVELS_MAX, LevelCost, Pattern, left_to, pattern};
pub use memory::memory_bytes;
pub use pool::{Staging, smallest_near_best};
pub use reliability::{failure_with_buddies, failure_without_checkpoints};

//! Theory of checkpointing: the best interval for each level, the remaining probability of failure, the size of the
//! pool, the memory needed, and the levels that suit a machine. Formulas, and a simulation that judges them; nothing here
//! measures or saves.

mod choice;
mod interval;
mod levels;
mod machine;
mod memory;
mod pool;
mod reliability;
mod simulation;

pub use choice::{Choice, choices, levels_on};
pub use interval::{daly, young};
pub use levels::{LEVELS_MAX, LevelCost, Pattern, left_to, pattern, pattern_of_all};
pub use machine::{Job, LevelCopies, Machine, SLOWDOWN_MAX};
pub use memory::memory_bytes;
pub use pool::{Staging, smallest_near_best};
pub use reliability::{failure_with_buddies, failure_without_checkpoints, last_copy_lost};
pub use simulation::{Schedule, Simulated, simulate};

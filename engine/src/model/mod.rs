//! What theory says of checkpointing: how often is best, and how large a pool. Formulas only; nothing here
//! measures or saves.

mod interval;
mod pool;

pub use interval::{daly, young};
pub use pool::{Staging, smallest_near_best};

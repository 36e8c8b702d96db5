//! Looking after a space.

mod checkpoint;
mod hold;
mod prune;
mod salvage;

pub use checkpoint::checkpoint;
pub use hold::{hold, release};
pub use prune::prune;
pub use salvage::salvage;

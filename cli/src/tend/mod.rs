//! Looking after a space.

mod checkpoint;
mod evacuate;
mod hold;
mod prune;
mod salvage;

pub use checkpoint::checkpoint;
pub use evacuate::evacuate;
pub use hold::{hold, release};
pub use prune::prune;
pub use salvage::salvage;

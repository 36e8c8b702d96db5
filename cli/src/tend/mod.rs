//! Tidying up a space, and requests to its job.

mod checkpoint;
mod evacuate;
mod hold;
mod prune;
mod rollback;
mod salvage;

pub use checkpoint::checkpoint;
pub use evacuate::evacuate;
pub use hold::{hold, release};
pub use prune::prune;
pub use rollback::rollback;
pub use salvage::salvage;

//! Taking revisions out of a space.

mod array;
mod copy;
mod cover;
mod export;
mod unfinished;
mod view;

pub use copy::copy;
pub use cover::{Block, left_by};
pub use export::export;
pub use view::view;

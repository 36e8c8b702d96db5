//! Taking a revision out of a space.

mod array;
mod cover;
mod export;
mod unfinished;
mod view;

pub use export::export;
pub use view::view;

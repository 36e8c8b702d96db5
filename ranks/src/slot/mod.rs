//! The contents of a slot: the memory that its rank has mapped, and how a rank begins in it.

mod areas;
mod clocks;
mod program;
mod start;

pub(crate) use areas::{Area, Areas, Source};
pub(crate) use program::{Library, Program};
pub(crate) use start::{Contents, Started, start};

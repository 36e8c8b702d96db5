//! Pieces of the helper's knowledge. None of them knows the whole.

pub(super) mod holders;
pub(super) mod kernel;
pub(super) mod lines;
pub(super) mod request;
pub(super) mod room;
pub(super) mod uncaught;

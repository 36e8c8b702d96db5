//! Parts of the helper's knowledge. They do not know each other.

pub(super) mod holders;
pub(super) mod kernel;
pub(super) mod lines;
pub(super) mod request;
pub(super) mod room;
pub(super) mod uncaught;

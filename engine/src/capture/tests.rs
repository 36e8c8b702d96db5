//! Helpers for the tests of this folder.

pub(super) mod confined;
pub(super) mod memory;

//! What the tests of this folder stand on.

pub(super) mod confined;
pub(super) mod memory;

//! Code that the commands on a space share.

pub mod asking;
pub mod completing;
pub mod holds;
pub mod revision;
pub mod staged;

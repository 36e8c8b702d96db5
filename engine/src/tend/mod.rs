//! Looks after a space from outside the job: holds and releases revisions, and prunes those that nobody
//! wants.
//!
//! What must hold: a job that is at work, or opens meanwhile, and what is done here never undo each other.
//! Holds are data in blocks of their own; everything else is done as a job does it, under its locks.

mod hold;
mod opening;
mod prune;
mod room;
mod rules;

pub use hold::{Holding, hold, hold_on, release, release_on, release_one};
pub use prune::{Pruned, prune, prune_on};
pub use rules::{Fate, Reason, Rules, fates};

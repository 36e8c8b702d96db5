//! Maintains a space from outside the job. It reserves room, holds and releases revisions, prunes unwanted ones, asks
//! the job for a checkpoint, and completes the staged data of a killed job.
//!
//! Invariant: this code and a job that runs, or opens the space meanwhile, never undo each other's work. Holds and
//! requests are data in blocks of their own; everything else is done as a job does it, under a job's locks.

mod emptied;
mod future_room;
mod hold;
mod opening;
mod prune;
mod request;
mod reserve;
mod rollback;
mod rules;
mod salvage;
mod sizing;
mod staged;
mod unseen;
mod without;

pub(crate) use opening::{begin_all, lineage_after, lock, open_all};
pub(crate) use reserve::{make_room, take_back};

pub use crate::salvage::GoneOver;
pub use hold::{Holding, has_room_for, hold, hold_on, release, release_on, release_one, release_one_on};
pub use prune::{Pruned, prunable, prune, prune_all, prune_on};
pub use request::Request;
pub use reserve::{
    Reservation, Reserved, ReservedFile, can_grow, grow, grow_on, growable, reservable, reserve, reserve_on,
};
pub use rollback::{RolledBack, after, held_after, rollback, rollback_on};
pub use rules::{Fate, Reason, Rules, fates};
pub use salvage::{Incomplete, PoolLeft, SalvageFate, Salvaged, SalvagedShard, salvage, salvageable};
pub use sizing::ShardSize;
pub use staged::{Staged, staged};
pub use unseen::Unseen;
pub use without::{Removed, removable, remove_revisions, remove_revisions_on};

//! Completes what ranks that were killed between t2 and t3 had staged: the data is in the node's pool still,
//! and the record beside it says where it belongs (DESIGN: "The commit, exactly").
//!
//! What must hold: only a process that holds the portion's lock completes anything in it, and only if the
//! portion's newest slot is the one that the record knows, or one that this revision wrote; a shard without
//! a valid seal, or with a byte missing, is never published; what nobody can claim any more is removed.

mod claim;
mod complete;
mod dead;
mod opening;
mod waiting;

pub(crate) use claim::is_gone;
pub(crate) use complete::{Completion, complete, prospect};
pub(crate) use dead::complete_dead;
pub(crate) use opening::{Left, at_opening, has_layout_of, is_open, is_ours, is_same, to_mend};
pub(crate) use waiting::{IN_POOL, open_dead};

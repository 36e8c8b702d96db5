//! Completes the shards that were staged by ranks killed between t2 and t3. The data is still in the node's pool, and
//! the record beside the pool has its place in the space.
//!
//! Invariants: only a process that holds the portion's lock completes anything in the portion. It does so only if the
//! portion's newest slot is the one in the record, or one that this revision wrote. A shard without a valid seal, or
//! with a missing byte, is never published. A pool that no job can claim any more is removed.
//! Lost data is removed only by the process that reports the loss.

mod claim;
mod complete;
mod dead;
mod frames;
mod gone_over;
mod opening;
mod waiting;

pub(crate) use claim::is_gone;
pub(crate) use complete::{SalvageOutcome, complete, prospect};
pub(crate) use dead::complete_dead;
pub use gone_over::GoneOver;
pub(crate) use opening::{Left, at_opening, has_layout_of, is_open, is_ours, is_same, to_mend};
pub(crate) use waiting::{IN_POOL, open_dead};

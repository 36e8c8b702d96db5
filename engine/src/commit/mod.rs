//! Makes a shard count: published in its portion, and found complete by all ranks.
//!
//! Owns the contents of a portion's two slots, and the order of syncs. Invariants:
//! - data, manifests and catalogue are durable before the slot that refers to them is written;
//! - a new root overwrites the slot with the lower sequence, never the only valid one;
//! - a block is written only when neither slot refers to it;
//! - a root can always be written: its catalogue has room, however large the shards are;
//! - blocks that are saved early for the next revision are free until then, and nothing else takes them;
//! - revisions that all ranks last agreed to be complete stay in every root, and so do held revisions.

mod allocation;
mod found;
mod free_maps;
mod lasting;
mod ledger;
mod protocol;
mod publication;
mod revision;
mod speculative;
mod staying;

pub(crate) use allocation::{Allocation, Need, Packing, RUNS};
pub(crate) use found::FoundLedger;
pub(crate) use lasting::{Counted, Shares, Stays, lacking};
pub(crate) use ledger::{Ledger, OpenedLedger};
pub(crate) use publication::{Described, Publication};
pub use revision::RevisionKey;
pub(crate) use revision::{Complete, Kept};
pub(crate) use speculative::SpeculativeRoom;

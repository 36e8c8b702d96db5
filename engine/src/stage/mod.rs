//! Moves the captured bytes out of the program's way.
//!
//! One stage with three parameters (`policy`): the owner of the buffer, the size from which pieces bypass it, the
//! thread that flushes. Owns the buffers that are being filled, and the making of the node's pool. If the portion is
//! memory, its own blocks are the buffers.
//!
//! Invariant: after t2 nothing here refers to the program's memory, except a snapshot of it. Every byte of the log is
//! written and hashed once, or the revision fails.

mod buffer;
mod buffering;
mod comparing;
mod direct;
mod gather;
mod late;
mod later;
mod making;
mod outlet;
mod policy;
mod source;
mod staging;
mod threshold;
mod touching;

pub(crate) use buffering::IN_PORTION_BYTES;
pub(crate) use later::Snapshots;
pub(crate) use making::PoolInMaking;
use outlet::FullBuffer;
pub(crate) use outlet::Outlet;
use policy::Owner;
pub(crate) use policy::{Policy, Publisher};
pub(crate) use staging::{Staging, StagingTools};
pub(crate) use threshold::find_threshold;
pub(crate) use touching::{TouchOrder, Touching};

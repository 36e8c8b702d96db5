//! A shard copied by a snapshot while its program has already gone on: an I/O thread waits for the copy and does the
//! work that the stager does at t2 for other shards.
//!
//! Invariant: no byte is hashed, written or sealed before it is copied; no buffer is returned while it is still being
//! filled.

use super::{LogSegment, PendingSegment, Shard, StagingTime};
use crate::{
    capture::{Contents, Snapshot},
    error::{Error, Result, SNAPSHOT},
    ground::sleep,
};
use std::{io, sync::Arc, time::Duration};

/// Interval of the checks of the copy's progress; each check reads one word.
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct SnapshotFollower {
    pub(crate) shard: Arc<Shard>,
    pub(crate) snapshot: Snapshot,
    /// In the order in which they are filled.
    pub(crate) awaited: Vec<PendingSegment>,
    pub(crate) contents: Contents,
    pub(crate) staged: StagingTime,
}

impl SnapshotFollower {
    /// Waits until all is copied, passes each part to `carry` once it is filled, then seals the shard. An error
    /// concerns the shard.
    pub(super) fn follow(self, carry: impl Fn(Arc<LogSegment>)) -> Result<()> {
        let SnapshotFollower { shard, snapshot, awaited, contents, staged } = self;
        let mut awaited = awaited.into_iter().peekable();
        // Dropped before the buffers if anything here panics.
        let mut snapshot = snapshot;
        let followed = loop {
            if let Some(error) = shard.failure() {
                break Err(error.clone());
            }
            let ended = snapshot.poll();
            let copied = if matches!(ended, Some(Ok(()))) { u64::MAX } else { snapshot.copied_bytes() };
            let mut filled = std::iter::from_fn(|| awaited.next_if(|part| part.filled_after <= copied));
            let carried = filled.try_for_each(|part| part.filled(shard.clone()).map(|load| carry(Arc::new(load))));
            match (carried, ended) {
                (Ok(()), None) => sleep(LOOK_EVERY),
                (carried, ended) => break carried.and(ended.unwrap_or(Ok(())).map_err(lost)),
            }
        };
        // The copier has ended before the remaining buffers are returned.
        drop(snapshot);
        followed?;
        debug_assert!(awaited.peek().is_none(), "a part was never filled");
        shard.seal(&contents, staged);
        shard.note_staged(staged, contents);
        Ok(())
    }
}

fn lost(error: io::Error) -> Error {
    Error::io(SNAPSHOT, "the program's memory", error)
}

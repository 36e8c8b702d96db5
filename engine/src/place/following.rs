//! A shard whose program has gone on while a snapshot of it is copied: an I/O thread waits for that, and does what the
//! stager does at t2 of other shards.
//!
//! What must hold: nothing that is not copied is hashed, written or sealed; no buffer goes back before nobody copies into
//! it any more.

use super::{Awaited, Load, Shard, StagingTime};
use crate::{
    capture::{Contents, Snapshot},
    error::{Error, Result, SNAPSHOT},
    ground::sleep,
};
use std::{io, sync::Arc, time::Duration};

/// How often it is asked how far the copy has come, which takes a look at a word.
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) shard: Arc<Shard>,
    pub(crate) snapshot: Snapshot,
    /// In the order in which they are filled.
    pub(crate) awaited: Vec<Awaited>,
    pub(crate) contents: Contents,
    pub(crate) staged: StagingTime,
}

impl Following {
    /// Waits until all is copied, and hands each part to `carry` once it is filled; then seals the shard. An error is the
    /// shard's.
    pub(super) fn follow(self, carry: impl Fn(Arc<Load>)) -> Result<()> {
        let Following { shard, snapshot, awaited, contents, staged } = self;
        let mut awaited = awaited.into_iter().peekable();
        // Dropped before the buffers, should anything here panic.
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
        // Whoever copies has ended before the buffers that are left go back.
        drop(snapshot);
        followed?;
        shard.seal(&contents, staged);
        shard.note_staged(staged, contents);
        Ok(())
    }
}

fn lost(error: io::Error) -> Error {
    Error::io(SNAPSHOT, "the program's memory", error)
}

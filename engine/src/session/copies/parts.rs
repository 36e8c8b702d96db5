//! Parts of a shard, for a rank that reads no more of it. Each part keeps its place in the portion, and comes with the
//! data to verify it.

use super::{
    lane::{Stretch, cut},
    post::{Piece, room_for_piece},
    words::AnnouncedParts,
};
use crate::{
    commit::{Kept, RevisionKey},
    error::{Error, Result},
    feed::Landing,
    restore::{WantedItem, blocks_wanted, stored_blocks},
    space::{
        Aligned, Portion,
        format::{BLOCK_BYTES, Entry},
        portion_in_parts,
    },
};
use std::ops::Range;

/// The announcement of the parts that another rank wants, and the pieces that follow.
pub(in crate::session) fn announce_parts(
    portion: &Portion,
    kept: &Kept,
    level: usize,
    wanted: &[WantedItem],
) -> Result<(AnnouncedParts, Vec<Stretch>)> {
    let manifest = portion.read_manifest(&kept.entry)?;
    let blocks = blocks_wanted(&manifest, wanted);
    let stored = stored_blocks(&kept.entry, &manifest, &blocks);
    // Sent as stored: the reader unpacks frames.
    let (pieces, stretches) = cut(portion, &[], &stored)?;
    let pieces = pieces.into_iter().map(|(_, bytes)| bytes).collect();
    Ok((AnnouncedParts { level, entry: kept.entry.clone(), shape: portion.shape(), blocks, stored, pieces }, stretches))
}

/// Parts of a shard that another rank sends.
pub(in crate::session) struct PartsToCome {
    shard: u32,
    state: PartsState,
}

enum PartsState {
    PendingSegment,
    ArrivingParts(Box<ArrivingParts>),
    There(Box<(Portion, Entry, Vec<Range<u64>>)>),
    Failed(Error),
}

struct ArrivingParts {
    announced: AnnouncedParts,
    /// The pieces that have come, in order.
    came: Vec<(Aligned, u64)>,
}

impl PartsToCome {
    pub(in crate::session) fn of(shard: u32) -> PartsToCome {
        PartsToCome { shard, state: PartsState::PendingSegment }
    }

    pub(in crate::session) fn give_up(&mut self, error: Error) {
        self.state = PartsState::Failed(error);
    }

    /// The memory for the announced pieces.
    pub(in crate::session) fn take_on(
        &mut self,
        from: usize,
        announced: AnnouncedParts,
        key: RevisionKey,
    ) -> Result<Vec<Piece>> {
        let AnnouncedParts { level, entry, shape, stored, pieces, .. } = &announced;
        let is_of_it = entry.shard == self.shard
            && shape.shard == self.shard
            && RevisionKey::new(entry.lineage, entry.number) == key;
        let ascend = stored.windows(2).all(|two| two[0].end <= two[1].start);
        let end = shape.bytes / BLOCK_BYTES;
        let are_inside = stored.iter().all(|range| range.start < range.end && range.end <= end);
        let come = pieces.iter().try_fold(0, |sum: u64, bytes| sum.checked_add(*bytes));
        let makes_sense = matches!(self.state, PartsState::PendingSegment) && is_of_it && ascend && are_inside;
        let all = || stored.iter().map(|range| (range.end - range.start) * BLOCK_BYTES).sum();
        if !makes_sense || come != Some(all()) || pieces.contains(&0) {
            let what = format!("rank {from} sends parts of shard {} that it was not asked for", self.shard);
            return Err(Error::Internal { what });
        }
        let mut at = 0;
        let room = |bytes: &u64| -> Result<Piece> {
            let piece = Piece { level: *level, at, memory: Landing::Own(room_for_piece(*bytes, from)?, *bytes) };
            at += bytes;
            Ok(piece)
        };
        let expected = pieces.iter().map(room).collect::<Result<Vec<_>>>()?;
        let came = Vec::with_capacity(expected.len());
        self.state = PartsState::ArrivingParts(Box::new(ArrivingParts { announced, came }));
        Ok(expected)
    }

    /// Takes a piece that has come; pieces come in the announced order.
    pub(in crate::session) fn take(&mut self, piece: Piece) {
        if let (PartsState::ArrivingParts(coming), Landing::Own(memory, bytes)) = (&mut self.state, piece.memory) {
            coming.came.push((memory, bytes));
        }
    }

    /// Makes the parts readable at their places once all have come.
    pub(in crate::session) fn finish(&mut self) {
        if !matches!(&self.state, PartsState::ArrivingParts(coming) if coming.came.len() == coming.announced.pieces.len())
        {
            return;
        }
        let lacks = Error::Internal { what: format!("parts of shard {} have not all come", self.shard) };
        if let PartsState::ArrivingParts(coming) = std::mem::replace(&mut self.state, PartsState::Failed(lacks)) {
            let ArrivingParts { announced: AnnouncedParts { entry, shape, blocks, stored, .. }, came } = *coming;
            if let Some(portion) = portion_in_parts(shape, &stored, came) {
                self.state = PartsState::There(Box::new((portion, entry, blocks)));
            }
        }
    }

    /// Whether all parts have come, or no more will come.
    pub(in crate::session) fn is_there(&self) -> bool {
        matches!(self.state, PartsState::There(..) | PartsState::Failed(_))
    }

    /// The portion with the parts, its entry, and the blocks. They are not verified yet.
    pub(in crate::session) fn came(self) -> Result<(Portion, Entry, Vec<Range<u64>>)> {
        match self.state {
            PartsState::There(there) => Ok(*there),
            PartsState::Failed(error) => Err(error),
            PartsState::PendingSegment | PartsState::ArrivingParts(_) => {
                Err(Error::Internal { what: format!("parts of shard {} have not come", self.shard) })
            }
        }
    }
}

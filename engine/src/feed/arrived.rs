//! A shard that arrives from another rank, piece by piece. Some pieces are in the portion already and are verified;
//! others are written there. Each piece is processed while the next is on its way.

use crate::{
    capture::{Contents, Delta},
    device::Mapped,
    error::{Error, Result},
    place::{Shard, StagingTime, read_runs},
    space::{
        Aligned, Portion,
        format::{BLOCK, BLOCK_BYTES, Entry, Hash},
    },
};
use std::sync::Arc;

/// The destination of a piece of a shard from another rank.
#[derive(Debug)]
pub(crate) enum Landing {
    /// A part of the portion to which the piece belongs.
    Portion(Mapped),
    /// This many bytes of a buffer.
    Own(Aligned, u64),
    /// The same, for a shard that is saved whole although only a part is sent. The number is that of the first block.
    Spread(Aligned, u64, Arc<Older>, u64),
}

/// The part of an older revision that a copy cannot share, because the portion cannot hold so long a list. It is saved
/// once more.
#[derive(Debug)]
pub(crate) struct Older {
    portion: Portion,
    entry: Entry,
    delta: Delta,
    homes: Vec<Option<u64>>,
}

impl Older {
    /// For the revision with this `entry` in `portion`; `delta`: the blocks that the copy would share.
    pub(crate) fn new(portion: Portion, entry: Entry, delta: Delta) -> Older {
        let homes = delta.homes();
        Older { portion, entry, delta, homes }
    }

    /// The number of blocks that the other rank sends.
    pub(crate) fn comes(&self) -> u64 {
        self.delta.contents.blocks
    }

    /// Saves these blocks at their places in the whole log. `first` is the number of the first one in the log of sent
    /// blocks, followed by those of the older revision.
    fn carry(&self, copy: &Shard, first: u64, blocks: &[u8]) -> Result<()> {
        let gone = || Error::Internal { what: "blocks come that were not announced".to_owned() };
        let homes = self.homes.get(first as usize..first as usize + blocks.len() / BLOCK).ok_or_else(gone)?;
        let mut rest = blocks;
        for together in homes.chunk_by(|one, next| one.map(|one| one + 1) == *next) {
            let (now, later) = rest.split_at(together.len() * BLOCK);
            rest = later;
            if let Some(home) = together[0] {
                copy.carry(home * BLOCK_BYTES, now)?;
            }
        }
        Ok(())
    }

    /// Saves the blocks that are not sent once more.
    fn carry_kept(&self, copy: &Shard) -> Result<()> {
        let mut first = self.comes();
        read_runs(&self.portion, &self.portion.read_manifest(&self.entry)?, &self.delta.shared, |blocks| {
            self.carry(copy, first, blocks)?;
            first += (blocks.len() / BLOCK) as u64;
            Ok(())
        })
    }
}

/// The other rank's report on a shard, after all pieces have arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The contents of the whole log, and its shared blocks. `None` if the report made no sense.
    contents: Option<(Contents, Option<Delta>)>,
    /// The hash of the hashes of all blocks, as the other rank has them.
    hash: Hash,
    /// The part of an older revision that is saved once more.
    older: Option<Arc<Older>>,
}

impl Landing {
    /// Adds the piece to `copy`, at `at` in its log.
    pub(super) fn put_into(self, copy: &Shard, at: u64) -> Result<()> {
        match self {
            Landing::Portion(mapped) => {
                copy.hash(at, mapped.as_ref());
                Ok(())
            }
            Landing::Own(memory, bytes) => copy.carry(at, &memory[..bytes as usize]),
            Landing::Spread(memory, bytes, older, first) => older.carry(copy, first, &memory[..bytes as usize]),
        }
    }
}

impl Arrived {
    pub(crate) fn new(contents: Option<(Contents, Option<Delta>)>, hash: Hash, older: Option<Arc<Older>>) -> Arrived {
        Arrived { contents, hash, older }
    }

    /// Makes `copy` ready to be published if it equals the other rank's shard.
    pub(super) fn check(self, copy: &Shard) -> Result<()> {
        let Arrived { contents, hash, older } = self;
        older.map_or(Ok(()), |older| older.carry_kept(copy))?;
        if let Some(error) = copy.failure() {
            return Err(error.clone());
        }
        let (contents, delta) = contents.ok_or_else(|| Error::Internal { what: "a copy of nothing".to_owned() })?;
        let found = match &delta {
            Some(delta) => copy.with_rows(delta.contents.blocks, |rows| delta.hash_of_hashes(rows)),
            None => Some(copy.hash_of_hashes(contents.blocks)),
        };
        if found != Some(hash) {
            return Err(Error::damaged(format!(
                "shard {} of revision {}: the data that arrived is not what its rank had saved; its blocks were \
                 damaged there, or on the way",
                copy.number(),
                copy.key().number
            )));
        }
        copy.note_staged(StagingTime::default(), delta.map_or(contents, |delta| delta.contents));
        Ok(())
    }
}

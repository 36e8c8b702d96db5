//! A shard that comes from another rank, piece by piece: some lie in the portion already, and are verified, others are
//! written there. Each is taken while the next is still on its way.

use crate::{
    capture::{Contents, Led},
    device::Mapped,
    error::{Error, Result},
    place::{Shard, StagingTime, read_runs},
    space::{
        Aligned, Portion,
        format::{BLOCK, BLOCK_BYTES, Entry, Hash},
    },
};
use std::sync::Arc;

/// Where a piece of a shard lands that comes from another rank.
#[derive(Debug)]
pub(crate) enum Landing {
    /// A part of the portion that the piece belongs to.
    Portion(Mapped),
    /// So many bytes of this.
    Own(Aligned, u64),
    /// The same, from this block on of what is sent of a shard that is saved whole.
    Spread(Aligned, u64, Arc<Older>, u64),
}

/// What a copy has of an older revision that it cannot lead to, as there is no room for so long a list: it is saved once more.
#[derive(Debug)]
pub(crate) struct Older {
    portion: Portion,
    entry: Entry,
    led: Led,
    homes: Vec<Option<u64>>,
}

impl Older {
    /// Of the revision with this `entry` in `portion`, what the copy would be `led` to.
    pub(crate) fn new(portion: Portion, entry: Entry, led: Led) -> Older {
        let homes = led.homes();
        Older { portion, entry, led, homes }
    }

    /// How many blocks come from the other rank.
    pub(crate) fn comes(&self) -> u64 {
        self.led.contents.blocks
    }

    /// Saves these blocks where they belong in the whole log, which begin at block `first` of the one with the older revision's
    /// behind what is sent.
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

    /// Saves once more what is not sent.
    fn carry_kept(&self, copy: &Shard) -> Result<()> {
        let mut first = self.comes();
        read_runs(&self.portion, &self.portion.read_manifest(&self.entry)?, &self.led.shared, |blocks| {
            self.carry(copy, first, blocks)?;
            first += (blocks.len() / BLOCK) as u64;
            Ok(())
        })
    }
}

/// What another rank tells of a shard, all pieces of which have come.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Of the whole log, and what of it is led to instead of carried. `None` if what the other rank told of it made no sense.
    contents: Option<(Contents, Option<Led>)>,
    /// Of the hashes of all blocks, as the other rank has them.
    hash: Hash,
    /// What the copy has of an older revision, if it is saved once more.
    older: Option<Arc<Older>>,
}

impl Landing {
    /// Takes the piece over into `copy`, to whose log it belongs from `at` on.
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
    pub(crate) fn new(contents: Option<(Contents, Option<Led>)>, hash: Hash, older: Option<Arc<Older>>) -> Arrived {
        Arrived { contents, hash, older }
    }

    /// Has `copy` ready to be published, if what has come of it is what the other rank has.
    pub(super) fn check(self, copy: &Shard) -> Result<()> {
        let Arrived { contents, hash, older } = self;
        older.map_or(Ok(()), |older| older.carry_kept(copy))?;
        if let Some(error) = copy.failure() {
            return Err(error.clone());
        }
        let (contents, led) = contents.ok_or_else(|| Error::Internal { what: "a copy of nothing".to_owned() })?;
        let found = match &led {
            Some(led) => copy.with_rows(led.contents.blocks, |rows| led.hash_of_hashes(rows)),
            None => Some(copy.hash_of_hashes(contents.blocks)),
        };
        if found != Some(hash) {
            return Err(Error::damaged(format!(
                "shard {} of revision {}: what has come from its rank is not what that rank had saved; its blocks were \
                 damaged there, or on the way",
                copy.number(),
                copy.key().number
            )));
        }
        copy.note_staged(StagingTime::default(), led.map_or(contents, |led| led.contents));
        Ok(())
    }
}

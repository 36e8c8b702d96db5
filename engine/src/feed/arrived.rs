//! A shard that comes from another rank, piece by piece: some lie in the portion already, and are verified, others are
//! written there. Each is taken while the next is still on its way.

use crate::{
    capture::{Contents, Led},
    device::Mapped,
    error::{Error, Result},
    place::{Shard, StagingTime},
    space::{Aligned, format::Hash},
};

/// Where a piece of a shard lands that comes from another rank.
#[derive(Debug)]
pub(crate) enum Landing {
    /// A part of the portion that the piece belongs to.
    Portion(Mapped),
    /// So many bytes of this.
    Own(Aligned, u64),
}

/// What another rank tells of a shard, all pieces of which have come.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Of the whole log, and what of it is led to instead of carried. `None` if what the other rank told of it made no sense.
    contents: Option<(Contents, Option<Led>)>,
    /// Of the hashes of all blocks, as the other rank has them.
    hash: Hash,
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
        }
    }
}

impl Arrived {
    pub(crate) fn new(contents: Option<(Contents, Option<Led>)>, hash: Hash) -> Arrived {
        Arrived { contents, hash }
    }

    /// Has `copy` ready to be published, if what has come of it is what the other rank has.
    pub(super) fn check(self, copy: &Shard) -> Result<()> {
        let Arrived { contents, hash } = self;
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

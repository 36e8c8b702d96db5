//! The shards of the restored revision, which this rank may read.
//!
//! Invariant: as with streams, nothing is read once a checkpoint has begun.

use super::{chosen::Chosen, level::LevelKind, levels::Levels};
use crate::{
    commit::RevisionKey,
    error::{Error, Result},
    mutant,
    reader::Reader,
    space::{Portion, format::Entry},
};
use std::collections::{BTreeMap, BTreeSet};

/// The restored revision. Empty before a restore, and once the next checkpoint has begun.
#[derive(Default)]
pub(super) struct Shards {
    /// The revision, and the nearest level from which it was read.
    pub(super) of: Option<(LevelKind, Chosen)>,
    /// Shards that this rank has whole: it has verified them here, or they were brought.
    pub(super) brought: BTreeSet<u32>,
    pub(super) reader: Reader,
}

impl Shards {
    /// The shards of the revision `chosen`, on all levels that have some, and the shards `seen` besides. This rank has
    /// read those in `verified` whole.
    pub(super) fn find(
        levels: &Levels,
        chosen: &Chosen,
        seen: BTreeMap<u32, (Portion, Entry)>,
        verified: BTreeSet<u32>,
    ) -> Shards {
        let (key, nearest) = (chosen.complete.key, levels.at(chosen.level));
        // The shards that the restore read come first, then those on the nearest level.
        let mut here = seen;
        for level in chosen.on.iter().map(|index| levels.at(*index)) {
            level.each_ledger(|ledger| {
                for kept in ledger.found().into_iter().filter(|kept| kept.key() == key) {
                    let stored = || (ledger.portion().clone(), kept.entry.clone());
                    here.entry(kept.entry.shard).or_insert_with(stored);
                }
            });
        }
        let is_its = |(_, entry): &(Portion, Entry)| RevisionKey::of(entry) == key;
        debug_assert!(mutant::is_any() || here.values().all(is_its), "a shard of another revision");
        let of = Some((nearest.location.kind, chosen.clone()));
        let reader = Reader::of_session(nearest.location.device.path(), key, chosen.complete.shards, here);
        Shards { of, brought: verified, reader }
    }

    /// The revision of the shards, and the level from which it was read. `None` before a restore, and once the next
    /// checkpoint has begun.
    pub(super) fn of(&self) -> Option<(LevelKind, RevisionKey)> {
        self.of.as_ref().map(|(kind, chosen)| (*kind, chosen.complete.key))
    }

    /// Refuses numbers beyond the last shard, and every number if nothing was restored.
    pub(super) fn check(&self, wanted: &[u32]) -> Result<()> {
        if self.of.is_none() {
            let why = "nothing was restored, or a checkpoint has begun since; call it between the two";
            return Err(Error::argument("bring_shards", why));
        }
        wanted.iter().try_for_each(|shard| self.reader.check(*shard))
    }

    /// Reads these shards from now on where they were brought.
    pub(super) fn take(&mut self, brought: impl Iterator<Item = (Portion, Entry)>) {
        for (portion, entry) in brought {
            self.brought.insert(entry.shard);
            self.reader.read_at(portion, entry);
        }
    }
}

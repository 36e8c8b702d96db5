//! One shard in a space: reads and verifies it while a job may write.

use crate::{
    commit::{Kept, RevisionKey},
    error::{Error, Result},
    restore::pour,
    space::{
        Portion,
        format::{BLOCK_BYTES, Entry, Manifest, PhaseRecord, Slot},
    },
};
use std::io;

/// The number of attempts to survey a space that changes meanwhile.
pub(super) const TRIES: usize = 50;

#[derive(Debug, Clone)]
pub struct ShardSurvey {
    pub shard: u32,
    /// Bytes of all items.
    pub bytes: u64,
    pub phases: PhaseRecord,
    /// Whether the newest root of the portion refers to the shard, and not only the other root.
    pub(super) in_newest_root: bool,
    /// Bytes of the items' blocks.
    pub(super) block_bytes: u64,
    entry: Entry,
    portion: Portion,
}

/// The result of reading every block of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    Whole,
    Damaged {
        what: Vec<String>,
    },
    /// The job that has the space open removed the revision meanwhile.
    LetGo,
}

impl ShardSurvey {
    pub(super) fn new(portion: &Portion, kept: &Kept, in_newest_root: bool) -> ShardSurvey {
        let entry = kept.entry.clone();
        ShardSurvey {
            shard: entry.shard,
            bytes: entry.bytes,
            phases: entry.phases,
            in_newest_root,
            block_bytes: kept.data * BLOCK_BYTES,
            entry,
            portion: portion.clone(),
        }
    }

    /// The shard's manifest; `None` if the job that has the space open removed the shard meanwhile.
    pub fn manifest(&self) -> Result<Option<Manifest>> {
        match self.portion.read_manifest(&self.entry) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error) if self.is_kept()? => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Bytes of the blocks that this shard, with this `manifest`, shares with an older one; 0 if that was removed, or
    /// is in another portion.
    pub fn shares_with(&self, manifest: &Manifest, older: &ShardSurvey) -> Result<u64> {
        let of = |portion: &Portion| (portion.layout_id(), portion.rank());
        if of(&self.portion) != of(&older.portion) {
            return Ok(0);
        }
        Ok(older.manifest()?.map_or(0, |older| manifest.shared_bytes(&older)))
    }

    /// Reads every block and compares it with its hash.
    pub(super) fn verify(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Verified> {
        let read = &|_, bytes: &[u8]| progress(bytes.len() as u64);
        let poured = self.portion.read_manifest(&self.entry).and_then(|manifest| pour(&self.portion, &manifest, read));
        match poured.map_err(|error| self.judge(error)) {
            Ok(()) => Ok(Verified::Whole),
            Err(Error::Unreadable { what }) => Ok(Verified::Damaged { what }),
            Err(Error::RevisionMissing { .. }) => Ok(Verified::LetGo),
            Err(error) => Err(error),
        }
    }

    /// The meaning of an `error` of reading the shard: damage, or removal by a job meanwhile.
    pub(crate) fn judge(&self, error: Error) -> Error {
        let Some(what) = damage_of(&error) else { return error };
        match self.is_kept() {
            Ok(true) => {
                Error::Unreadable { what: what.iter().map(|what| format!("shard {}: {what}", self.shard)).collect() }
            }
            Ok(false) => self.let_go(),
            Err(error) => error,
        }
    }

    /// The error if a job removed the shard.
    pub(crate) fn let_go(&self) -> Error {
        let number = self.entry.number;
        let why = format!(
            "revision {number}: the job that has the space open removed the revision while it was read; try again, or \
             `mainstay hold` it first"
        );
        Error::RevisionMissing { path: self.portion.path().to_owned(), why }
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    pub(crate) fn portion(&self) -> &Portion {
        &self.portion
    }

    /// Whether a slot still refers to the shard: if so, the shard's blocks are unchanged since it was found.
    fn is_kept(&self) -> Result<bool> {
        if self.portion.read_slot(0).is_err_and(|error| is_missing(&error)) {
            return Ok(false);
        }
        for _ in 0..TRIES {
            let before = slots(&self.portion);
            let mut in_doubt = before.iter().all(Option::is_none);
            for slot in before.iter().flatten() {
                match self.portion.read_catalogue(slot) {
                    Ok(catalogue) if catalogue.entries.iter().any(|entry| self.is(entry)) => return Ok(true),
                    Ok(_) => {}
                    Err(error) => {
                        damage_of(&error).ok_or(error)?;
                        in_doubt = true;
                    }
                }
            }
            if !in_doubt {
                return Ok(false);
            }
            if slots(&self.portion) == before {
                break;
            }
        }
        // The catalogues cannot be read either, so the shard is not known to be removed.
        Ok(true)
    }

    /// Bytes of the items' blocks.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The number of the shard's blocks, including metadata.
    pub(crate) fn blocks(&self) -> u64 {
        (self.block_bytes + self.entry.meta_bytes) / BLOCK_BYTES
    }

    /// The number of its portion's blocks for data, metadata and catalogues.
    pub(crate) fn portion_blocks(&self) -> u64 {
        let (from, to) = self.portion.data_blocks();
        to - from
    }

    fn is(&self, entry: &Entry) -> bool {
        RevisionKey::of(entry) == RevisionKey::of(&self.entry) && entry.shard == self.shard
    }
}

/// The current contents of the two slots; `None` for an unreadable slot.
pub(super) fn slots(portion: &Portion) -> [Option<Slot>; 2] {
    [0, 1].map(|index| portion.read_slot(index).ok())
}

/// Whether the error means that a job removed the layout meanwhile because it was empty.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// The damage that an error reports; `None` for another kind of error.
pub(super) fn damage_of(error: &Error) -> Option<Vec<String>> {
    match error {
        Error::Damaged { what } => Some(what.clone()),
        Error::Io { .. } if !error.is_of_process() => Some(vec![error.to_string()]),
        _ => None,
    }
}

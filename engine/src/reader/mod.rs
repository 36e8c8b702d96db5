//! Reads a revision outside a job: in any process, on any machine, without MPI, even beside the job.
//!
//! Invariant: every returned byte was verified and belongs to the opened revision. If a job has the space open, the
//! reader holds the revision, provided it has the permission and there is room for the hold. Otherwise an error
//! reports the revision's removal.

mod elsewhere;
mod guard;
mod open;

use crate::{
    capture::Region,
    commit::RevisionKey,
    error::{Error, Result, named},
    restore::{BlockReader, HashRows, SavedShard, Sharing, Stored, box_of},
    space::format::{BLOCK_BYTES, ElementType, Hash, Item, Manifest, PlaceInWhole},
    survey::{RevisionSurvey, ShardSurvey, Verified},
};
use elsewhere::Elsewhere;
use guard::Guard;
pub(crate) use open::chosen;
use std::collections::BTreeMap;

/// One revision of a space, opened for reading.
pub struct Reader {
    path: String,
    revision: RevisionSurvey,
    /// The manifest of each shard, by the shard's number.
    manifests: Vec<Manifest>,
    saved: Vec<SavedShard>,
    damage: Vec<String>,
    elsewhere: Elsewhere,
    last: Option<Last>,
    /// The blocks of the shards from which a box was read.
    rows: BTreeMap<u32, HashRows>,
    guards: Vec<Guard>,
}

/// The item that was read last, and its read blocks.
struct Last {
    shard: u32,
    name: String,
    stored: Stored,
    blocks: BlockReader,
}

impl Reader {
    pub fn key(&self) -> RevisionKey {
        self.revision.key
    }

    /// The name of the space in messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The parts of the space that could not be read when it was opened: they may have held a newer revision.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// The shards that were read from another level or copy than the nearest, and the reason: damage, or removal.
    pub fn elsewhere(&self) -> &[String] {
        self.elsewhere.told()
    }

    /// The number of shards; rank r saved shard r.
    pub fn shard_count(&self) -> u32 {
        self.manifests.len() as u32
    }

    /// The contents of a shard: items, notes, lengths of output files.
    pub fn shard(&self, shard: u32) -> Result<&Manifest> {
        self.manifests.get(shard as usize).ok_or_else(|| {
            let last = self.manifests.len().saturating_sub(1);
            Error::argument(
                format!("shard {shard}"),
                format!("revision {} has the shards 0 to {last}", self.revision.key.number),
            )
        })
    }

    /// The item `name` of a shard.
    pub fn item(&self, shard: u32, name: &str) -> Result<&Item> {
        let items = &self.shard(shard)?.items;
        items.iter().find(|item| item.name == name).ok_or_else(|| {
            let there = named(items.iter().map(|item| item.name.as_str()));
            let number = self.revision.key.number;
            Error::argument(
                format!("item {name:?}"),
                format!("shard {shard} of revision {number} has none of this name; it has: {there}"),
            )
        })
    }

    /// Reads the bytes of an item from `offset` on into `into`. Returns their number, which is smaller than `into` only
    /// at the item's end.
    pub fn read(&mut self, shard: u32, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.renew();
        loop {
            let last = match self.last.take() {
                Some(last) if last.shard == shard && last.name == name => last,
                before => self.turn_to(shard, name, before)?,
            };
            let Last { stored, blocks, .. } = self.last.insert(last);
            match stored.read(offset, into, blocks) {
                Ok(bytes) => return Ok(bytes),
                Err(error) => self.read_elsewhere(shard, error)?,
            }
        }
    }

    /// Puts the hashes of an item's blocks of 4 KiB, from its block `first` on, into `into`, without reading the
    /// blocks. `None` for bytes that share a block with others: at the end of an item, in small items, in streams.
    pub fn hashes(&mut self, shard: u32, name: &str, first: u64, into: &mut [Option<Hash>]) -> Result<()> {
        self.renew();
        loop {
            let last = match self.last.take() {
                Some(last) if last.shard == shard && last.name == name => last,
                before => self.turn_to(shard, name, before)?,
            };
            let Last { stored, blocks, .. } = self.last.insert(last);
            let hashes = into.iter_mut().zip(first..).try_for_each(|(hash, block)| {
                *hash = stored.block_at(block * BLOCK_BYTES).map(|at| blocks.hash_of_block(at)).transpose()?;
                Ok(())
            });
            match hashes {
                Ok(()) => return Ok(()),
                Err(error) => self.read_elsewhere(shard, error)?,
            }
        }
    }

    /// The survey of `shard` in its current place, and its manifest.
    pub(crate) fn lying(&self, shard: u32) -> (&ShardSurvey, &Manifest) {
        (&self.revision.shards[shard as usize], &self.manifests[shard as usize])
    }

    /// The revision as it was found.
    pub(crate) fn revision(&self) -> &RevisionSurvey {
        &self.revision
    }

    /// Renews the hold before it ends.
    pub(crate) fn renew(&mut self) {
        let key = self.revision.key;
        self.guards.iter_mut().for_each(|guard| guard.renew(key));
    }

    /// Handles an `error` of reading `shard`: from now on it is read in another place. Returns the error if there is
    /// none.
    pub(crate) fn read_elsewhere(&mut self, shard: u32, error: Error) -> Result<()> {
        let index = shard as usize;
        let mut error = self.revision.shards[index].judge(error);
        while self.elsewhere.turn(&mut self.revision, shard, &error) {
            let survey = &self.revision.shards[index];
            match survey.manifest() {
                Ok(Some(manifest)) if is_same(&manifest, &self.manifests[index]) => {
                    self.saved[index] = SavedShard::of(survey.entry(), &manifest);
                    self.manifests[index] = manifest;
                    self.rows.remove(&shard);
                    self.last = None;
                    return Ok(());
                }
                Ok(Some(_)) => error = Error::Unreadable { what: vec![format!("shard {shard}: it has other items")] },
                Ok(None) => error = survey.let_go(),
                Err(other) => error = survey.judge(other),
            }
        }
        Err(error)
    }

    fn turn_to(&self, shard: u32, name: &str, before: Option<Last>) -> Result<Last> {
        let stored = Stored::of(self.item(shard, name)?);
        let blocks = match before {
            Some(last) if last.shard == shard => last.blocks,
            _ => self.revision.shards[shard as usize].blocks_of(&self.manifests[shard as usize]),
        };
        Ok(Last { shard, name: name.to_owned(), stored, blocks })
    }

    /// Element type and shape of the global array `name`; the shards hold boxes of it.
    pub fn global(&self, name: &str) -> Result<(ElementType, &[u64])> {
        let items = self.manifests.iter().flat_map(|manifest| &manifest.items);
        let placed = items.filter(|item| item.name == name).find_map(|item| Some((item.element, item.place.as_ref()?)));
        placed.map(|(element, place)| (element, &place.global_shape[..])).ok_or_else(|| {
            let number = self.revision.key.number;
            Error::argument(
                format!("global array {name:?}"),
                format!("no shard of revision {number} has a box of this name; read the item of a shard"),
            )
        })
    }

    /// Fills `into` with the box of the global array `name` at `offset` with this `shape`, from all shards that hold a
    /// part of it. If several shards hold a cell, the lowest one gives it.
    pub fn read_box(&mut self, name: &str, offset: &[u64], shape: &[u64], into: &mut [u8]) -> Result<()> {
        self.renew();
        loop {
            match self.read_box_here(name, offset, shape, into)? {
                None => return Ok(()),
                Some((shard, error)) => self.read_elsewhere(shard, error)?,
            }
        }
    }

    /// Reads each shard from its current place; returns a shard that could not be read, and the error.
    fn read_box_here(
        &mut self,
        name: &str,
        offset: &[u64],
        shape: &[u64],
        into: &mut [u8],
    ) -> Result<Option<(u32, Error)>> {
        let (element, global) = self.global(name)?;
        let place = PlaceInWhole { global_shape: global.to_vec(), offset: offset.to_vec() };
        if let Some(why) = place.refusal(element, shape) {
            return Err(Error::argument(format!("box of {name:?}"), why));
        }
        let wanted = shape.iter().product::<u64>() * element.size();
        if wanted != into.len() as u64 {
            let why = format!("the buffer has {} bytes, a box of this shape has {wanted}", into.len());
            return Err(Error::argument(format!("box of {name:?}"), why));
        }
        // SAFETY: the caller lends the memory for the call, and the region is gone by its end.
        #[allow(unsafe_code)]
        let region = unsafe { Region::placed(name, into.as_mut_ptr(), element, shape, place) }?;
        let surveys = &self.revision.shards;
        let sharing = Sharing {
            path: &self.path,
            revision: self.revision.key.number,
            shards: &self.saved,
            in_sight: (0..self.shard_count()).collect(),
            at_hand: (0..self.shard_count()).collect(),
            contents: &BTreeMap::new(),
            rank: 0,
            ranks: 1,
        };
        let found = box_of(&sharing, &region)?;
        for shard in found.shards() {
            let (survey, manifest) = (&surveys[shard as usize], &self.manifests[shard as usize]);
            let rows = self.rows.entry(shard).or_insert_with(|| HashRows::new(manifest.runs.len()));
            if let Err(error) = found.pour(survey.portion(), shard, manifest, rows) {
                return Ok(Some((shard, error)));
            }
        }
        Ok(None)
    }

    /// Calls `sink` with all bytes of `items`, which are some or all items of the shard: the index in `items`, the
    /// offset in the item and the bytes, in any order, from several threads. The bytes count only if the call succeeds;
    /// some may come a second time, from another place.
    pub fn read_all(&mut self, shard: u32, items: &[Item], sink: &(dyn Fn(usize, u64, &[u8]) + Sync)) -> Result<()> {
        loop {
            self.renew();
            // In another place the same items have other extents.
            let here = items.iter().map(|item| self.item(shard, &item.name).cloned()).collect::<Result<Vec<Item>>>()?;
            let survey: &ShardSurvey = &self.revision.shards[shard as usize];
            let error = match survey.read(&here, sink)? {
                Verified::Whole => return Ok(()),
                Verified::Damaged { what } => Error::Unreadable { what },
                Verified::LetGo => survey.let_go(),
            };
            self.read_elsewhere(shard, error)?;
        }
    }
}

/// Whether two manifests describe the same shard, possibly in different places.
fn is_same(one: &Manifest, other: &Manifest) -> bool {
    let same = |one: &Item, other: &Item| {
        (&one.name, one.bytes, one.element, &one.shape) == (&other.name, other.bytes, other.element, &other.shape)
    };
    one.items.len() == other.items.len() && one.items.iter().zip(&other.items).all(|(one, other)| same(one, other))
}

//! Reading a revision from outside a job: by any process, on any machine, without MPI, also beside the job.
//!
//! What must hold: every byte that is handed out was verified and is of the one revision that was opened. Where
//! a job is at work the revision is held, if there is the right to and the room; else what it lets go of is an
//! error.

mod guard;
mod open;

use crate::{
    capture::Region,
    commit::RevisionKey,
    error::{Error, Result, named},
    restore::{BlockReader, HashRows, Saved, Sharing, Stored, box_of},
    space::format::{ElementType, Item, Manifest, PlaceInWhole},
    survey::{RevisionSurvey, ShardSurvey, Verified},
};
use guard::Guard;
use std::collections::BTreeMap;

/// One revision of a space, opened to be read.
pub struct Reader {
    path: String,
    revision: RevisionSurvey,
    /// Of each shard, in their order.
    manifests: Vec<Manifest>,
    saved: Vec<Saved>,
    damage: Vec<String>,
    last: Option<Last>,
    /// Of the shards of which a box was read.
    rows: BTreeMap<u32, HashRows>,
    guard: Guard,
}

/// What was read last.
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

    /// The space, as messages name it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What of the space could not be read when it was opened: a newer revision may have been there.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// How many there are: shard r is what rank r saved.
    pub fn shard_count(&self) -> u32 {
        self.manifests.len() as u32
    }

    /// What a shard consists of: items, notes, lengths of output files.
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

    /// Reads the bytes of an item from `offset` on into `into`; returns how many: fewer than asked for only at
    /// its end.
    pub fn read(&mut self, shard: u32, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.guard.renew(self.revision.key);
        let last = match self.last.take() {
            Some(last) if last.shard == shard && last.name == name => last,
            before => self.turn_to(shard, name, before)?,
        };
        let Last { stored, blocks, .. } = self.last.insert(last);
        stored.read(offset, into, blocks).map_err(|error| self.revision.shards[shard as usize].judge(error))
    }

    fn turn_to(&self, shard: u32, name: &str, before: Option<Last>) -> Result<Last> {
        let stored = Stored::of(self.item(shard, name)?);
        let blocks = match before {
            Some(last) if last.shard == shard => last.blocks,
            _ => self.revision.shards[shard as usize].blocks_of(&self.manifests[shard as usize]),
        };
        Ok(Last { shard, name: name.to_owned(), stored, blocks })
    }

    /// Element type and shape of the global array `name`, of which the shards hold boxes.
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

    /// Fills `into` with the box of the global array `name` that begins at `offset` and has this `shape`, out
    /// of all shards that hold some of it. Where several hold a cell it comes from the lowest.
    pub fn read_box(&mut self, name: &str, offset: &[u64], shape: &[u64], into: &mut [u8]) -> Result<()> {
        self.guard.renew(self.revision.key);
        let (element, global) = self.global(name)?;
        let place = PlaceInWhole { global_shape: global.to_vec(), offset: offset.to_vec() };
        if let Some(why) = place.refusal(element, shape) {
            return Err(Error::argument(format!("box of {name:?}"), why));
        }
        let wanted = shape.iter().product::<u64>() * element.size();
        if wanted != into.len() as u64 {
            let why = format!("{} bytes to fill, a box of this shape has {wanted}", into.len());
            return Err(Error::argument(format!("box of {name:?}"), why));
        }
        // SAFETY: the memory is ours for as long as the call, and the region no longer.
        #[allow(unsafe_code)]
        let region = unsafe { Region::placed(name, into.as_mut_ptr(), element, shape, place) }?;
        let surveys = &self.revision.shards;
        let sharing = Sharing {
            path: &self.path,
            revision: self.revision.key.number,
            shards: &self.saved,
            in_sight: (0..self.shard_count()).collect(),
            contents: &BTreeMap::new(),
            rank: 0,
            ranks: 1,
        };
        let found = box_of(&sharing, &region)?;
        found.shards().try_for_each(|shard| {
            let (survey, manifest) = (&surveys[shard as usize], &self.manifests[shard as usize]);
            let rows = self.rows.entry(shard).or_insert_with(|| HashRows::new(manifest.runs.len()));
            found.pour(survey.portion(), shard, manifest, rows).map_err(|error| survey.judge(error))
        })
    }

    /// Gives `sink` all bytes of `items`, which are those of the shard or some of them: the index in `items`, the
    /// offset in the item and the bytes, in any order, from several threads. They count only if it ends well.
    pub fn read_all(&self, shard: u32, items: &[Item], sink: &(dyn Fn(usize, u64, &[u8]) + Sync)) -> Result<()> {
        self.shard(shard)?;
        let survey: &ShardSurvey = &self.revision.shards[shard as usize];
        match survey.read(items, sink)? {
            Verified::Whole => Ok(()),
            Verified::Damaged { what } => Err(Error::Unreadable { what }),
            Verified::LetGo => Err(survey.let_go()),
        }
    }
}

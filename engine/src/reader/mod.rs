//! Reads the shards of one revision: outside a job (`Reader::open`), in any process, on any machine, without MPI, even
//! beside the job; and in a session after a restore (`Session::shards`).
//!
//! Invariant: every returned byte was verified and belongs to the revision. Outside a job, the reader holds the revision
//! if a job has the space open, provided it has the permission and there is room for the hold. Otherwise an error
//! reports the revision's removal. In a session, nothing is read once a checkpoint has begun, because its root may free
//! the blocks.

mod guard;
mod in_space;
mod open;
mod shard_place;

use crate::{
    capture::{Region, is_own_note},
    commit::RevisionKey,
    error::{Error, Result, named},
    restore::{BlockReader, SavedShard, Sharing, Stored, box_of},
    space::{
        Portion,
        format::{BLOCK_BYTES, ElementType, Entry, Hash, Item, Manifest, PlaceInWhole},
    },
    survey::{RevisionSurvey, ShardSurvey},
};
use in_space::InSpace;
pub(crate) use open::chosen;
use shard_place::{ShardBlocks, ShardPlace};
use std::collections::BTreeMap;

/// Number of shards whose last blocks are kept, up to 1 MiB of each: a program may merge the items of several shards.
const RECENT_SHARDS: usize = 32;
const BETWEEN: &str = "on all ranks, between a restore and the next checkpoint";

/// The shards of one revision, for reading. Shard r is the one that rank r saved.
#[derive(Default)]
pub struct Reader {
    path: String,
    key: RevisionKey,
    shard_count: u32,
    /// The shards that can be read, each where it is read.
    here: BTreeMap<u32, ShardPlace>,
    /// The contents of all shards, by number. Empty until the ranks of a session have exchanged them.
    contents: Vec<SavedShard>,
    /// The blocks that were read last, of the shards that were read last, the newest first.
    recent: Vec<ShardBlocks>,
    /// For a reader outside a job: the revision as it was found.
    space: Option<Box<InSpace>>,
}

impl Reader {
    /// Reads the shards of a session's revision, `here` those of them that this rank sees.
    pub(crate) fn of_session(
        path: String,
        key: RevisionKey,
        shard_count: u32,
        here: BTreeMap<u32, (Portion, Entry)>,
    ) -> Reader {
        let here = here.into_iter().map(|(shard, (portion, entry))| (shard, ShardPlace::new(portion, entry))).collect();
        Reader { path, key, shard_count, here, ..Reader::default() }
    }

    /// The revision; its number is 0 in a session that has restored nothing, or has begun a checkpoint since.
    pub fn key(&self) -> RevisionKey {
        self.key
    }

    /// The name of the space in messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The parts of the space that could not be read when it was opened: they may have held a newer revision.
    pub fn damage(&self) -> &[String] {
        self.space.as_ref().map_or(&[], |space| &space.damage)
    }

    /// The shards that were read from another level or copy than the nearest, and the reason: damage, or removal.
    pub fn elsewhere(&self) -> &[String] {
        self.space.as_ref().map_or(&[], |space| &space.elsewhere)
    }

    /// The number of shards; rank r saved shard r.
    pub fn shard_count(&self) -> u32 {
        self.shard_count
    }

    /// The shards that can be read, ascending. In a session, they are those in the memory of this rank's node, its own
    /// and its copies, those in files that it sees, and those that were brought here.
    pub fn here(&self) -> impl Iterator<Item = u32> + '_ {
        self.here.keys().copied()
    }

    /// All that was saved about a shard that can be read.
    pub fn shard(&self, shard: u32) -> Result<&Manifest> {
        self.place(shard)?.manifest()
    }

    /// The items of a shard, which in a session need not be here after `bring_shards`.
    pub fn items(&self, shard: u32) -> Result<&[Item]> {
        match self.contents.get(shard as usize) {
            Some(saved) => Ok(&saved.items),
            None => Ok(&self.shard(shard)?.items),
        }
    }

    /// The notes of the rank that saved the shard.
    pub fn notes(&self, shard: u32) -> Result<BTreeMap<String, String>> {
        let notes = match self.contents.get(shard as usize) {
            Some(saved) => &saved.notes,
            None => &self.shard(shard)?.annex.notes,
        };
        let notes = notes.iter().filter(|note| !is_own_note(note));
        Ok(notes.map(|note| (note.name.clone(), note.value.clone())).collect())
    }

    /// The item `name` of a shard.
    pub fn item(&self, shard: u32, name: &str) -> Result<&Item> {
        self.item_in(self.items(shard)?, shard, name)
    }

    /// Reads the bytes of an item from `offset` on into `into`. Returns their number, which is smaller than `into` only
    /// at the item's end.
    pub fn read(&mut self, shard: u32, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.anywhere(shard, |reader| {
            let (stored, blocks) = reader.open_item(shard, name)?;
            stored.read(offset, into, blocks)
        })
    }

    /// Fills `regions` with the items of their names in the shard, each at its own address, in one pass over the shard
    /// with several threads. Every block is verified before its bytes are copied, and zeros are written only where the
    /// memory differs. `RegionMissing` and `RegionChanged` come before anything is filled. After another error the
    /// regions are undefined.
    pub fn fill(&mut self, shard: u32, regions: &[Region]) -> Result<()> {
        self.anywhere(shard, |reader| reader.place(shard)?.fill_regions(regions))
    }

    /// Puts the hashes of an item's blocks of 4 KiB, from its block `first` on, into `into`, without reading the
    /// blocks. `None` for bytes that share a block with others: at the end of an item, in small items, in streams.
    pub fn hashes(&mut self, shard: u32, name: &str, first: u64, into: &mut [Option<Hash>]) -> Result<()> {
        self.anywhere(shard, |reader| {
            let (stored, blocks) = reader.open_item(shard, name)?;
            into.iter_mut().zip(first..).try_for_each(|(hash, block)| {
                *hash = stored.block_at(block * BLOCK_BYTES).map(|at| blocks.hash_of_block(at)).transpose()?;
                Ok(())
            })
        })
    }

    /// Calls `sink` with all bytes of `items`, which are some or all items of the shard: the index in `items`, the
    /// offset in the item and the bytes, in any order, from several threads. The bytes count only if the call succeeds;
    /// some may come a second time, from another place.
    pub fn read_all(&mut self, shard: u32, items: &[Item], sink: &(dyn Fn(usize, u64, &[u8]) + Sync)) -> Result<()> {
        self.anywhere(shard, |reader| {
            let place = reader.place(shard)?;
            // In another place the same items have other extents.
            let there = &place.manifest()?.items;
            let here = items.iter().map(|item| reader.item_in(there, shard, &item.name)).collect::<Result<Vec<_>>>()?;
            place.read_all(&here, sink)
        })
    }

    /// Element type and shape of the global array `name`; the shards hold boxes of it.
    pub fn global(&self, name: &str) -> Result<(ElementType, &[u64])> {
        let items = self.contents.iter().flat_map(|shard| &shard.items);
        let placed = items.filter(|item| item.name == name).find_map(|item| Some((item.element, item.place.as_ref()?)));
        placed.map(|(element, place)| (element, &place.global_shape[..])).ok_or_else(|| {
            let why = match self.contents.len() {
                0 => format!("this rank does not know the items of all shards; call bring_shards, {BETWEEN}"),
                _ => {
                    format!("no shard of revision {} has a box of this name; read the item of a shard", self.key.number)
                }
            };
            Error::argument(format!("global array {name:?}"), why)
        })
    }

    /// Fills `into` with the box of the global array `name` at `offset` with this `shape`, from all shards that hold a
    /// part of it. If several shards hold a cell, the lowest one gives it.
    pub fn read_box(&mut self, name: &str, offset: &[u64], shape: &[u64], into: &mut [u8]) -> Result<()> {
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
        let sharing = Sharing {
            path: &self.path,
            revision: self.key.number,
            shards: &self.contents,
            in_sight: (0..self.shard_count).collect(),
            at_hand: (0..self.shard_count).collect(),
            contents: &BTreeMap::new(),
            rank: 0,
            ranks: 1,
        };
        let found = box_of(&sharing, &region)?;
        found.shards().try_for_each(|shard| {
            self.anywhere(shard, |reader| match reader.here.get_mut(&shard) {
                Some(place) => place.fill(shard, &found),
                None => Err(reader.not_here(shard)),
            })
        })
    }

    /// Knows the contents of all shards from now on, `contents` by number.
    pub(crate) fn know_all(&mut self, contents: Vec<SavedShard>) {
        self.contents = contents;
    }

    pub(crate) fn is_here(&self, shard: u32) -> bool {
        self.here.contains_key(&shard)
    }

    pub(crate) fn knows_all(&self) -> bool {
        !self.contents.is_empty()
    }

    /// Reads a shard in this place from now on.
    pub(crate) fn read_at(&mut self, portion: Portion, entry: Entry) {
        self.put(entry.shard, ShardPlace::new(portion, entry));
    }

    /// Refuses the number of a shard that the revision does not have.
    pub(crate) fn check(&self, shard: u32) -> Result<()> {
        match self.shard_count.checked_sub(1) {
            Some(last) if shard > last => {
                let why = format!("revision {} has the shards 0 to {last}", self.key.number);
                Err(Error::argument(format!("shard {shard}"), why))
            }
            _ => Ok(()),
        }
    }

    /// The revision as it was found outside a job.
    pub(crate) fn revision(&self) -> Option<&RevisionSurvey> {
        self.space.as_ref().map(|space| &space.revision)
    }

    /// The survey of `shard` where a reader outside a job reads it.
    pub(crate) fn survey(&self, shard: u32) -> Result<&ShardSurvey> {
        let space = self.space.as_ref();
        space.and_then(|space| space.survey(shard)).ok_or_else(|| self.not_here(shard))
    }

    /// Renews the holds before they end.
    pub(crate) fn renew(&mut self) {
        self.space.iter_mut().for_each(|space| space.renew());
    }

    /// Handles an `error` of reading `shard`: from now on it is read in another place. Returns the error if there is
    /// none.
    pub(crate) fn read_elsewhere(&mut self, shard: u32, error: Error) -> Result<()> {
        let (Some(space), Some(before)) = (&mut self.space, self.here.get(&shard)) else { return Err(error) };
        let next = space.next(shard, error, before.manifest()?)?;
        self.contents[shard as usize] = SavedShard::of(&next.entry, next.manifest()?);
        self.put(shard, next);
        Ok(())
    }

    /// Calls `read`, which reads of `shard`, until a place of the shard is whole.
    fn anywhere<T>(&mut self, shard: u32, mut read: impl FnMut(&mut Reader) -> Result<T>) -> Result<T> {
        loop {
            self.renew();
            match read(self) {
                Ok(done) => return Ok(done),
                Err(error) => self.read_elsewhere(shard, error)?,
            }
        }
    }

    fn put(&mut self, shard: u32, place: ShardPlace) {
        self.recent.retain(|recent| recent.shard != shard);
        self.here.insert(shard, place);
    }

    fn place(&self, shard: u32) -> Result<&ShardPlace> {
        self.here.get(&shard).ok_or_else(|| self.not_here(shard))
    }

    /// The item `name` of a shard, and the shard's blocks.
    fn open_item(&mut self, shard: u32, name: &str) -> Result<(&Stored, &mut BlockReader)> {
        match self.recent.iter().position(|recent| recent.shard == shard) {
            Some(index) => self.recent[..=index].rotate_right(1),
            None => {
                let blocks = self.place(shard)?.blocks(shard)?;
                self.recent.truncate(RECENT_SHARDS - 1);
                self.recent.insert(0, blocks);
            }
        }
        let item = match self.recent[0].item.take_if(|(last, _)| last == name) {
            Some(same) => same,
            None => (name.to_owned(), Stored::of(self.item_in(&self.shard(shard)?.items, shard, name)?)),
        };
        let ShardBlocks { blocks, item: last, .. } = &mut self.recent[0];
        Ok((&last.insert(item).1, blocks))
    }

    fn item_in<'a>(&self, items: &'a [Item], shard: u32, name: &str) -> Result<&'a Item> {
        items.iter().find(|item| item.name == name).ok_or_else(|| {
            let there = named(items.iter().map(|item| item.name.as_str()));
            let why = format!("shard {shard} of revision {} has none of this name; it has: {there}", self.key.number);
            Error::argument(format!("item {name:?}"), why)
        })
    }

    fn not_here(&self, shard: u32) -> Error {
        let why = || format!("this rank cannot read it now; bring it here with bring_shards, {BETWEEN}");
        self.check(shard).err().unwrap_or_else(|| Error::argument(format!("shard {shard}"), why()))
    }
}

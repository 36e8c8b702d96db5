//! The heap: memory by calls like malloc, for programs full of pointers. It has the same addresses in every run, and a
//! session saves all of it, so pointers into it stay valid.
//!
//! It consists of segments. Each is a region; its name gives its address and contents: one large array, or a slab of
//! slots of one size. All facts about a slab are in the slab itself, and are restored with it. The process has one
//! heap.
//!
//! Invariant: the same calls give the same addresses in each run. While a session saves the heap, freed memory that the
//! session knows stays mapped until the session has looked twice, because its threads may read it.

mod class;
mod free_addresses;
mod segment;
mod slab;

use super::{
    mappings,
    notes::Notes,
    ranges::{Range, without},
    region::{Region, kind_of},
    regions::Regions,
};
use crate::{
    error::{Error, Result},
    ground::lock,
    space::format::{Item, Note},
};
use free_addresses::Room;
use segment::{END, GRANULE, Kind, START, Segment, parse};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops, ptr,
    sync::Mutex,
};

/// The note of a revision that holds a heap.
const NOTE: &str = "heap/saved";
const NOTE_VALUE: &str = "1";
/// If this many places are taken by other memory, the heap counts as full.
const TRIES: usize = 100;

static HEAP: Mutex<Heap> = Mutex::new(Heap::new());

#[derive(Debug)]
struct Heap {
    /// By address.
    segments: BTreeMap<usize, Segment>,
    /// The addresses of the segments, including freed ones.
    room: Room,
    /// Slabs with free slots, by the size of the slots and the slab's address.
    open: BTreeSet<(usize, usize)>,
    /// Freed memory that a session may still read, and whether the session has looked since.
    given_back: Vec<(Segment, bool)>,
    is_claimed: bool,
    /// A restore has placed and filled segments; the taken slots are still to be found out.
    is_unread: bool,
}

/// `bytes` bytes at a multiple of `alignment`, a power of two; `None` if there is no memory. The bytes are not zeroed.
pub fn allocate(bytes: usize, alignment: usize) -> Option<*mut u8> {
    let mut heap = lock(&HEAP);
    match class::of(bytes, alignment) {
        Some(slot) => heap.small(slot),
        None if alignment <= GRANULE => heap.add(Kind::Array, bytes.max(1)),
        None => None,
    }
}

/// The same, zeroed.
pub fn allocate_zeros(bytes: usize) -> Option<*mut u8> {
    let at = allocate(bytes, class::ALIGNMENT)?;
    if class::of(bytes, class::ALIGNMENT).is_some() {
        // SAFETY: the memory was just given out, and has this many bytes.
        #[allow(unsafe_code)]
        unsafe {
            ptr::write_bytes(at, 0, bytes);
        }
    }
    Some(at)
}

/// Whether the heap has given out the memory at `at`.
pub fn has_given(at: *mut u8) -> bool {
    lock(&HEAP).bytes_at(at.addr()).is_some()
}

/// Frees memory; false if the heap has not given out memory at `at`.
pub fn release(at: *mut u8) -> bool {
    lock(&HEAP).release(at.addr())
}

/// Memory of `bytes` bytes with a copy of the bytes at `at`, as far as they fit; the old memory is freed. `None` if
/// there is no memory; `at` then stays as it was.
///
/// # Safety
/// Nothing else uses the memory at `at`.
#[allow(unsafe_code)]
pub unsafe fn resize(at: *mut u8, bytes: usize) -> Option<*mut u8> {
    let had = lock(&HEAP).bytes_at(at.addr())?;
    let fits = match class::of(bytes, class::ALIGNMENT) {
        Some(slot) => slot == had,
        None => bytes == had,
    };
    if fits {
        return Some(at);
    }
    let to = allocate(bytes, class::ALIGNMENT)?;
    // SAFETY: both are memory of the heap with at least this many bytes, and do not overlap.
    unsafe {
        ptr::copy_nonoverlapping(at, to, had.min(bytes));
    }
    release(at);
    Some(to)
}

impl Heap {
    const fn new() -> Heap {
        Heap {
            segments: BTreeMap::new(),
            room: Room::new(),
            open: BTreeSet::new(),
            given_back: Vec::new(),
            is_claimed: false,
            is_unread: false,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Segment> {
        self.segments.values().chain(self.given_back.iter().map(|(segment, _)| segment))
    }

    /// The session has looked up the segments. It may still read freed ones until it looks again.
    fn has_looked(&mut self) {
        self.let_go(|_, has_looked| has_looked);
        self.given_back.iter_mut().for_each(|(_, has_looked)| *has_looked = true);
        self.segments.values_mut().for_each(|segment| segment.is_known = true);
    }

    /// Unmaps freed segments for which `is_over` is true; its arguments are the segment, and whether the session has
    /// looked since.
    fn let_go(&mut self, is_over: impl Fn(&Segment, bool) -> bool) {
        let Heap { given_back, room, .. } = self;
        given_back.retain(|(segment, has_looked)| {
            let is_over = is_over(segment, *has_looked);
            if is_over {
                room.give_back(segment.range());
            }
            !is_over
        });
    }

    fn segment_of(&self, at: usize) -> Option<&Segment> {
        let (_, segment) = self.segments.range(..=at).next_back()?;
        segment.range().contains(&at).then_some(segment)
    }

    /// The number of bytes of the memory at `at`; `None` if the heap has given out none there.
    fn bytes_at(&self, at: usize) -> Option<usize> {
        let segment = self.segment_of(at)?;
        match segment.kind {
            Kind::Array => (segment.address() == at).then_some(segment.bytes),
            Kind::Slab { slot } => segment.slab().is_used(at).then_some(slot),
        }
    }

    /// The lowest free slot of this size.
    fn small(&mut self, slot: usize) -> Option<*mut u8> {
        let open = self.open.range((slot, 0)..=(slot, usize::MAX)).next().map(|(_, at)| *at);
        let at = match open {
            Some(at) => at,
            None => self.add(Kind::Slab { slot }, slab::BYTES)?.addr(),
        };
        let (given, is_full) = self.segments.get_mut(&at)?.slab_mut().take()?;
        if is_full {
            self.open.remove(&(slot, at));
        }
        Some(given)
    }

    /// A new segment at the lowest address with room for it.
    fn add(&mut self, kind: Kind, bytes: usize) -> Option<*mut u8> {
        let mut from = START;
        for _ in 0..TRIES {
            let at = self.room.find(from, bytes)?;
            match Segment::new(kind, at, bytes) {
                Ok(segment) => {
                    let address = segment.memory.address();
                    self.insert(segment);
                    return Some(address);
                }
                // Other memory, of the program or a library, is there.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => from = at + GRANULE,
                Err(_) => return None,
            }
        }
        None
    }

    fn insert(&mut self, segment: Segment) {
        if let Kind::Slab { slot } = segment.kind
            && !segment.slab().is_full()
        {
            self.open.insert((slot, segment.address()));
        }
        self.room.take(segment.range());
        self.segments.insert(segment.address(), segment);
    }

    fn release(&mut self, at: usize) -> bool {
        if self.bytes_at(at).is_none() {
            return false;
        }
        let Some(address) = self.segment_of(at).map(Segment::address) else { return false };
        let Some(segment) = self.segments.get_mut(&address) else { return false };
        let Kind::Slab { slot } = segment.kind else {
            self.remove(address);
            return true;
        };
        let is_empty = segment.slab_mut().give_back(at);
        self.open.insert((slot, address));
        // One empty slab stays: repeatedly taking and freeing a slot then needs no system calls.
        let others = self.open.range((slot, 0)..=(slot, usize::MAX)).nth(1);
        if is_empty && others.is_some() {
            self.remove(address);
        }
        true
    }

    fn remove(&mut self, address: usize) {
        let Some(segment) = self.segments.remove(&address) else { return };
        if let Kind::Slab { slot } = segment.kind {
            self.open.remove(&(slot, address));
        }
        if self.is_claimed && segment.is_known {
            segment.let_pages_go();
            self.given_back.push((segment, false));
        } else {
            self.room.give_back(segment.range());
        }
    }

    /// Memory that does not belong to the heap and overlaps one of these ranges; `wanted` ascends. `None` also if the
    /// system does not say.
    fn in_the_way(&self, wanted: &[Range]) -> Option<(Range, String)> {
        let as_numbers = |range: ops::Range<usize>| range.start as u64..range.end as u64;
        let mut ours: Vec<Range> = self.all().map(|segment| as_numbers(segment.range())).collect();
        ours.sort_unstable_by_key(|range| range.start);
        mappings::named().unwrap_or_default().into_iter().find_map(|(pages, file)| {
            let pages = as_numbers(pages);
            let theirs = without(pages.clone(), meeting(&pages, &ours));
            let found = theirs.into_iter().find(|one| !meeting(one, wanted).is_empty())?;
            Some((found, file))
        })
    }

    /// Makes exactly the segments in `wanted`; their bytes come later.
    fn lay_out(&mut self, wanted: &BTreeMap<usize, (Kind, usize)>) -> std::io::Result<()> {
        self.open.clear();
        self.is_unread = true;
        let is_wanted = |segment: &Segment| wanted.get(&segment.address()) == Some(&(segment.kind, segment.bytes));
        let gone: Vec<usize> = self.segments.values().filter(|one| !is_wanted(one)).map(Segment::address).collect();
        gone.into_iter().for_each(|at| self.remove(at));
        // Wanted memory may not overlap other segments.
        let meets = |one: &Segment| {
            let before = wanted.range(..one.range().end).next_back();
            before.is_some_and(|(at, (_, bytes))| at + bytes > one.range().start)
        };
        self.let_go(|one, _| meets(one));
        for (at, (kind, bytes)) in wanted {
            if !self.segments.contains_key(at) {
                let segment = Segment::new(*kind, *at, *bytes)?;
                self.room.take(segment.range());
                self.segments.insert(*at, segment);
            }
        }
        self.segments.values_mut().for_each(|segment| segment.is_known = true);
        Ok(())
    }

    /// Finds the free slots from the bytes of the slabs.
    fn read_slabs(&mut self) {
        if !std::mem::take(&mut self.is_unread) {
            return;
        }
        for (at, segment) in &mut self.segments {
            if let Kind::Slab { slot } = segment.kind {
                segment.slab_mut().count();
                if !segment.slab().is_full() {
                    self.open.insert((slot, *at));
                }
            }
        }
    }

    fn regions(&self) -> Result<Vec<Region>> {
        self.segments.values().map(Segment::region).collect()
    }
}

/// The right to save the heap. Only one session at a time has it.
#[derive(Debug)]
pub(crate) struct SavedHeap(());

impl SavedHeap {
    pub(crate) fn claim(notes: &mut Notes) -> Result<SavedHeap> {
        let mut heap = lock(&HEAP);
        if heap.is_claimed {
            let why = "a session protects the heap already; protect it in one session, once";
            return Err(Error::argument("protect_heap", why));
        }
        notes.set(NOTE, NOTE_VALUE)?;
        heap.is_claimed = true;
        Ok(SavedHeap(()))
    }

    pub(crate) fn unprotect(self, notes: &mut Notes) {
        notes.remove(NOTE);
    }

    /// Puts the current segments into `regions`.
    pub(crate) fn look(&self, regions: &mut Regions) -> Result<()> {
        let mut heap = lock(&HEAP);
        heap.read_slabs();
        let mut now: HashMap<String, Region> =
            heap.regions()?.into_iter().map(|region| (region.description.name.clone(), region)).collect();
        let is_same = |was: &Region| now.get(&was.description.name).is_some_and(|now| now.is_at(was));
        regions.retain(|region| !is_of_heap(region) || is_same(region));
        now.retain(|name, _| !regions.has(name));
        let mut new: Vec<Region> = now.into_values().collect();
        new.sort_unstable_by_key(Region::begins_at);
        new.into_iter().try_for_each(|region| regions.add(region))?;
        heap.has_looked();
        Ok(())
    }

    /// An error if the heap has changed since the checkpoint began, because the saved regions are fixed by then.
    pub(crate) fn look_again(&self, regions: &Regions) -> Result<()> {
        let now = lock(&HEAP).regions()?;
        let saved = regions.all().iter().filter(|region| is_of_heap(region));
        let mut saved: Vec<&Region> = saved.collect();
        saved.sort_unstable_by_key(|region| region.begins_at());
        if saved.len() == now.len() && saved.iter().zip(&now).all(|(saved, now)| saved.is_at(now)) {
            return Ok(());
        }
        let why =
            "it has grown or shrunk since the checkpoint began; allocate and free before begin, or after checkpoint";
        Err(Error::argument("heap", why))
    }

    /// Whether a shard with these `notes` holds a heap.
    pub(crate) fn is_in(&self, notes: &[Note]) -> bool {
        notes.iter().any(is_note_of_heap)
    }

    /// Removes the heap from `regions`, before a restore that may find another heap.
    pub(crate) fn leave(&self, regions: &mut Regions) {
        regions.retain(|region| !is_of_heap(region));
    }

    /// The regions for the heap of a shard with these `items` and `notes`, in addition to the `protected` ones. Nothing
    /// is touched yet.
    pub(crate) fn to_fill(
        &self,
        protected: &[Region],
        items: &[Item],
        notes: &[Note],
        revision: u64,
    ) -> Result<Vec<Region>> {
        if !self.is_in(notes) {
            let why = format!("is protected and not in revision {revision}; protect it only after the restore");
            return Err(Error::RegionMissing { name: "heap".to_owned(), why });
        }
        let of_heap = items.iter().filter(|item| parse(&item.name).is_some());
        let mut end = START;
        let (mut regions, mut wanted) = (Vec::new(), Vec::new());
        let mut segments: Vec<(&Item, usize, Kind)> =
            of_heap.filter_map(|item| parse(&item.name).map(|(at, kind)| (item, at, kind))).collect();
        segments.sort_unstable_by_key(|(_, at, _)| *at);
        for (item, at, kind) in segments {
            let bytes = usize::try_from(item.bytes).unwrap_or(usize::MAX);
            let mapped = kind.mapped_bytes(bytes);
            if at < end || bytes == 0 || bytes > mapped || at.checked_add(mapped).is_none_or(|end| end > END) {
                let is = kind_of(item.element, &item.shape, item.place.as_ref(), item.bytes);
                let why = format!("of revision {revision} is {is}, not a segment of a heap; restore an older revision");
                return Err(Error::argument(format!("{:?}", item.name), why));
            }
            end = at + mapped;
            wanted.push(at as u64..end as u64);
            regions.push(segment::region(&item.name, at, item.bytes)?);
        }
        for region in protected.iter().filter(|region| lies_in_heap(region)) {
            let end = region.begins_at() + region.reach();
            let is_there = |of_heap: &Region| {
                of_heap.begins_at() <= region.begins_at() && end <= of_heap.begins_at() + of_heap.reach()
            };
            if !regions.iter().any(is_there) {
                let why = "it is in the heap, but the restored heap has no memory there; give it other memory, or no name of its own";
                return Err(region.refused(why.to_owned()));
            }
        }
        match lock(&HEAP).in_the_way(&wanted) {
            None => Ok(regions),
            Some((Range { start, end }, file)) => {
                let what = if file.is_empty() { "memory of the program or a library" } else { &file };
                let why = format!(
                    "{what} is at {start:#x} to {end:#x}, where revision {revision} has its heap; this run's heap is unchanged: \
                     restore before that is mapped, or run without it"
                );
                Err(Error::argument("heap", why))
            }
        }
    }

    /// Rebuilds the heap from its own regions among these; a restore fills them next.
    pub(crate) fn lay_out(&self, regions: &[Region]) -> Result<()> {
        let wanted = regions.iter().filter_map(|region| {
            let (at, kind) = parse(&region.description.name)?;
            Some((at, (kind, kind.mapped_bytes(region.description.bytes as usize))))
        });
        let laid = lock(&HEAP).lay_out(&wanted.collect());
        laid.map_err(|error| Error::io("making room for", "the saved heap", error))
    }
}

impl Drop for SavedHeap {
    fn drop(&mut self) {
        lock(&HEAP).is_claimed = false;
    }
}

/// The ranges of `ranges` that share an address with `range`; they ascend without overlaps.
fn meeting<'a>(range: &Range, ranges: &'a [Range]) -> &'a [Range] {
    let first = ranges.partition_point(|one| one.end <= range.start);
    let end = ranges.partition_point(|one| one.start < range.end);
    &ranges[first..end.max(first)]
}

/// Whether a region is a segment of the heap.
pub(crate) fn is_of_heap(region: &Region) -> bool {
    parse(&region.description.name).is_some()
}

/// Whether the address is in the range of the heap, which is the same in every run.
pub(super) fn has_address(at: usize) -> bool {
    (START..END).contains(&at)
}

fn lies_in_heap(region: &Region) -> bool {
    region.reach() > 0 && region.begins_at() < END && START < region.begins_at() + region.reach()
}

/// Whether a note says that a revision holds a heap.
pub(crate) fn is_note_of_heap(note: &Note) -> bool {
    note.name == NOTE
}

#[cfg(test)]
mod tests;

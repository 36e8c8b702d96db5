//! Areas of memory that come and go between checkpoints, as in a program that maps and unmaps: a new area never shares
//! the blocks of an older one at its address, whatever page tracking knows of that.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use super::incremental::{folder, incremental};
use crate::support::often;
use fastrand::Rng;
use mainstay_engine::{Config, Reader, Region, Session, Track, group::Solo};
use std::{collections::BTreeMap, ops::Range, path::Path, ptr, slice};

const PAGE: usize = 4096;
const PAGES: usize = 512;

/// Reserved addresses in which areas are mapped.
struct Slot {
    at: *mut u8,
    /// The areas, by first page.
    areas: BTreeMap<usize, usize>,
}

impl Slot {
    fn new() -> Slot {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), PAGES * PAGE, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Slot { at: at.cast(), areas: BTreeMap::new() }
    }

    /// A slot far below the addresses that the system chooses. So no other thread's memory gets into a gap in it.
    fn far_from_others() -> Slot {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        let wanted = ptr::without_provenance_mut(0x20_0000_0000);
        // SAFETY: a new mapping. It fails if there is one at that address.
        let at = unsafe { libc::mmap(wanted, PAGES * PAGE, libc::PROT_NONE, flags, -1, 0) };
        assert_eq!(at, wanted);
        Slot { at: at.cast(), areas: BTreeMap::new() }
    }

    /// Replaces what is mapped in `pages`.
    fn map(&self, pages: &Range<usize>, protection: i32) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the pages are in the slot, and no reference to them is left.
        let at = unsafe { libc::mmap(self.page(pages.start).cast(), pages.len() * PAGE, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
    }

    fn page(&self, page: usize) -> *mut u8 {
        self.at.wrapping_add(page * PAGE)
    }

    fn name(from: usize) -> String {
        format!("v12/{:x}", 0x2000_a000 + from * PAGE)
    }

    fn region(&self, from: usize, count: usize) -> Region {
        // SAFETY: the test unprotects an area before it is read again after its end.
        unsafe { Region::new(&Slot::name(from), self.page(from), (count * PAGE) as u64) }.unwrap()
    }

    fn bytes(&self, from: usize, count: usize) -> &[u8] {
        // SAFETY: the pages are mapped, and nothing writes to them meanwhile.
        unsafe { slice::from_raw_parts(self.page(from), count * PAGE) }
    }

    fn is_free(&self, pages: &Range<usize>) -> bool {
        pages.end <= PAGES && self.areas.iter().all(|(from, count)| pages.end <= *from || from + count <= pages.start)
    }

    /// Takes an area away. The system forgets its pages; whether the session hears of it first is open.
    fn unmap(&mut self, from: usize) {
        let count = self.areas.remove(&from).unwrap();
        self.map(&(from..from + count), libc::PROT_NONE);
    }

    fn write(&self, random: &mut Rng, from: usize, count: usize) {
        for _ in 0..random.usize(0..6) {
            let page = from + random.usize(..count);
            // SAFETY: the page is mapped for writing.
            unsafe { self.page(page).add(random.usize(..PAGE)).write_volatile(random.u8(..)) };
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the session is gone.
        unsafe { libc::munmap(self.at.cast(), PAGES * PAGE) };
    }
}

/// One change of the areas between two checkpoints.
fn change(random: &mut Rng, slot: &mut Slot) {
    let some = |random: &mut Rng, slot: &Slot| {
        let all: Vec<(usize, usize)> = slot.areas.iter().map(|(from, count)| (*from, *count)).collect();
        (!all.is_empty()).then(|| all[random.usize(..all.len())])
    };
    match random.u8(..7) {
        0 | 1 => {
            // Addresses recur.
            let from = random.usize(..8) * 64;
            let pages = from..from + [1, 20, 40, 64][random.usize(..4)];
            if slot.is_free(&pages) {
                slot.map(&pages, libc::PROT_READ | libc::PROT_WRITE);
                slot.areas.insert(from, pages.len());
            }
        }
        2 => drop(some(random, slot).map(|(from, _)| slot.unmap(from))),
        // The same area, mapped anew: its pages are zeros.
        3 => drop(
            some(random, slot).map(|(from, count)| slot.map(&(from..from + count), libc::PROT_READ | libc::PROT_WRITE)),
        ),
        // Part of it, in its middle.
        4 => drop(some(random, slot).filter(|(_, count)| *count > 2).map(|(from, count)| {
            let middle = from + 1..from + 1 + random.usize(1..count - 1);
            slot.map(&middle, libc::PROT_READ | libc::PROT_WRITE);
        })),
        // It grows in place, or shrinks.
        5 => drop(some(random, slot).map(|(from, count)| {
            let to = random.usize(1..=64);
            if to > count && slot.is_free(&(from + count..from + to)) {
                slot.map(&(from + count..from + to), libc::PROT_READ | libc::PROT_WRITE);
                slot.areas.insert(from, to);
            } else if to < count {
                slot.map(&(from + to..from + count), libc::PROT_NONE);
                slot.areas.insert(from, to);
            }
        })),
        _ => drop(some(random, slot).map(|(from, count)| {
            // SAFETY: the pages are the area's. They are zeros afterwards.
            unsafe { libc::madvise(slot.page(from).cast(), count.div_ceil(2) * PAGE, libc::MADV_DONTNEED) };
        })),
    }
    for (from, count) in slot.areas.clone() {
        slot.write(random, from, count);
    }
}

/// Protects the areas that there are now. Whether regions that stay are left, moved or protected anew is chosen at random.
fn declare(random: &mut Rng, session: &mut Session, slot: &Slot, declared: &mut BTreeMap<usize, usize>) {
    let anew = random.u8(..4) == 0;
    for (from, count) in declared.clone() {
        let now = slot.areas.get(&from);
        if anew || now.is_none() {
            session.unprotect(&Slot::name(from)).unwrap();
            declared.remove(&from);
        } else if now != Some(&count) {
            session.move_region(slot.region(from, slot.areas[&from])).unwrap();
        }
    }
    for (from, count) in &slot.areas {
        if declared.insert(*from, *count).is_none() {
            session.protect(slot.region(*from, *count)).unwrap();
        }
    }
}

fn check(space: &Path, revision: u64, expected: &BTreeMap<String, Vec<u8>>, seed: u64) {
    let mut reader = Reader::open(space, Some(revision), "a test").unwrap();
    let names: Vec<String> = reader.items(0).unwrap().iter().map(|item| item.name.clone()).collect();
    assert_eq!(names.len(), expected.len(), "seed {seed}, revision {revision}");
    for (name, bytes) in expected {
        let mut into = vec![1; bytes.len()];
        assert_eq!(reader.read(0, name, 0, &mut into).unwrap(), bytes.len());
        let differs = into.iter().zip(bytes).position(|(one, other)| one != other);
        assert_eq!(differs.map(|at| at / PAGE), None, "seed {seed}, revision {revision}, {name}");
    }
}

fn random_areas(seed: u64, track: Track) {
    let folder = folder();
    let mut random = Rng::with_seed(seed);
    let mut slot = Slot::new();
    let config = Config { track, keep: 2, pool_bytes: Some(4 << 20), ..incremental() };
    let mut session = Session::open(Box::new(Solo), folder.path(), config).unwrap();
    let (mut declared, mut before) = (BTreeMap::new(), None);
    for _ in 0..25 {
        (0..random.usize(0..4)).for_each(|_| change(&mut random, &mut slot));
        declare(&mut random, &mut session, &slot, &mut declared);
        if slot.areas.is_empty() {
            continue;
        }
        let revision = session.checkpoint().unwrap();
        let state: BTreeMap<String, Vec<u8>> =
            slot.areas.iter().map(|(from, count)| (Slot::name(*from), slot.bytes(*from, *count).to_vec())).collect();
        session.wait().unwrap();
        check(folder.path(), revision, &state, seed);
        if let Some((revision, state)) = &before {
            check(folder.path(), *revision, state, seed);
        }
        before = Some((revision, state));
    }
    session.close().unwrap();
}

#[test]
fn areas_that_come_and_go_are_saved_as_they_are() {
    for seed in 0..often(4, 60) {
        random_areas(seed, Track::Pages);
        random_areas(seed, Track::Hashes);
    }
}

/// Memory that was unmapped before it was unprotected is not touched.
#[test]
fn memory_that_is_gone_can_be_unprotected() {
    for track in [Track::Pages, Track::Hashes] {
        let folder = folder();
        let mut slot = Slot::far_from_others();
        let mut session = Session::open(Box::new(Solo), folder.path(), Config { track, ..incremental() }).unwrap();
        for (from, count) in [(0, 64), (64, 64)] {
            slot.map(&(from..from + count), libc::PROT_READ | libc::PROT_WRITE);
            slot.areas.insert(from, count);
            slot.write(&mut Rng::with_seed(1), from, count);
            session.protect(slot.region(from, count)).unwrap();
        }
        session.checkpoint().unwrap();
        session.wait().unwrap();
        slot.unmap(0);
        // SAFETY: the area is gone, and nothing else is mapped in the gap.
        unsafe { libc::munmap(slot.page(0).cast(), 64 * PAGE) };
        session.unprotect(&Slot::name(0)).unwrap();
        let revision = session.checkpoint().unwrap();
        session.wait().unwrap();
        let state = [(Slot::name(64), slot.bytes(64, 64).to_vec())].into_iter().collect();
        check(folder.path(), revision, &state, 0);
        slot.map(&(0..64), libc::PROT_NONE);
        session.close().unwrap();
    }
}

/// Pages of `bytes` bytes that the kernel holds for this memory.
fn resident(slot: &Slot, from: usize, count: usize) -> usize {
    let mut pages = vec![0_u8; count];
    // SAFETY: the vector has a byte for each page.
    let told = unsafe { libc::mincore(slot.page(from).cast(), count * PAGE, pages.as_mut_ptr()) };
    assert_eq!(told, 0);
    pages.iter().filter(|page| **page & 1 == 1).count()
}

/// An untouched stack costs no data, and saving it gives it no memory of its own.
#[test]
fn pages_that_were_never_touched_are_not_written() {
    let folder = folder();
    let mut slot = Slot::new();
    let config = Config { track: Track::Pages, ..incremental() };
    let mut session = Session::open(Box::new(Solo), folder.path(), config).unwrap();
    slot.map(&(0..PAGES), libc::PROT_READ | libc::PROT_WRITE);
    slot.areas.insert(0, PAGES);
    // SAFETY: the page is mapped for writing.
    unsafe { slot.page(PAGES - 1).write_volatile(7) };
    session.protect(slot.region(0, PAGES)).unwrap();
    for _ in 0..3 {
        let revision = session.checkpoint().unwrap();
        session.wait().unwrap();
        let record = session.last_record().unwrap().unwrap();
        eprintln!("revision {revision}: {record:?}, {} resident", resident(&slot, 0, PAGES));
        let state = [(Slot::name(0), slot.bytes(0, PAGES).to_vec())].into_iter().collect();
        check(folder.path(), revision, &state, 0);
    }
    session.close().unwrap();
}

//! Compares an outline's staged and shared blocks with the changes.

use super::*;
use crate::{
    capture::{Contents, changed::item_of, contents::extend},
    space::format::{Annex, Extent, HASH_BYTES, Manifest, Run, hash},
};

const REGIONS: [&str; 4] = ["a", "b", "c", "d"];

fn region(name: &str, memory: &mut [u8]) -> Region {
    // SAFETY: the memory outlives the region and is only read.
    #[expect(unsafe_code, reason = "a region is memory")]
    unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) }.unwrap()
}

/// A revision with items at these places, block by block: `None` for zeros, and a hole for a block that is not stored
/// as a whole block.
fn base_of(places: &[Vec<Place>]) -> Base {
    let mut stored: Vec<u64> = places.iter().flatten().filter_map(|place| at(*place)).collect();
    stored.sort_unstable();
    stored.dedup();
    let (mut runs, mut rows) = (Vec::<Run>::new(), Vec::new());
    for block in stored.chunk_by(|one, next| one + 1 == *next) {
        let from = rows.len();
        block.iter().for_each(|block| rows.extend(u128::from(*block).to_le_bytes()));
        let (hashes_at, hashes_hash) = ((9000 * BLOCK_BYTES) + from as u64, hash(&rows[from..]));
        runs.push(Run { first_block: block[0], blocks: block.len() as u64, hashes_at, hashes_hash });
    }
    let extent = |place: &Place| match place {
        Place::At(at) => Extent { at: at * BLOCK_BYTES, bytes: BLOCK_BYTES },
        Place::Zeros => Extent { at: Extent::ZEROS, bytes: BLOCK_BYTES },
        // Bytes that are not in a whole block.
        Place::Hole => Extent { at: 8000 * BLOCK_BYTES + 7, bytes: BLOCK_BYTES },
    };
    let item = |(name, places): (&&str, &Vec<Place>)| item_of(name, places.iter().map(extent).collect());
    let items = REGIONS.iter().zip(places).map(item).collect();
    assert_eq!(rows.len() % HASH_BYTES, 0);
    Base::new(&Manifest { runs, items, ..Manifest::default() }, rows).unwrap()
}

fn at(place: Place) -> Option<u64> {
    if let Place::At(at) = place { Some(at) } else { None }
}

/// Places of `blocks` blocks, taken from `free`.
fn places(random: &mut fastrand::Rng, free: &mut Vec<u64>, blocks: u64) -> Vec<Place> {
    let one = |_| match random.u8(0..12) {
        0 => Place::Zeros,
        1 => Place::Hole,
        _ => Place::At(free.pop().unwrap()),
    };
    (0..blocks).map(one).collect()
}

/// A filled-in outline refers changed bytes to the log, zeros to no place, and all others to their places in the base.
/// This holds whatever changed, grew, or did not exist.
#[test]
fn an_outline_that_is_filled_in_leads_to_each_byte_once() {
    let mut outlined = 0;
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut free: Vec<u64> = (100..1500).collect();
        if random.bool() {
            random.shuffle(&mut free);
        } else {
            free.reverse();
        }
        let sizes: Vec<u64> = REGIONS.iter().map(|_| random.u64(0..80)).collect();
        let known: Vec<Vec<Place>> = sizes.iter().map(|blocks| places(&mut random, &mut free, *blocks)).collect();
        let base = base_of(&known[..random.usize(1..=REGIONS.len())]);
        // Some regions have become longer or shorter, and most end inside a block.
        let now = |blocks: &u64| (blocks * BLOCK_BYTES).saturating_add_signed(random.i64(-9000..9000)) as usize;
        let lengths: Vec<usize> = sizes.iter().map(now).collect();
        let mut memory: Vec<Vec<u8>> = lengths.iter().map(|length| vec![1; *length]).collect();
        for memory in &mut memory {
            let zeros = random.usize(0..=memory.len() / BLOCK_BYTES as usize) * BLOCK_BYTES as usize;
            memory[zeros.saturating_sub(5 * BLOCK_BYTES as usize)..zeros].fill(0);
        }
        let mut found = Vec::new();
        for (name, memory) in REGIONS.iter().zip(&memory) {
            let blocks = memory.len() as u64 / BLOCK_BYTES;
            let changed = (0..blocks).filter(|_| random.u8(0..4) == 0).map(|block| block..block + 1).collect();
            found.push(Found::Changed { name: (*name).to_owned(), blocks: changed });
        }
        let regions: Vec<Region> = REGIONS.iter().zip(&mut memory).map(|(name, memory)| region(name, memory)).collect();
        if random.bool() {
            // As the search by hashes reports it.
            found[0] = Found::Clean(found[0].clean(&regions[0], &base));
        }
        let whole = Size::new(&regions, 0, 0, Vec::new(), &[]);
        let Some(plan) = Plan::outline(&regions, &base, &found, &whole, 0) else { continue };
        outlined += 1;
        let outline = plan.outline.as_ref().unwrap();
        // As the stager places it: staged blocks one behind the other, all others at their numbers.
        let (mut log, mut items, mut staged, first) = (0, Vec::new(), Vec::new(), plan.size.blocks());
        for (index, region) in regions.iter().enumerate() {
            let (mut extents, mut offset) = (Vec::new(), 0);
            for part in plan.parts(index) {
                assert_eq!(part.from, offset, "seed {seed}");
                offset += part.bytes;
                let at = match part.place {
                    PartPlace::Nowhere => Extent::ZEROS,
                    PartPlace::Shared(number) => (first + number) * BLOCK_BYTES,
                    PartPlace::Staged => {
                        let at = u64::next_multiple_of(log, part.alignment());
                        log = at + part.bytes;
                        staged.push((index, part.from, part.bytes, at));
                        at
                    }
                };
                extend(&mut extents, at, part.bytes);
            }
            assert_eq!(offset, region.description.bytes, "seed {seed}");
            items.push(item_of(REGIONS[index], extents));
        }
        let blocks = log.div_ceil(BLOCK_BYTES);
        assert!(blocks <= first, "seed {seed}: {blocks} blocks are staged, and there is room for {first}");
        let shared = first..first + plan.shared_numbers();
        let contents = Contents { items, blocks, shared, is_outline: true, annex: Annex::default() };
        let encoded = contents.encode();
        assert!(Contents::decode(&encoded, u64::MAX).is_none(), "seed {seed}: an outline is encoded as one");
        let (contents, shared) = Contents::decode_outline(&encoded).unwrap().filled(&base).unwrap();
        let lies: Vec<u64> = shared.iter().flat_map(|run| run.first_block..run.stretch().end()).collect();
        assert_eq!((contents.blocks, contents.is_outline), (blocks, false), "seed {seed}");
        assert_eq!(contents.shared, blocks..blocks + lies.len() as u64, "seed {seed}");
        assert!(shared.len() <= outline.runs, "seed {seed}");
        let parts: u64 = contents.items.iter().map(|item| item.extents.len() as u64).sum();
        assert!(parts <= outline.parts, "seed {seed}: {parts} parts, and there is room for {}", outline.parts);
        let mut delta = Vec::new();
        for (index, item) in contents.items.iter().enumerate() {
            let mut offset = 0;
            let Found::Changed { blocks: changed, .. } = &found[index] else { continue };
            for Extent { at, bytes } in &item.extents {
                for byte in (offset..offset + bytes).step_by(512) {
                    let (place, block) = (at.saturating_add(byte - offset), byte / BLOCK_BYTES);
                    let is_whole = block < item.bytes / BLOCK_BYTES;
                    let is_changed = !is_whole || changed.iter().any(|range| range.contains(&block));
                    let before = known[index].get(block as usize).copied().unwrap_or(Place::Hole);
                    let is_log = || {
                        let part = staged
                            .iter()
                            .find(|(region, from, bytes, _)| *region == index && (*from..from + bytes).contains(&byte));
                        part.is_some_and(|(_, from, _, at)| place == at + (byte - from))
                    };
                    let from = (block * BLOCK_BYTES) as usize;
                    let row = regions[index].row().unwrap();
                    let are_zeros = || is_whole && row[from..from + BLOCK_BYTES as usize].iter().all(|byte| *byte == 0);
                    if *at >= Extent::ZEROS {
                        let is_nowhere = if is_changed { are_zeros() } else { before == Place::Zeros || are_zeros() };
                        assert!(is_nowhere, "seed {seed}: byte {byte} of {index}");
                    } else if place < blocks * BLOCK_BYTES {
                        assert!(is_log(), "seed {seed}: byte {byte} of {index} is at {place}");
                    } else {
                        let lies = lies[(place / BLOCK_BYTES - blocks) as usize];
                        assert!(!is_changed && before == Place::At(lies), "seed {seed}: byte {byte} of {index}");
                        delta.push(lies);
                    }
                }
                offset += bytes;
            }
            assert_eq!(offset, item.bytes, "seed {seed}");
        }
        // Each block of the base is shared or gone.
        let is_gone = |block: &u64| outline.gone.iter().any(|gone| gone.first == *block);
        assert!(!delta.iter().any(is_gone), "seed {seed}");
    }
    assert!(outlined > 150, "only {outlined} are outlined");
}

/// Story: old logs held so many places that a new log found none.
#[test]
fn blocks_that_are_alone_are_staged_again_as_far_as_bytes_allow() {
    const BLOCKS: u64 = 6000;
    const ALONE: u64 = 100;
    let mut random = fastrand::Rng::with_seed(1);
    // All but a hundred blocks are close together, in no order; the hundred have a segment each.
    let mut close: Vec<u64> = (10_240..10_240 + BLOCKS - ALONE).collect();
    random.shuffle(&mut close);
    let far = (0..ALONE).map(|number| 20_000 + 600 * number);
    let places: Vec<Place> = close.into_iter().chain(far).map(Place::At).collect();
    let base = base_of(std::slice::from_ref(&places));
    let mut memory = vec![1; (BLOCKS * BLOCK_BYTES) as usize];
    let regions = [region("a", &mut memory)];
    let whole = Size::new(&regions, 0, 0, Vec::new(), &[]);
    let staged = |changed: u64| {
        let blocks: Vec<_> = (0..changed).map(|number| number * 5..number * 5 + 1).collect();
        let found = [Found::Changed { name: "a".to_owned(), blocks }];
        let plan = Plan::outline(&regions, &base, &found, &whole, 0).unwrap();
        let staged = plan.parts(0).iter().filter(|part| part.is_staged());
        let staged = staged.flat_map(|part| part.from / BLOCK_BYTES..(part.from + part.bytes) / BLOCK_BYTES);
        let staged: Vec<u64> = staged.collect();
        let gone = &plan.outline.as_ref().unwrap().gone;
        assert_eq!(gone.len(), staged.len());
        assert!(staged.iter().all(|block| gone.iter().any(|gone| Place::At(gone.first) == places[*block as usize])));
        staged
    };
    let all = staged(1000);
    assert!(all.iter().filter(|block| **block < BLOCKS - ALONE).all(|block| *block % 5 == 0 && *block < 5000));
    assert_eq!(all.len() as u64, 1000 + ALONE);
    // If less changed, fewer further blocks may be written.
    let some = staged(500).len() as u64;
    assert!((500 + 10..500 + ALONE).contains(&some), "{some} are staged");
}

/// No build saves such a revision, but a forged manifest may describe one.
#[test]
fn a_revision_of_which_two_items_have_one_block_is_no_base_of_an_outline() {
    for first in [210, 209] {
        let places = [(200..210).map(Place::At).collect(), (first..first + 10).map(Place::At).collect()];
        let base = base_of(&places);
        let mut memory = [vec![1; 10 * BLOCK_BYTES as usize], vec![1; 10 * BLOCK_BYTES as usize]];
        let regions: Vec<Region> = REGIONS.iter().zip(&mut memory).map(|(name, memory)| region(name, memory)).collect();
        let found: Vec<Found> =
            REGIONS[..2].iter().map(|name| Found::Changed { name: (*name).to_owned(), blocks: Vec::new() }).collect();
        let whole = Size::new(&regions, 0, 0, Vec::new(), &[]);
        assert_eq!(Plan::outline(&regions, &base, &found, &whole, 0).is_some(), first == 210);
    }
}

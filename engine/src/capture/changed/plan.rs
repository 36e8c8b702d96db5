//! What is staged of each region, what is shared, and what is zero: decided at t1, when it is known what changed, as the
//! room that is looked for then is that of what changed.
//!
//! What must hold: the parts of a region are all of its bytes, once and in order; no block is shared twice.

use super::{
    Base, Lies,
    fewer::merge,
    hashes::{each_block, is_zeros},
    lies::add,
    vacate::vacate,
};
use crate::{
    capture::{Region, Size, region::SMALL_ALIGNMENT},
    space::{
        BlockSet, Ranks,
        format::{BLOCK_BYTES, HASH_BYTES, Manifest, Run, blocks_for},
        free::Blocks,
    },
};
use std::ops::Range;

/// So many parts are likely from the first revision on.
const PARTS_FEW: u64 = 4096;
/// A shard of which only staging tells what it shares has room for a part for so many blocks.
const BLOCKS_A_LATE_PART: u64 = 4;
/// How much more than what changed may be written: this share of what changed, and this share of all that is protected.
const MORE_OF_CHANGED: u64 = 4;
const MORE_OF_ALL: u64 = 1024;

/// What a part takes in a long list, which is compressed: a run has the hash of its hashes, and extents take little.
const LISTED_BYTES: u64 = 24;

#[derive(Debug)]
pub(crate) struct Plan {
    /// By region, in the order in which they are protected.
    regions: Vec<Vec<Part>>,
    /// Runs of the base that are shared, ascending.
    pub(crate) shared: Vec<Run>,
    /// How many blocks the runs before each have.
    before: Vec<u64>,
    /// The size of what is staged.
    pub(crate) size: Size,
    /// Where what is shared is not told part by part.
    pub(crate) outline: Option<Outline>,
}

/// What is known of a shard whose parts are not.
#[derive(Debug)]
pub(crate) struct Outline {
    /// The whole blocks of all regions, by which what is as in the base is numbered, region by region.
    pub(super) blocks: u64,
    /// How many of them are as in the base.
    pub(super) clean: u64,
    /// At most so many parts, and so many runs of the base.
    pub(super) parts: u64,
    pub(super) runs: usize,
    /// Blocks of the base that the shard does not lead to.
    pub(crate) gone: Vec<Blocks>,
}

/// Bytes of a region that lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) from: u64,
    pub(crate) bytes: u64,
    pub(crate) place: PartPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartPlace {
    Staged,
    /// The bytes are blocks of the base, the first of which has this number among all blocks that are shared.
    Shared(u64),
    /// The bytes are zeros, which are only noted, and lie nowhere.
    Nowhere,
}

impl Part {
    pub(crate) fn is_staged(&self) -> bool {
        self.place == PartPlace::Staged
    }

    /// The alignment at which the part has to begin in the log, if it is staged.
    pub(crate) fn alignment(&self) -> u64 {
        if self.bytes >= BLOCK_BYTES { BLOCK_BYTES } else { SMALL_ALIGNMENT }
    }
}

impl Plan {
    /// The plan for `regions`, of which `base` has the blocks `clean`; `None` if all are staged whole. What is not clean is
    /// looked at for zeros. `whole`: the size of all; what is smaller than `small_below` is gathered apart from the rest.
    pub(crate) fn new(
        regions: &[Region],
        base: &Base,
        clean: Vec<Vec<Lies>>,
        whole: &Size,
        small_below: u64,
    ) -> Option<Plan> {
        let bytes: Vec<u64> = regions.iter().map(|region| region.description.bytes).collect();
        let (mut shared_clean, (mut blocks, are_apart)) = merged(regions, &clean, base);
        // Two names have led to the same memory, which is rare.
        if !are_apart {
            (shared_clean, (blocks, _)) = merged(regions, &once(clean, base), base);
        }
        let clean = shared_clean;
        let (shared, numbers) = runs(blocks, base)?;
        let regions: Vec<Vec<Part>> =
            bytes.iter().zip(&clean).map(|(bytes, clean)| parts(*bytes, clean, &numbers)).collect::<Option<_>>()?;
        let count: u64 = regions.iter().map(|parts| parts.len() as u64).sum();
        let is_worth_it = !regions.iter().flatten().all(Part::is_staged);
        let size = whole.of_changed(staged_blocks(&bytes, &regions, small_below), count, shared.len());
        let mut end = 0;
        let before = shared.iter().map(|run| {
            end += run.blocks;
            end - run.blocks
        });
        let before = before.collect();
        is_worth_it.then_some(Plan { regions, before, shared, size, outline: None })
    }

    /// The plan of which `outline` tells what is not staged.
    pub(super) fn of_outline(regions: Vec<Vec<Part>>, size: Size, outline: Outline) -> Plan {
        Plan { regions, shared: Vec::new(), before: Vec::new(), size, outline: Some(outline) }
    }

    /// The parts of region number `index`.
    pub(crate) fn parts(&self, index: usize) -> &[Part] {
        &self.regions[index]
    }

    /// How many numbers the blocks that are shared have: one each, but in an outline.
    pub(crate) fn shared_numbers(&self) -> u64 {
        self.outline.as_ref().map_or_else(|| self.shared_blocks(), |outline| outline.blocks)
    }

    /// How many blocks are shared.
    pub(crate) fn shared_blocks(&self) -> u64 {
        self.outline.as_ref().map_or_else(|| self.shared.iter().map(|run| run.blocks).sum(), |outline| outline.clean)
    }

    /// The block of the base that has this number among all that is shared.
    pub(crate) fn shared_block(&self, number: u64) -> Option<u64> {
        let index = self.before.partition_point(|before| *before <= number).checked_sub(1)?;
        let (run, inside) = (self.shared[index], number - self.before[index]);
        (inside < run.blocks).then(|| run.first_block + inside)
    }

    /// How large the shard is where it is written whole from what lies in the nearest portion.
    fn size_elsewhere(&self, whole: &Size) -> Size {
        // What is staged may lie between what is shared.
        let told = || (self.regions.iter().map(|parts| parts.len() as u64).sum(), self.shared.len());
        let (parts, runs) = self.outline.as_ref().map_or_else(told, |outline| (outline.parts, outline.runs));
        let parts = parts + Manifest::RUN_EXTENTS * runs as u64 + OWN_RUNS_LIKELY as u64;
        whole
            .in_parts(parts.max(parts_likely(whole)))
            .at_least((self.size.blocks() + self.shared_blocks()) * BLOCK_BYTES)
    }
}

/// How large a shard of `whole` size is on farther levels and copies where revisions share blocks: this one by `plan`, or
/// whole without one. There is room for the parts of later ones from the first on, so that these need no larger layout.
pub(crate) fn size_elsewhere(whole: &Size, plan: Option<&Plan>) -> Size {
    plan.map_or_else(|| whole.in_parts(parts_likely(whole)), |plan| plan.size_elsewhere(whole))
}

/// Room for a shard of `whole` size that may turn out, while it is staged, to lead to an older revision.
pub(crate) fn size_to_lead(whole: &Size) -> Size {
    let blocks = whole.blocks();
    whole.to_lead(PARTS_FEW.max(blocks / BLOCKS_A_LATE_PART).min(blocks))
}

/// As `Plan::size_elsewhere` counts them: the parts, and what lies before and behind each that is shared.
fn parts_likely(whole: &Size) -> u64 {
    (3 * PARTS_FEW.min(whole.blocks())).max(whole.blocks()) + OWN_RUNS_LIKELY as u64
}

/// The most stretches that what is staged may lie in; and those that shards have room for from the first on, where it is not
/// known yet.
pub(crate) const OWN_RUNS_MAX: usize = 2048;
const OWN_RUNS_LIKELY: usize = 256;

/// How many blocks may be written besides of a shard of `all` bytes, of which these blocks are clean.
pub(super) fn more_blocks(all: u64, clean: &[Vec<Lies>]) -> u64 {
    let stretches = clean.iter().map(|lies| lies.len() as u64).sum();
    more_of(all, clean.iter().flatten().map(|lies| lies.count).sum(), stretches)
}

/// The same, where so many blocks are clean, in so many stretches.
pub(super) fn more_of(all: u64, clean_blocks: u64, stretches: u64) -> u64 {
    let staged = all.saturating_sub(clean_blocks * BLOCK_BYTES);
    let listed = 2 * stretches * LISTED_BYTES;
    let hashes = blocks_for(staged) * HASH_BYTES as u64;
    (staged / MORE_OF_CHANGED + all / MORE_OF_ALL).saturating_sub(listed + hashes) / BLOCK_BYTES
}

/// The blocks `clean`, and those that are zero, without what is better staged again than led to; and where they lie, as of
/// `set_of`.
fn merged(regions: &[Region], clean: &[Vec<Lies>], base: &Base) -> (Vec<Vec<Lies>>, (BlockSet, bool)) {
    let mut clean: Vec<_> = regions.iter().zip(clean).map(|(region, clean)| with_zeros(region, clean)).collect();
    let mut more = more_blocks(regions.iter().map(|region| region.description.bytes).sum(), &clean);
    let mut are_few = true;
    for clean in &mut clean {
        are_few &= merge(clean, &mut more);
    }
    let (mut blocks, are_apart) = set_of(&clean);
    if !are_few {
        vacate(&mut clean, more, &mut blocks, base.early());
    }
    (clean, (blocks, are_apart))
}

/// The stretches of `clean`, and between them those of whole blocks that are zero.
fn with_zeros(region: &Region, clean: &[Lies]) -> Vec<Lies> {
    let (blocks, mut all, mut from) = (region.description.bytes / BLOCK_BYTES, Vec::with_capacity(clean.len()), 0);
    let look = |gap: Range<u64>, all: &mut Vec<Lies>| {
        each_block(region, gap, |block, bytes| {
            if is_zeros(bytes) {
                add(all, Lies::zeros(block, 1));
            }
        });
    };
    for lies in clean {
        if from < lies.block {
            look(from..lies.block, &mut all);
        }
        add(&mut all, *lies);
        from = lies.block + lies.count;
    }
    if from < blocks {
        look(from..blocks, &mut all);
    }
    all
}

/// The blocks `clean` without those that would lead to a block of the base a second time.
pub(super) fn once(clean: Vec<Vec<Lies>>, base: &Base) -> Vec<Vec<Lies>> {
    // Block by block only where two names have led to the same memory.
    if set_of(&clean).1 {
        return clean;
    }
    let mut taken = vec![false; base.blocks() as usize];
    let mut take = |lies: Lies, into: &mut Vec<Lies>| {
        if lies.are_zeros() {
            return add(into, lies);
        }
        for inside in 0..lies.count {
            let (block, at) = (lies.block + inside, lies.at + inside);
            let Some(taken) = base.number(at).and_then(|number| taken.get_mut(number as usize)) else { continue };
            if !std::mem::replace(taken, true) {
                add(into, Lies { block, at, count: 1 });
            }
        }
    };
    let each = clean.into_iter().map(|all| {
        let mut once = Vec::with_capacity(all.len());
        all.into_iter().for_each(|lies| take(lies, &mut once));
        once
    });
    each.collect()
}

/// Where those of these blocks lie that are not zeros, and whether none of them lies where another does.
pub(super) fn set_of(clean: &[Vec<Lies>]) -> (BlockSet, bool) {
    let stored = clean.iter().flatten().filter(|lies| !lies.are_zeros());
    BlockSet::of(stored.map(|lies| Blocks { first: lies.at, count: lies.count }))
}

/// The runs of the base that have these blocks, with the hashes of their rows, and the numbers of these blocks among all that
/// is shared.
pub(super) fn runs(blocks: BlockSet, base: &Base) -> Option<(Vec<Run>, Ranks)> {
    let runs = base.runs_of(blocks.stretches())?;
    Some((runs, Ranks::of(blocks)))
}

/// The parts of a region of `bytes` bytes of which these blocks are shared, or zero.
fn parts(bytes: u64, clean: &[Lies], numbers: &Ranks) -> Option<Vec<Part>> {
    let (mut parts, mut from) = (Vec::with_capacity(2 * clean.len() + 1), 0);
    let staged = |from: u64, to: u64| (from < to).then_some(Part { from, bytes: to - from, place: PartPlace::Staged });
    for lies in clean {
        let begin = lies.block * BLOCK_BYTES;
        parts.extend(staged(from, begin));
        let place = match lies.are_zeros() {
            true => PartPlace::Nowhere,
            false => PartPlace::Shared(numbers.of_block(lies.at)?),
        };
        parts.push(Part { from: begin, bytes: lies.count * BLOCK_BYTES, place });
        from = begin + lies.count * BLOCK_BYTES;
    }
    parts.extend(staged(from, bytes));
    Some(parts)
}

/// Upper bound of the blocks that are staged.
pub(super) fn staged_blocks(bytes: &[u64], regions: &[Vec<Part>], small_below: u64) -> u64 {
    let (mut small, mut rest) = (0_u64, 0_u64);
    for (bytes, parts) in bytes.iter().zip(regions) {
        let is_whole = parts.iter().all(Part::is_staged);
        let end = if is_whole && *bytes < small_below { &mut small } else { &mut rest };
        for part in parts.iter().filter(|part| part.is_staged()) {
            *end = end.next_multiple_of(part.alignment()) + part.bytes;
        }
    }
    blocks_for(small) + blocks_for(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::format::{BLOCK, ElementType, Extent, Item, ItemKind, hash};

    fn region(name: &str, memory: &mut [u8]) -> Region {
        // SAFETY: the memory outlives the region, of which nothing is touched.
        #[expect(unsafe_code, reason = "a region is memory")]
        let region = unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) };
        region.unwrap()
    }

    /// A revision whose items lie in these runs, one behind the other.
    fn base_of(runs: &[(u64, u64)], sizes: &[u64]) -> Base {
        base_at(runs, runs.iter().flat_map(|(first, blocks)| *first..first + blocks), sizes)
    }

    /// A revision in these runs, whose items lie in `blocks`, one behind the other, and its blocks' hashes: their numbers in
    /// the portion.
    fn base_at(runs: &[(u64, u64)], mut blocks: impl Iterator<Item = u64>, sizes: &[u64]) -> Base {
        let (mut row, mut rows) = (900 * BLOCK_BYTES, Vec::new());
        let run = |(first_block, blocks): &(u64, u64)| {
            let (hashes_at, from) = (row, rows.len());
            row += blocks * HASH_BYTES as u64;
            (*first_block..first_block + blocks).for_each(|block| rows.extend(u128::from(block).to_le_bytes()));
            Run { first_block: *first_block, blocks: *blocks, hashes_at, hashes_hash: hash(&rows[from..]) }
        };
        let runs: Vec<Run> = runs.iter().map(run).collect();
        let item = |(index, bytes): (usize, &u64)| {
            let mut left = *bytes;
            let extent = |at: u64| {
                let bytes = left.min(BLOCK_BYTES);
                left -= bytes;
                Extent { at: at * BLOCK_BYTES, bytes }
            };
            let extents = blocks.by_ref().take(blocks_for(*bytes) as usize).map(extent).collect();
            let (kind, element) = (ItemKind::Region, ElementType::Bytes);
            Item {
                name: format!("r{index}"),
                kind,
                element,
                bytes: *bytes,
                shape: vec![*bytes],
                place: None,
                same_on_all_ranks: false,
                extents,
            }
        };
        let items = sizes.iter().enumerate().map(item).collect();
        Base::new(&Manifest { runs, items, ..Manifest::default() }, rows).unwrap()
    }

    /// Whatever is clean, all bytes are staged or shared, in order, and what is shared is led to by runs and rows of the
    /// base.
    #[test]
    fn every_byte_is_staged_or_shared_once() {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let sizes = [60 * BLOCK_BYTES + 100, 5, 33 * BLOCK_BYTES, BLOCK_BYTES - 1];
            let base = base_of(&[(10, 20), (30, 7), (50, 40), (100, 60)], &sizes);
            let mut memory: Vec<Vec<u8>> = sizes.iter().map(|bytes| vec![1; *bytes as usize]).collect();
            // A block of zeros counts as such where it is not clean, and only if it is whole.
            let zero = random.u64(..60);
            memory[0][zero as usize * BLOCK..][..BLOCK].fill(0);
            memory[3].fill(0);
            let named = memory.iter_mut().enumerate();
            let regions: Vec<Region> = named.map(|(index, memory)| region(&format!("r{index}"), memory)).collect();
            let odds = random.u8(1..20);
            let mut some = |lies: &Lies| {
                let kept = (0..lies.count).filter(|_| random.u8(0..20) < odds).collect::<Vec<_>>();
                let one = |inside: u64| Lies { block: lies.block + inside, at: lies.at + inside, count: 1 };
                kept.into_iter().map(one).collect::<Vec<_>>()
            };
            let clean: Vec<Vec<Lies>> = (0..sizes.len())
                .map(|index| base.lies(&format!("r{index}")).unwrap().iter().flat_map(&mut some).collect())
                .collect();
            let wanted: u64 = clean.iter().flatten().map(|lies| lies.count).sum();
            let is_clean = clean[0].iter().any(|lies| lies.block == zero);
            let whole = Size::new(&regions, 0, 0, Vec::new(), &[]);
            let Some(plan) = Plan::new(&regions, &base, clean.clone(), &whole, 0) else {
                panic!("seed {seed}: there are zeros at least, or clean blocks")
            };
            assert_eq!(plan.shared_blocks(), wanted, "seed {seed}");
            let shared: Vec<u64> = plan.shared.iter().flat_map(|run| run.first_block..run.stretch().end()).collect();
            assert!(shared.is_sorted());
            for run in &plan.shared {
                let row = base.hashes(run.first_block..run.stretch().end()).unwrap();
                assert_eq!(run.hashes_hash, hash(row));
                let begins = base.runs_of([Blocks { first: run.first_block, count: 1 }]).unwrap();
                assert_eq!(run.hashes_at, begins[0].hashes_at);
            }
            let mut zeros = 0;
            for (index, clean) in clean.iter().enumerate() {
                let mut from = 0;
                for part in plan.parts(index) {
                    assert_eq!(part.from, from, "seed {seed}");
                    from += part.bytes;
                    if part.place == PartPlace::Nowhere {
                        assert_eq!((index, part.from, part.bytes), (0, zero * BLOCK_BYTES, BLOCK_BYTES), "seed {seed}");
                        zeros += 1;
                    }
                    let PartPlace::Shared(number) = part.place else { continue };
                    for inside in 0..part.bytes / BLOCK_BYTES {
                        let block = part.from / BLOCK_BYTES + inside;
                        let at = shared[(number + inside) as usize];
                        assert!(clean.contains(&Lies { block, at, count: 1 }), "seed {seed}: block {block} is at {at}");
                    }
                }
                assert_eq!(from, sizes[index], "seed {seed}");
            }
            assert_eq!(zeros, u64::from(!is_clean), "seed {seed}");
            assert!(plan.size.blocks() + wanted + zeros <= whole.blocks(), "seed {seed}");
        }
    }

    /// A shard that fell into very many parts had much written again that had not changed: a third of it, with 10 % of its pages
    /// at random.
    #[test]
    fn random_pages_have_little_more_written_than_changed_however_often() {
        const BLOCKS: u64 = 20_000;
        let mut random = fastrand::Rng::with_seed(1);
        let mut memory = vec![1; (BLOCKS * BLOCK_BYTES) as usize];
        let regions = [region("r0", &mut memory)];
        let whole = Size::new(&regions, 0, 0, Vec::new(), &[]);
        let (mut places, mut free): (Vec<u64>, u64) = ((0..BLOCKS).collect(), BLOCKS);
        for revision in 2..30 {
            let mut sorted = places.clone();
            sorted.sort_unstable();
            let together = sorted.chunk_by(|one, next| one + 1 == *next);
            let runs: Vec<(u64, u64)> = together.map(|run| (run[0], run.len() as u64)).collect();
            let base = base_at(&runs, places.iter().copied(), &[BLOCKS * BLOCK_BYTES]);
            let mut clean = Vec::new();
            let unchanged = (0..BLOCKS).filter(|_| random.u8(0..10) > 0);
            unchanged.for_each(|block| add(&mut clean, Lies { block, at: places[block as usize], count: 1 }));
            let plan = Plan::new(&regions, &base, vec![clean], &whole, 0);
            let plan = plan.unwrap_or_else(|| panic!("all of revision {revision} is written"));
            let staged = plan.parts(0).iter().filter(|part| part.is_staged());
            let written: u64 = staged.clone().map(|part| part.bytes / BLOCK_BYTES).sum();
            assert!(written < BLOCKS / 8, "revision {revision} writes {written} blocks of {BLOCKS}");
            for block in staged.flat_map(|part| part.from / BLOCK_BYTES..(part.from + part.bytes) / BLOCK_BYTES) {
                places[block as usize] = free;
                free += 1;
            }
            // Revisions do not touch.
            free += 1;
        }
    }
}

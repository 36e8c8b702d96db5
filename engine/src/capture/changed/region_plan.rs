//! Plans for each region the staged bytes, the shared blocks and the zeros. This is decided at t1, after the search for
//! changes, because the room to look for is that of the changes.
//!
//! Invariant: the parts of a region are all of its bytes, once and in order; no block is shared twice.

use super::{
    Base, BlockRun,
    block_runs::{add, set_of},
    hashes::{each_block, is_zeros},
    limit_parts::merge,
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

/// The number of parts to expect from the first revision on.
const PARTS_FEW: u64 = 4096;
/// If only staging shows the shared blocks of a shard, it has room for one part for so many blocks.
const BLOCKS_A_LATE_PART: u64 = 4;
/// Limits on further blocks that may be written: this fraction of the changes, and this fraction of all protected
/// bytes.
const MORE_OF_CHANGED: u64 = 4;
const MORE_OF_ALL: u64 = 1024;

/// Bytes of a part in a long, compressed list: a run has the hash of its hashes, and extents take little.
const LISTED_BYTES: u64 = 24;

#[derive(Debug)]
pub(crate) struct Plan {
    /// By region, in the order of protection.
    regions: Vec<Vec<Part>>,
    /// Runs of the base that are shared, ascending.
    pub(crate) shared: Vec<Run>,
    /// For each run, the number of blocks in the runs before it.
    before: Vec<u64>,
    /// The size of the staged data.
    pub(crate) size: Size,
    /// Set if the shared blocks are not listed part by part.
    pub(crate) outline: Option<Outline>,
}

/// The facts about a shard without a list of its parts.
#[derive(Debug)]
pub(crate) struct Outline {
    /// The whole blocks of all regions; they give the shared blocks their numbers, region by region.
    pub(super) blocks: u64,
    /// The number of those blocks that are as in the base.
    pub(super) clean: u64,
    /// Upper bounds of the number of parts, and of the runs of the base.
    pub(super) parts: u64,
    pub(super) runs: usize,
    /// Blocks of the base that the shard does not share.
    pub(crate) gone: Vec<Blocks>,
}

/// Consecutive bytes of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) from: u64,
    pub(crate) bytes: u64,
    pub(crate) place: PartPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartPlace {
    Staged,
    /// The bytes are blocks of the base; this is the number of the first among all shared blocks.
    Shared(u64),
    /// The bytes are zeros; they are recorded but not stored.
    Nowhere,
}

impl Part {
    pub(crate) fn is_staged(&self) -> bool {
        self.place == PartPlace::Staged
    }

    /// The alignment of the part in the log, if it is staged.
    pub(crate) fn alignment(&self) -> u64 {
        if self.bytes >= BLOCK_BYTES { BLOCK_BYTES } else { SMALL_ALIGNMENT }
    }
}

impl Plan {
    /// The plan for `regions`; `base` has their blocks `clean`. `None` if all are staged whole. Other blocks are
    /// searched for zeros. `whole`: the size of all; regions smaller than `small_below` are gathered separately.
    pub(crate) fn new(
        regions: &[Region],
        base: &Base,
        clean: Vec<Vec<BlockRun>>,
        whole: &Size,
        small_below: u64,
    ) -> Option<Plan> {
        let bytes: Vec<u64> = regions.iter().map(|region| region.description.bytes).collect();
        let (mut shared_clean, (mut blocks, mut are_apart)) = merged(regions, &clean, base);
        // Two names may have referred to the same memory, which is rare.
        if !are_apart {
            (shared_clean, (blocks, are_apart)) = merged(regions, &once(clean, base), base);
        }
        debug_assert!(are_apart, "a block is shared twice");
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

    /// The plan with the shared blocks of `outline`.
    pub(super) fn of_outline(regions: Vec<Vec<Part>>, size: Size, outline: Outline) -> Plan {
        Plan { regions, shared: Vec::new(), before: Vec::new(), size, outline: Some(outline) }
    }

    /// The parts of region number `index`.
    pub(crate) fn parts(&self, index: usize) -> &[Part] {
        &self.regions[index]
    }

    /// The number of numbers of shared blocks: one each, except in an outline.
    pub(crate) fn shared_numbers(&self) -> u64 {
        self.outline.as_ref().map_or_else(|| self.shared_blocks(), |outline| outline.blocks)
    }

    /// The number of shared blocks.
    pub(crate) fn shared_blocks(&self) -> u64 {
        self.outline.as_ref().map_or_else(|| self.shared.iter().map(|run| run.blocks).sum(), |outline| outline.clean)
    }

    /// The block of the base with this number among all shared blocks.
    pub(crate) fn shared_block(&self, number: u64) -> Option<u64> {
        let index = self.before.partition_point(|before| *before <= number).checked_sub(1)?;
        let (run, inside) = (self.shared[index], number - self.before[index]);
        (inside < run.blocks).then(|| run.first_block + inside)
    }

    /// The size of the shard if it is written whole from the nearest portion.
    fn size_elsewhere(&self, whole: &Size) -> Size {
        // Staged blocks may be between shared ones.
        let counts = || (self.regions.iter().map(|parts| parts.len() as u64).sum(), self.shared.len());
        let (parts, runs) = self.outline.as_ref().map_or_else(counts, |outline| (outline.parts, outline.runs));
        let parts = parts + Manifest::RUN_EXTENTS * runs as u64 + OWN_RUNS_LIKELY as u64;
        whole
            .in_parts(parts.max(parts_likely(whole)))
            .at_least((self.size.blocks() + self.shared_blocks()) * BLOCK_BYTES)
    }
}

/// The size of a shard of `whole` size on farther levels and copies if revisions share blocks: by `plan`, or whole
/// without one. It includes room for the parts of later revisions; they then need no larger layout.
pub(crate) fn size_elsewhere(whole: &Size, plan: Option<&Plan>) -> Size {
    plan.map_or_else(|| whole.in_parts(parts_likely(whole)), |plan| plan.size_elsewhere(whole))
}

/// Room for a shard of `whole` size that may turn out, during staging, to share blocks of an older revision.
pub(crate) fn size_of_delta(whole: &Size) -> Size {
    let blocks = whole.blocks();
    whole.to_lead(PARTS_FEW.max(blocks / BLOCKS_A_LATE_PART).min(blocks))
}

/// Counts as `Plan::size_elsewhere` does: the parts, and the staged bytes before and after each shared one.
fn parts_likely(whole: &Size) -> u64 {
    (3 * PARTS_FEW.min(whole.blocks())).max(whole.blocks()) + OWN_RUNS_LIKELY as u64
}

/// The maximum number of stretches for staged data; and the number for which shards have room from the first on, while
/// it is not known yet.
pub(crate) const OWN_RUNS_MAX: usize = 2048;
const OWN_RUNS_LIKELY: usize = 256;

/// The number of further blocks that may be written of a shard of `all` bytes with these clean blocks.
pub(super) fn more_blocks(all: u64, clean: &[Vec<BlockRun>]) -> u64 {
    let stretches = clean.iter().map(|lies| lies.len() as u64).sum();
    more_of(all, clean.iter().flatten().map(|lies| lies.count).sum(), stretches)
}

/// The same, for this many clean blocks in this many stretches.
pub(super) fn more_of(all: u64, clean_blocks: u64, stretches: u64) -> u64 {
    let staged = all.saturating_sub(clean_blocks * BLOCK_BYTES);
    let listed = 2 * stretches * LISTED_BYTES;
    let hashes = blocks_for(staged) * HASH_BYTES as u64;
    (staged / MORE_OF_CHANGED + all / MORE_OF_ALL).saturating_sub(listed + hashes) / BLOCK_BYTES
}

/// The `clean` and the zero blocks, without those that are better staged again; and their places, as in `set_of`.
fn merged(regions: &[Region], clean: &[Vec<BlockRun>], base: &Base) -> (Vec<Vec<BlockRun>>, (BlockSet, bool)) {
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

/// The stretches of `clean`, and between them the stretches of zero blocks.
fn with_zeros(region: &Region, clean: &[BlockRun]) -> Vec<BlockRun> {
    let (blocks, mut all, mut from) = (region.description.bytes / BLOCK_BYTES, Vec::with_capacity(clean.len()), 0);
    let look = |gap: Range<u64>, all: &mut Vec<BlockRun>| {
        each_block(region, gap, |block, bytes| {
            if is_zeros(bytes) {
                add(all, BlockRun::zeros(block, 1));
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

/// The blocks `clean` without those that would share a block of the base a second time.
pub(super) fn once(clean: Vec<Vec<BlockRun>>, base: &Base) -> Vec<Vec<BlockRun>> {
    // Block by block only if two names referred to the same memory.
    if set_of(&clean).1 {
        return clean;
    }
    let mut taken = vec![false; base.blocks() as usize];
    let mut take = |lies: BlockRun, into: &mut Vec<BlockRun>| {
        if lies.are_zeros() {
            return add(into, lies);
        }
        for inside in 0..lies.count {
            let (block, at) = (lies.block + inside, lies.at + inside);
            let Some(taken) = base.number(at).and_then(|number| taken.get_mut(number as usize)) else { continue };
            if !std::mem::replace(taken, true) {
                add(into, BlockRun { block, at, count: 1 });
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

/// The runs of the base with these blocks, the hashes of their rows, and the numbers of these blocks among all shared
/// ones.
pub(super) fn runs(blocks: BlockSet, base: &Base) -> Option<(Vec<Run>, Ranks)> {
    let runs = base.runs_of(blocks.stretches())?;
    Some((runs, Ranks::of(blocks)))
}

/// The parts of a region of `bytes` bytes; the blocks `clean` are shared, or zero.
fn parts(bytes: u64, clean: &[BlockRun], numbers: &Ranks) -> Option<Vec<Part>> {
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
    debug_assert!(are_all(&parts, bytes), "the parts of a region are not its bytes");
    Some(parts)
}

/// Whether these parts are all of a region's bytes, once and in order.
pub(super) fn are_all(parts: &[Part], bytes: u64) -> bool {
    let end = parts.iter().try_fold(0, |end, part| (part.from == end).then_some(end + part.bytes));
    end == Some(bytes)
}

/// Upper bound of the staged blocks.
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
    use crate::{
        capture::changed::item_of,
        space::format::{BLOCK, Extent, hash},
    };

    fn region(name: &str, memory: &mut [u8]) -> Region {
        // SAFETY: the memory outlives the region and is not touched.
        #[expect(unsafe_code, reason = "a region is memory")]
        let region = unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) };
        region.unwrap()
    }

    /// A revision with its items in these runs, one behind the other.
    fn base_of(runs: &[(u64, u64)], sizes: &[u64]) -> Base {
        base_at(runs, runs.iter().flat_map(|(first, blocks)| *first..first + blocks), sizes)
    }

    /// A revision in these runs, with its items in `blocks`, one behind the other. The hashes of the blocks are their
    /// numbers in the portion.
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
            item_of(&format!("r{index}"), extents)
        };
        let items = sizes.iter().enumerate().map(item).collect();
        Base::new(&Manifest { runs, items, ..Manifest::default() }, rows).unwrap()
    }

    /// Whatever is clean, all bytes are staged or shared, in order. Shared bytes are in runs and rows of the base.
    #[test]
    fn every_byte_is_staged_or_shared_once() {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let sizes = [60 * BLOCK_BYTES + 100, 5, 33 * BLOCK_BYTES, BLOCK_BYTES - 1];
            let base = base_of(&[(10, 20), (30, 7), (50, 40), (100, 60)], &sizes);
            let mut memory: Vec<Vec<u8>> = sizes.iter().map(|bytes| vec![1; *bytes as usize]).collect();
            // A zero block counts as such if it is not clean, and only if it is whole.
            let zero = random.u64(..60);
            memory[0][zero as usize * BLOCK..][..BLOCK].fill(0);
            memory[3].fill(0);
            let named = memory.iter_mut().enumerate();
            let regions: Vec<Region> = named.map(|(index, memory)| region(&format!("r{index}"), memory)).collect();
            let odds = random.u8(1..20);
            let mut some = |lies: &BlockRun| {
                let kept = (0..lies.count).filter(|_| random.u8(0..20) < odds).collect::<Vec<_>>();
                let one = |inside: u64| BlockRun { block: lies.block + inside, at: lies.at + inside, count: 1 };
                kept.into_iter().map(one).collect::<Vec<_>>()
            };
            let clean: Vec<Vec<BlockRun>> = (0..sizes.len())
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
                        assert!(
                            clean.contains(&BlockRun { block, at, count: 1 }),
                            "seed {seed}: block {block} is at {at}"
                        );
                    }
                }
                assert_eq!(from, sizes[index], "seed {seed}");
            }
            assert_eq!(zeros, u64::from(!is_clean), "seed {seed}");
            assert!(plan.size.blocks() + wanted + zeros <= whole.blocks(), "seed {seed}");
        }
    }

    /// Story: much of a shard in very many parts was written again without having changed: a third of it, with 10 % of
    /// its pages changed at random.
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
            unchanged.for_each(|block| add(&mut clean, BlockRun { block, at: places[block as usize], count: 1 }));
            let plan = Plan::new(&regions, &base, vec![clean], &whole, 0);
            let plan = plan.unwrap_or_else(|| panic!("all of revision {revision} is written"));
            let staged = plan.parts(0).iter().filter(|part| part.is_staged());
            let written: u64 = staged.clone().map(|part| part.bytes / BLOCK_BYTES).sum();
            assert!(written < BLOCKS / 8, "revision {revision} writes {written} blocks of {BLOCKS}");
            for block in staged.flat_map(|part| part.from / BLOCK_BYTES..(part.from + part.bytes) / BLOCK_BYTES) {
                places[block as usize] = free;
                free += 1;
            }
            // Revisions are not adjacent.
            free += 1;
        }
    }
}

//! An outline of a shard: its staged blocks; all others are as in the base. If a revision is in very many parts, the
//! program waits only for the outline. The places of the shared blocks are filled in after the program goes on.
//!
//! Invariant: an outline together with its base says the same as a plan with every part.

#[cfg(test)]
mod tests;

use super::{
    Base, BlockRun, Found,
    hashes::{each_block, is_zeros},
    index::{Index, Indexed, Place},
    limit_parts::comes_to_few,
    region_plan::{Outline, Part, PartPlace, Plan, are_all, more_of, staged_blocks},
};
use crate::{
    capture::{Region, Size},
    space::{BlockSet, format::BLOCK_BYTES, free::Blocks},
};

/// The plan for the whole blocks of a region.
struct OutlinedRegion<'a> {
    blocks: u64,
    staged: BlockSet,
    zeros: BlockSet,
    item: Option<(usize, &'a Indexed)>,
}

impl Plan {
    /// The plan for `regions` as an outline. `found`: their changes since `base`; `None` if only a plan of each part is
    /// possible, or is as good. The other arguments are as in `new`.
    pub(crate) fn outline(
        regions: &[Region],
        base: &Base,
        found: &[Found],
        whole: &Size,
        small_below: u64,
    ) -> Option<Plan> {
        let index = base.index()?;
        let outlined = regions.iter().zip(found).map(|(region, found)| OutlinedRegion::new(region, index, found));
        let mut all = outlined.collect::<Option<Vec<_>>>()?;
        regions.iter().zip(&mut all).for_each(|(region, outlined)| outlined.find_zeros(region));
        let bytes: Vec<u64> = regions.iter().map(|region| region.description.bytes).collect();
        let clean = |all: &[OutlinedRegion<'_>]| all.iter().map(OutlinedRegion::clean).sum::<u64>();
        let more = more_of(bytes.iter().sum(), clean(&all), index.parts + stretches(&all));
        let mut to_merge = all.iter().filter_map(|outlined| outlined.item?.1.to_merge);
        if to_merge.clone().any(|blocks| comes_to_few(blocks, more)) {
            return None;
        }
        if to_merge.next().is_some() {
            vacate(&mut all, index, more);
        }
        let (mut first, mut plans) = (0, Vec::with_capacity(all.len()));
        for (outlined, bytes) in all.iter().zip(&bytes) {
            plans.push(outlined.parts(*bytes, first));
            first += outlined.blocks;
        }
        let gone = gone(&all, index);
        // Each block that is not shared may split a run.
        let runs = base.run_count() + base.blocks().saturating_sub(index.stored) as usize + gone.len();
        let count: u64 = plans.iter().map(|parts| parts.len() as u64).sum();
        // Each outlined part splits at most one stretch of the base.
        let parts = (index.parts + count).min(whole.blocks() + count);
        let outline = Outline { blocks: first, clean: clean(&all), parts, runs, gone };
        let size = whole.of_changed(staged_blocks(&bytes, &plans, small_below), parts, runs);
        (outline.clean > 0).then(|| Plan::of_outline(plans, size, outline))
    }
}

impl<'a> OutlinedRegion<'a> {
    /// The blocks of `region` that this checkpoint stages. `None`: the region needs the full list of its blocks.
    fn new(region: &Region, index: &'a Index, found: &Found) -> Option<OutlinedRegion<'a>> {
        let blocks = region.description.bytes / BLOCK_BYTES;
        let item = index.item(&region.description.name);
        let (mut staged, zeros) = (BlockSet::within(0..blocks), BlockSet::within(0..blocks));
        match (found, item) {
            (Found::Changed { name, .. }, _) if *name != region.description.name => return None,
            (Found::Changed { blocks: changed, .. }, Some((_, indexed))) => {
                let beyond = indexed.blocks().min(blocks)..blocks;
                // Bytes behind the last whole block are staged anyway, and the item may have been longer.
                for range in changed.iter().chain(&indexed.holes).chain([&beyond]) {
                    staged.add(Blocks { first: range.start, count: range.end.min(blocks).saturating_sub(range.start) });
                }
            }
            (Found::Clean(runs), Some((_, indexed))) if runs.iter().all(|run| indexed.is_at(*run)) => {
                staged = BlockSet::all(0..blocks);
                runs.iter().for_each(|run| staged.remove(Blocks { first: run.block, count: run.count }));
            }
            (Found::Clean(runs), _) if !runs.is_empty() => return None,
            _ => staged = BlockSet::all(0..blocks),
        }
        Some(OutlinedRegion { blocks, staged, zeros, item })
    }

    /// Records the zero blocks among those to be staged.
    fn find_zeros(&mut self, region: &Region) {
        for blocks in self.staged.stretches() {
            each_block(region, blocks.first..blocks.end(), |block, bytes| {
                if is_zeros(bytes) {
                    self.zeros.add(Blocks { first: block, count: 1 });
                }
            });
        }
        self.staged.remove_all(&self.zeros);
    }

    /// The number of blocks that are as in the base.
    fn clean(&self) -> u64 {
        self.blocks - self.staged.count() - self.zeros.count()
    }

    /// Whether block number `block` is as in the base.
    fn is_clean(&self, block: u64) -> bool {
        let block = Blocks { first: block, count: 1 };
        block.first < self.blocks && !self.staged.has(block) && !self.zeros.has(block)
    }

    /// The parts of the region, which has `bytes` bytes. The shared blocks are numbered from `first` on.
    fn parts(&self, bytes: u64, first: u64) -> Vec<Part> {
        let mut changed: Vec<(Blocks, PartPlace)> = Vec::new();
        changed.extend(self.staged.stretches().map(|blocks| (blocks, PartPlace::Staged)));
        changed.extend(self.zeros.stretches().map(|blocks| (blocks, PartPlace::Nowhere)));
        changed.sort_unstable_by_key(|(blocks, _)| blocks.first);
        let (mut parts, mut block) = (Vec::<Part>::with_capacity(2 * changed.len() + 2), 0);
        let end = (Blocks { first: self.blocks, count: 0 }, PartPlace::Staged);
        for (blocks, place) in changed.into_iter().chain([end]) {
            if block < blocks.first {
                let place = PartPlace::Shared(first + block);
                parts.push(Part { from: block * BLOCK_BYTES, bytes: (blocks.first - block) * BLOCK_BYTES, place });
            }
            block = blocks.end();
            if blocks.count > 0 {
                parts.push(Part { from: blocks.first * BLOCK_BYTES, bytes: blocks.count * BLOCK_BYTES, place });
            }
        }
        let behind = bytes - self.blocks * BLOCK_BYTES;
        match parts.last_mut().filter(|last| last.is_staged()) {
            Some(last) => last.bytes += behind,
            None if behind > 0 => {
                parts.push(Part { from: self.blocks * BLOCK_BYTES, bytes: behind, place: PartPlace::Staged });
            }
            None => {}
        }
        debug_assert!(are_all(&parts, bytes), "the parts of a region are not its bytes");
        parts
    }
}

impl Indexed {
    /// Whether these blocks are stored there.
    fn is_at(&self, lies: BlockRun) -> bool {
        (0..lies.count).all(|inside| match self.place(lies.block + inside) {
            Place::Hole => false,
            Place::Zeros => lies.are_zeros(),
            Place::At(at) => at == lies.at + inside,
        })
    }
}

/// The places in the base of blocks that the shard does not share.
fn gone(all: &[OutlinedRegion<'_>], index: &Index) -> Vec<Blocks> {
    let regions = regions_of(all, index);
    let of_item = |(indexed, region): (&'_ Indexed, Option<usize>), gone: &mut Vec<Blocks>| {
        let mut let_go = |blocks: Blocks| {
            let places = (blocks.first..blocks.end()).map(|block| indexed.place(block));
            gone.extend(places.filter_map(|place| match place {
                Place::At(first) => Some(Blocks { first, count: 1 }),
                Place::Hole | Place::Zeros => None,
            }));
        };
        let Some(outlined) = region.map(|region| &all[region]) else {
            return let_go(Blocks { first: 0, count: indexed.blocks() });
        };
        [&outlined.staged, &outlined.zeros].into_iter().flat_map(BlockSet::stretches).for_each(&mut let_go);
        // The item was longer.
        let_go(Blocks { first: outlined.blocks, count: indexed.blocks().saturating_sub(outlined.blocks) });
    };
    let mut gone = Vec::new();
    index.items().zip(regions).for_each(|item| of_item(item, &mut gone));
    gone
}

/// For each item of the index, the region outlined by it.
fn regions_of(all: &[OutlinedRegion<'_>], index: &Index) -> Vec<Option<usize>> {
    let mut regions = vec![None; index.items().count()];
    for (region, outlined) in all.iter().enumerate() {
        if let Some((item, _)) = outlined.item {
            regions[item] = Some(region);
        }
    }
    regions
}

/// The number of stretches that are not as in the base.
fn stretches(all: &[OutlinedRegion<'_>]) -> u64 {
    let changed = all.iter().flat_map(|outlined| [&outlined.staged, &outlined.zeros]);
    changed.map(|set| set.stretches().count() as u64).sum()
}

/// Marks the blocks in the emptiest segments of the portion for staging, up to `more` blocks, as `vacate::vacate` does.
fn vacate(all: &mut [OutlinedRegion<'_>], index: &Index, mut more: u64) {
    let regions = regions_of(all, index);
    for segment in index.emptiest() {
        let region = |item: u32| regions[item as usize];
        let clean = segment.iter().filter_map(|(item, block)| Some((region(*item)?, u64::from(*block))));
        let clean: Vec<(usize, u64)> = clean.filter(|(region, block)| all[*region].is_clean(*block)).collect();
        let Some(left) = more.checked_sub(clean.len() as u64) else { break };
        more = left;
        for (region, block) in clean {
            all[region].staged.add(Blocks { first: block, count: 1 });
        }
    }
}

//! Whether checkpoints keep finding room: the next one and those that follow.
//!
//! Invariants: a shard that was saved once can be saved again, after any sequence of other saves. Beside held
//! revisions, shards of the same size always find room.

use super::{
    Kept, Ledger, Need, RevisionKey,
    allocation::{Allocation, RUNS, Referred, allocate, catalogue_blocks},
    free_maps::FreeMaps,
};
use crate::{
    error::{Error, Result},
    space::{
        bytes_with,
        format::{BLOCK_BYTES, Run},
        free::{Blocks, united},
    },
};
use std::sync::Arc;

/// Maximum number of checkpoints that are rehearsed beside held revisions.
const REHEARSED_MAX: usize = 32;

/// A revision that stays, with the number of its blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stays {
    pub(crate) blocks: u64,
    pub(crate) held: bool,
}

/// The blocks that a shard shares with the newest complete revision.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shares<'a> {
    /// These runs, except those in these blocks, which were saved early.
    Runs(&'a [Run], &'a [Blocks]),
    /// All blocks of this revision, the newest complete one, except these.
    AllBut(RevisionKey, &'a [Blocks]),
}

/// Finds room for a shard of this `need` for data in at most `RUNS` runs. If the data splits into more runs, the
/// references to them take more room: a portion can have enough blocks and still no stretch for that.
fn allocate_in_runs<'a>(
    maps: &mut FreeMaps,
    slots: [Referred<'a>; 2],
    retained: &'a [Arc<Kept>],
    need: Need,
) -> Option<Allocation> {
    let mut runs = RUNS;
    loop {
        let room = allocate(maps, slots, retained, &[], need.in_runs(runs))?;
        if room.data.len() <= runs {
            return Some(room);
        }
        runs = 2 * room.data.len();
    }
}

/// Number of blocks that a portion of `blocks` blocks lacks for a shard of `first` blocks, followed by shards of `then`
/// blocks until only those are kept; 0 if there is room. `complete`: the complete revisions, newest first; `held`: the
/// blocks of further held revisions. A hold costs room only once its revision leaves `keep`. `passing`: the blocks of
/// further revisions that stay only while the first shard is saved.
pub(crate) fn lacking(
    blocks: u64,
    complete: &[Stays],
    held: &[u64],
    passing: &[u64],
    keep: usize,
    [first, then]: [u64; 2],
) -> u64 {
    let at = |step: usize| {
        let stays = complete.iter().enumerate().filter(|(index, stays)| stays.held || *index < keep - step);
        let besides = held.iter().chain(passing.iter().filter(|_| step == 0)).copied();
        let stay: Vec<u64> = stays.map(|(_, stays)| stays.blocks).chain(besides).collect();
        // The newest root refers to one more revision than stays, and the next one to the new shard.
        let roots = root_blocks(stay.len() + step + 2);
        let stay = stay.into_iter().fold(first.saturating_add(roots), u64::saturating_add);
        stay.saturating_add(then.saturating_mul(step as u64))
    };
    (0..=keep).map(at).max().unwrap_or(0).saturating_sub(blocks)
}

/// Blocks of the catalogues of `revisions` revisions: those of the two slots, and that of the root in progress.
fn root_blocks(revisions: usize) -> u64 {
    3 * catalogue_blocks(revisions)
}

impl Ledger {
    /// Finds room for a shard beside the `complete` revisions, newest first, and the held ones, if shards of `then` can
    /// be saved after it. If `then` is `None`, uses the smallest shard of all.
    pub(crate) fn allocate_lasting(
        &self,
        need: Need,
        then: Option<Need>,
        complete: &[RevisionKey],
        keep: usize,
    ) -> Result<Allocation> {
        let found = self.found();
        let needs = found.iter().filter(|kept| complete.contains(&kept.key())).map(|kept| Need::again(kept));
        let smallest = || needs.chain([need]).min_by_key(|need| need.blocks()).unwrap_or(need);
        let smallest = then.unwrap_or_else(smallest);
        let counts = self.check_room(need, complete, keep, [need.blocks(), smallest.blocks()]);
        let maps = &mut self.free_maps();
        let allocation = self.allocate_beside(maps, need, &self.retained(complete), &[], keep);
        let allocation = allocation.map_err(|error| counts.clone().err().unwrap_or(error))?;
        // The count always assumes the longest catalogues, so a rehearsal may find room when the count finds none. Held
        // revisions do not move: many blocks may be left without a stretch that is long enough. A passing revision goes
        // meanwhile. A smaller shard can split into pieces in places where one as large as this would keep finding its
        // place, so try that too.
        let given = || Some((&allocation, allocation.imagined(0)));
        let lasts = |maps: &mut _, then| self.rehearse(maps, given(), [need, then], complete, keep);
        let may_fall_apart = self.held.len() > self.passing.len() && smallest.blocks() < need.blocks();
        if (counts.is_err() || may_fall_apart) && !lasts(maps, smallest) && !lasts(maps, need) {
            let short = || self.too_small(need, &self.retained(complete), need.blocks().saturating_sub(1), keep);
            return Err(counts.err().unwrap_or_else(short));
        }
        Ok(allocation)
    }

    /// Finds room for a shard that `shares` blocks with the newest complete revision, if there is room for a `whole`
    /// one after it. `None`: the shard must be saved in another way. There is room for it as a whole if there was when
    /// the previous one was saved.
    pub(crate) fn allocate_sharing(
        &self,
        need: Need,
        shares: Shares<'_>,
        whole: Need,
        complete: &[RevisionKey],
        keep: usize,
    ) -> Option<Allocation> {
        let maps = &mut self.free_maps();
        let retained = self.retained(complete);
        let (allocation, imagined) = match shares {
            Shares::Runs(shared, early) => {
                // The next root drops everything that only the other root keeps.
                if !self.keeps(shared, early) {
                    return None;
                }
                let frames = self.frames_of(shared);
                let need = need.leading_to(frames.len());
                let allocation = self.allocate_beside(maps, need, &retained, early, keep).ok()?;
                let allocation = allocation.sharing(shared, early, frames);
                let imagined = allocation.imagined(0);
                (allocation, imagined)
            }
            Shares::AllBut(newest, gone) => {
                // The next root drops everything that only the other root keeps.
                let newest = &*self.kept_of(newest)?;
                let need = need.leading_to(newest.frames.len());
                let allocation = self.allocate_beside(maps, need, &retained, &[], keep).ok()?;
                let imagined = allocation.imagined_with(newest, gone, self.portion.data_blocks());
                (Allocation { is_outline: true, ..allocation }, imagined)
            }
        };
        self.rehearse(maps, Some((&allocation, imagined)), [need, whole], complete, keep).then_some(allocation)
    }

    /// Whether there is room for a whole shard, of size `whole`, after one that is saved at `delta_allocation`.
    pub(crate) fn lasts_sharing(
        &self,
        delta_allocation: &Allocation,
        whole: &Allocation,
        retained: &[RevisionKey],
        keep: usize,
    ) -> bool {
        let need = |allocation: &Allocation| Need {
            data: allocation.data.iter().map(|blocks| blocks.count).sum(),
            meta: allocation.meta.count,
            packing: allocation.packing,
        };
        let given = Some((delta_allocation, delta_allocation.imagined(0)));
        self.rehearse(&mut self.free_maps(), given, [need(delta_allocation), need(whole)], retained, keep)
    }

    /// Whether shards of this size keep finding room.
    pub(crate) fn check_lasting(&self, need: Need, complete: &[RevisionKey], keep: usize) -> Result<()> {
        self.check_room(need, complete, keep, [need.blocks(); 2])
    }

    fn check_room(&self, need: Need, complete: &[RevisionKey], keep: usize, sizes: [u64; 2]) -> Result<()> {
        match self.lacking(complete, keep, sizes) {
            0 => Ok(()),
            lacking => Err(self.too_small(need, &self.retained(complete), need.blocks().saturating_sub(lacking), keep)),
        }
    }

    /// Whether shards as large as the largest of this one and the complete ones find room as long as the held revisions
    /// stay: by the number of blocks, and by their places.
    pub(crate) fn lasts_beside_held(&self, need: Need, complete: &[RevisionKey], keep: usize) -> bool {
        let sizes = self.staying_of(complete).into_iter().map(|stays| stays.blocks);
        let largest = sizes.fold(need.blocks(), u64::max);
        self.lacking(complete, keep, [largest; 2]) == 0
            && self.rehearse(&mut self.free_maps(), None, [need; 2], complete, keep)
    }

    /// Whether a shard of `first`, and then shards of `then`, find their places, one after the other, as they would be
    /// saved. `given`: the room that the first has, and the blocks that it then takes, with those shared with older
    /// ones.
    fn rehearse(
        &self,
        maps: &mut FreeMaps,
        mut given: Option<(&Allocation, Kept)>,
        [first, then]: [Need; 2],
        complete: &[RevisionKey],
        keep: usize,
    ) -> bool {
        let mut slots = self.referred().map(|slot| (slot.sequence, slot.kept.to_vec(), slot.catalogue));
        let mut complete = complete.to_vec();
        // Repeat until every kept revision has a place of such a shard, and once around more.
        (0..REHEARSED_MAX.min(2 * (keep + 2))).all(|step| {
            // A revision that stays until the next one is complete elsewhere goes then.
            let is_held = |key: &RevisionKey| self.held.contains(key) && (step < 2 || !self.passing.contains(key));
            let stays = |kept: &&Arc<Kept>| complete.contains(&kept.key()) || is_held(&kept.key());
            let mut retained: Vec<Arc<Kept>> = slots.iter().flat_map(|slot| &slot.1).filter(stays).cloned().collect();
            retained.sort_by_key(|kept| kept.key());
            retained.dedup_by_key(|kept| kept.key());
            let referred =
                slots.each_ref().map(|(sequence, kept, at)| Referred { sequence: *sequence, kept, catalogue: *at });
            let need = if step == 0 { first } else { then };
            let given = given.take().map(|(room, imagined)| (room.clone(), imagined));
            let found = || {
                let room = allocate_in_runs(maps, referred, &retained, need)?;
                let imagined = room.imagined(step as u64);
                Some((room, imagined))
            };
            let Some((room, imagined)) = given.or_else(found) else { return false };
            let imagined = Arc::new(imagined);
            complete.insert(0, imagined.key());
            complete.truncate(keep);
            let published = [&retained[..], &[imagined]].concat();
            // Roots that reuse the newest catalogue are rare, and free no less.
            let roots = room.freeing.iter().map(|at| (retained.clone(), *at)).chain([(published, room.catalogue)]);
            for (kept, at) in roots {
                let lower = usize::from(slots[1].0 < slots[0].0);
                slots[lower] = (slots[1 - lower].0 + 1, kept, Some(at));
            }
            true
        })
    }

    fn lacking(&self, complete: &[RevisionKey], keep: usize, sizes: [u64; 2]) -> u64 {
        let (from, to) = self.portion.data_blocks();
        let found = self.found();
        let besides = found.iter().filter(|kept| self.held.contains(&kept.key()) && !complete.contains(&kept.key()));
        let (passing, held): (Vec<_>, Vec<_>) = besides.partition(|kept| self.passing.contains(&kept.key()));
        // Blocks that revisions share are counted with the one that stays longest.
        let mut counted = Counted::default();
        let held: Vec<u64> = held.into_iter().map(|kept| counted.add(kept)).collect();
        let mut staying = self.staying_of(complete);
        for is_held in [true, false] {
            for (key, stays) in complete.iter().zip(&mut staying).filter(|(_, stays)| stays.held == is_held) {
                stays.blocks = found.iter().find(|kept| kept.key() == *key).map_or(0, |kept| counted.add(kept));
            }
        }
        let passing: Vec<u64> = passing.into_iter().map(|kept| counted.add(kept)).collect();
        lacking(to - from, &staying, &held, &passing, keep, sizes)
    }

    /// Number of blocks of the `complete` revisions here: none if they are in another layout.
    fn staying_of(&self, complete: &[RevisionKey]) -> Vec<Stays> {
        let found = self.found();
        let blocks = |key| found.iter().find(|kept| kept.key() == key).map_or(0, |kept| kept.count());
        let is_held = |key| self.held.contains(key) && !self.passing.contains(key);
        complete.iter().map(|key| Stays { blocks: blocks(*key), held: is_held(key) }).collect()
    }

    /// Number of blocks left beside `kept` and the roots that refer to it.
    pub(super) fn left_beside(&self, kept: &[Arc<Kept>]) -> u64 {
        let (from, to) = self.portion.data_blocks();
        let mut counted = Counted::default();
        let taken: u64 = kept.iter().map(|kept| counted.add(kept)).sum();
        (to - from).saturating_sub(taken + root_blocks(kept.len() + 1))
    }

    /// The error for a shard of `need` that has only `available` blocks.
    pub(super) fn too_small(&self, need: Need, kept: &[Arc<Kept>], available: u64, keep: usize) -> Error {
        let held: Vec<u64> =
            kept.iter().filter(|kept| self.held.contains(&kept.key())).map(|kept| kept.count()).collect();
        // A portion of no blocks lacks all blocks that such shards need.
        let room = lacking(0, &[], &held, &[], keep, [need.blocks(); 2]);
        let needed = need.blocks().saturating_mul(BLOCK_BYTES);
        Error::PortionTooSmall {
            path: self.portion.path().to_owned(),
            rank: self.portion.rank(),
            needed,
            largest: needed,
            available: available * BLOCK_BYTES,
            kept: kept.len(),
            held: held.len(),
            revisions: keep + 1,
            room: bytes_with(room),
        }
    }
}

/// Blocks that have been counted; revisions may share them.
#[derive(Default)]
pub(crate) struct Counted(Vec<Blocks>);

impl Counted {
    /// Adds `kept`; returns how many of its blocks had not been counted.
    pub(crate) fn add(&mut self, kept: &Kept) -> u64 {
        let before: u64 = self.0.iter().map(|blocks| blocks.count).sum();
        self.0 = united(self.0.drain(..).chain(kept.blocks.iter().copied()).collect());
        self.0.iter().map(|blocks| blocks.count).sum::<u64>() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Revisions of so many blocks; a negative number means a held revision.
    fn revisions(blocks: &[i64]) -> Vec<Stays> {
        blocks.iter().map(|blocks| Stays { blocks: blocks.unsigned_abs(), held: *blocks < 0 }).collect()
    }

    #[test]
    fn room_is_needed_until_what_is_complete_has_left() {
        let lacks =
            |complete: &[i64], held: &[u64], keep, sizes| lacking(103, &revisions(complete), held, &[], keep, sizes);
        // Nothing is complete yet, so keep + 1 shards have to fit.
        assert_eq!(lacks(&[], &[], 1, [50, 50]), 0);
        assert_eq!(lacks(&[], &[], 1, [51, 51]), 2);
        assert_eq!(lacks(&[], &[], 3, [25, 25]), 0);
        // One shard fills the portion, and the smaller one that leaves makes room for the next of its size.
        assert_eq!(lacks(&[30], &[], 1, [70, 30]), 0);
        assert_eq!(lacks(&[30], &[], 1, [71, 30]), 1);
        // With a keep of 2 no revision leaves yet.
        assert_eq!(lacks(&[30], &[], 2, [70, 30]), 30);
        assert_eq!(lacks(&[30, 30], &[], 2, [40, 30]), 0);
        // A hold costs nothing inside keep, and a shard's blocks once its revision has left.
        assert_eq!(lacks(&[25, 25], &[], 2, [25, 25]), 0);
        assert_eq!(lacks(&[-25, 25], &[], 2, [25, 25]), 0);
        assert_eq!(lacks(&[-25, -25], &[], 2, [25, 25]), 25);
        assert_eq!(lacks(&[25, 25], &[25], 2, [25, 25]), 0);
        assert_eq!(lacks(&[25, 25], &[26], 2, [25, 25]), 1);
        // Revisions in another layout take nothing here.
        assert_eq!(lacks(&[0, 0], &[], 2, [33, 33]), 0);
        assert_eq!(lacks(&[0, 0], &[], 2, [34, 34]), 2);
    }

    #[test]
    fn no_number_overflows() {
        assert!(lacking(100, &revisions(&[1]), &[1], &[], 1000, [u64::MAX; 2]) > 1 << 60);
    }
}

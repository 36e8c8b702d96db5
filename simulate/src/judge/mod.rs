//! The promises, and whether they were kept. The judge knows nothing of the engine: only the answers that the ranks got,
//! and the losses.

mod commands;
mod tended;

use crate::{mark::Mark, plan::Setting};
use std::collections::{BTreeMap, BTreeSet};
use tended::{Tended, text};

/// A place of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The memory of nodes.
    Memory,
    /// The disks of nodes.
    Disk,
    /// The space itself.
    Pfs,
}

/// An acknowledged mark, with the copies that are left of it at each place, at least.
#[derive(Debug, Clone)]
struct Promise {
    mark: Mark,
    copies: BTreeMap<Place, u32>,
}

#[derive(Debug, Default)]
pub struct Judge {
    promises: Vec<Promise>,
    /// The marks that the ranks restored, by job and number of the restore.
    restored: BTreeMap<(u64, u64), BTreeSet<Option<Mark>>>,
    /// The number of each stretch of a job between two restores, in the order of their first states.
    runs: BTreeMap<(u64, u64, u64), u64>,
    tended: Tended,
    /// Damage is explained.
    pub is_rotten: bool,
    pub acknowledged: u64,
    pub restores: u64,
}

impl Judge {
    /// A program has a new state, which it may save, in this stretch of a job: job, recoveries and restores.
    pub fn begins(&mut self, stretch: (u64, u64, u64), step: u64) -> Mark {
        let next = self.runs.len() as u64 + 1;
        let mark = Mark { run: *self.runs.entry(stretch).or_insert(next), step };
        self.tended.began(mark);
        mark
    }

    /// All ranks, on so many nodes, know that the revision is complete. It is on the nearest level with its copies; with
    /// `number`, the revision's, it is also on those of the other levels that take this number.
    pub fn complete(&mut self, setting: &Setting, nodes: usize, mark: Mark, number: Option<u64>) {
        let every = |copies: u32| if copies > 0 { 1 } else { 0 };
        let levels = [
            (Place::Memory, setting.memory_copies, every(setting.memory_copies)),
            (Place::Disk, setting.disk_copies, every(setting.disk_copies)),
            (Place::Pfs, 1, setting.pfs_every),
        ];
        let there = levels.into_iter().filter(|(.., every)| *every > 0).enumerate();
        let takes =
            |index: usize, every: u32| index == 0 || number.is_some_and(|number| number.is_multiple_of(every.into()));
        let copies = there.filter(|(index, (.., every))| takes(*index, *every));
        self.promise(mark, copies.map(|(_, (place, copies, _))| (place, copies.min(nodes as u32))).collect());
    }

    /// Some level has the revision, and no loss of a node was ruled out.
    pub fn complete_somewhere(&mut self, setting: &Setting, mark: Mark) {
        let place = match setting {
            Setting { memory_copies: 1.., .. } => Place::Memory,
            Setting { disk_copies: 1.., .. } => Place::Disk,
            _ => Place::Pfs,
        };
        self.promise_at(mark, place);
    }

    /// The job has ended in order, and freed the memory of the nodes. The newest revision is in the space, or, if the job
    /// has saved nothing, on the next level.
    pub fn closed(&mut self, setting: &Setting, last: Option<Mark>, has_saved: bool) {
        let newest = last.max(self.floor(true));
        self.promises.iter_mut().for_each(|promise| {
            promise.copies.remove(&Place::Memory);
        });
        let place = if has_saved || setting.disk_copies == 0 { Place::Pfs } else { Place::Disk };
        newest.inspect(|mark| self.promise_at(*mark, place));
    }

    /// One copy is at this place.
    pub fn promise_at(&mut self, mark: Mark, place: Place) {
        self.promise(mark, BTreeMap::from([(place, 1)]));
    }

    fn promise(&mut self, mark: Mark, copies: BTreeMap<Place, u32>) {
        if self.tended.is_void(mark) {
            return;
        }
        match self.promises.iter_mut().find(|promise| promise.mark == mark) {
            Some(promise) => {
                for (place, count) in copies {
                    let known = promise.copies.entry(place).or_default();
                    *known = count.max(*known);
                }
            }
            None => {
                self.acknowledged += 1;
                self.promises.push(Promise { mark, copies });
            }
        }
    }

    /// Nodes are lost, each with its disk or without.
    pub fn lost(&mut self, with_disk: bool) {
        for promise in &mut self.promises {
            for (place, count) in &mut promise.copies {
                if *place == Place::Memory || (*place == Place::Disk && with_disk) {
                    *count = count.saturating_sub(1);
                }
            }
        }
    }

    /// A byte has changed on a disk. Nothing there is promised any more, but no wrong byte may come back.
    pub fn rotted(&mut self, place: Place) {
        self.is_rotten = true;
        if place == Place::Pfs {
            self.tended.rotted();
        }
        for promise in &mut self.promises {
            promise.copies.remove(&place);
        }
    }

    /// The oldest mark that may come back, where all nodes are `seen` or only the space.
    pub fn floor(&self, nodes_are_seen: bool) -> Option<Mark> {
        let is_seen = |place: &Place| nodes_are_seen || *place == Place::Pfs;
        let is_left = |promise: &&Promise| promise.copies.iter().any(|(place, count)| *count > 0 && is_seen(place));
        self.promises.iter().filter(is_left).map(|promise| promise.mark).max()
    }

    /// A rank has restored `found` in its `nth` restore of job `job`; `floor` was promised when the restore began.
    pub fn restored(&mut self, job: u64, nth: u64, found: Option<Mark>, floor: Option<Mark>) -> Result<(), String> {
        if found < floor {
            return Err(format!("{} came back after {} was promised", text(found), text(floor)));
        }
        self.tended.check(found)?;
        self.restores += 1;
        let all = self.restored.entry((job, nth)).or_default();
        all.insert(found);
        if all.len() > 1 {
            return Err(format!("the ranks of one job restored different revisions: {all:?}"));
        }
        Ok(())
    }
}

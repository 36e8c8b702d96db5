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

/// The judge of one space.
#[derive(Debug, Default)]
pub struct Judge {
    promises: Vec<Promise>,
    /// The marks that the ranks restored, by job and number of the restore.
    restored: BTreeMap<(u64, u64), BTreeSet<Option<Mark>>>,
    /// The number of each run, by job, recoveries and restores. Runs count in the order of their first states.
    runs: BTreeMap<(u64, u64, u64), u64>,
    tended: Tended,
    /// A byte has changed on a disk, which explains damage.
    pub is_rotten: bool,
    pub acknowledged: u64,
    pub restores: u64,
}

impl Judge {
    /// A program makes a new state, in the run with this number of the job, of recoveries, and of restores. Returns its mark.
    pub fn begins(&mut self, run: (u64, u64, u64), step: u64) -> Mark {
        let next = self.runs.len() as u64 + 1;
        let mark = Mark { run: *self.runs.entry(run).or_insert(next), step };
        self.tended.began(mark);
        mark
    }

    /// All ranks, on `nodes` nodes, know that the revision is complete. The nearest level has it, with its copies. If
    /// `number` is given, each other level that takes the revision of this number has it, too.
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

    /// The revision is complete on the nearest level. Nothing is promised for the loss of a node.
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

    /// At least one copy is at this place.
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

    /// Nodes that fail together are lost, with their disks or without them: each revision loses one copy there.
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

    /// The oldest mark that a restore may return. Copies on nodes count if `nodes_are_seen`.
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

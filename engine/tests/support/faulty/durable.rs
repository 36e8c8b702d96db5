//! The durable and the unsynced data of a medium: the images that a loss of power can leave.

use super::{Change, Files, Operation};
use std::{collections::VecDeque, ops::Range, sync::Arc};

/// The unit in which a device may tear a write.
const SECTOR: usize = 512;

/// The fate of the operations that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    Nothing,
    Everything,
    /// Only a part of the last write is kept.
    FirstHalfOfLastKept,
    SecondHalfOfLastKept,
    /// Each operation is kept, lost or torn, from the seed: later ones may be kept while earlier ones are lost.
    Seeded(u64),
}

#[derive(Clone, Default)]
pub struct Durable {
    sure: Files,
    writes: VecDeque<Pending>,
    names: Vec<Operation>,
    /// Syncs do nothing. This shows that the tests notice missing syncs.
    pub deaf: bool,
}

#[derive(Clone)]
struct Pending {
    by: u64,
    nth: u64,
    file: usize,
    handle: u64,
    at: u64,
    bytes: Arc<[u8]>,
    synced: bool,
    /// The writer's process has ended: a sync of the file by any process makes the write durable.
    orphaned: bool,
}

impl Durable {
    pub fn of(sure: Files) -> Durable {
        Durable { sure, ..Durable::default() }
    }

    /// All processes have ended.
    pub fn orphaned(mut self) -> Durable {
        self.writes.iter_mut().for_each(|write| write.orphaned = true);
        self
    }

    /// The process with the view `by` has ended.
    pub fn orphan(&mut self, by: u64) {
        self.writes.iter_mut().filter(|write| write.by == by).for_each(|write| write.orphaned = true);
    }

    /// A number higher than every number of a file or handle in it.
    pub(super) fn unused_number(&self) -> u64 {
        let handles = self.writes.iter().map(|write| write.handle);
        handles.chain(self.sure.numbers()).max().unwrap_or(0) + 1
    }

    /// Whether a loss of power could take anything.
    pub fn has_pending(&self) -> bool {
        !self.names.is_empty() || self.writes.iter().any(|write| !write.synced)
    }

    pub fn apply(&mut self, operation: &Operation) {
        let Operation { by, nth, change } = operation;
        match change {
            Change::Write { file, handle, at, bytes } => {
                let (file, handle, at, bytes) = (*file, *handle, *at, bytes.clone());
                self.writes.push_back(Pending {
                    by: *by,
                    nth: *nth,
                    file,
                    handle,
                    at,
                    bytes,
                    synced: false,
                    orphaned: false,
                });
            }
            Change::Sync { file, handle } if !self.deaf => {
                let covered = |write: &&mut Pending| write.handle == *handle || (write.orphaned && write.file == *file);
                self.writes.iter_mut().filter(covered).for_each(|write| write.synced = true);
                // Only from the front: an earlier write must never overwrite a later one.
                let first_unsure = self.writes.iter().position(|write| !write.synced).unwrap_or(self.writes.len());
                for write in self.writes.drain(..first_unsure) {
                    self.sure.write(write.file, write.at, &write.bytes);
                }
            }
            Change::Forget { handle } => self.writes.retain(|write| write.synced || write.handle != *handle),
            Change::SyncDirectory if !self.deaf => {
                for name in std::mem::take(&mut self.names) {
                    rename_in(&mut self.sure, &name.change);
                }
            }
            Change::Sync { .. } | Change::SyncDirectory => {}
            Change::Create { file, bytes, .. } => {
                self.sure.allocate(*file, *bytes);
                self.names.push(operation.clone());
            }
            Change::Rename { .. } | Change::Remove { .. } => self.names.push(operation.clone()),
        }
    }

    pub fn image(&self, loss: Loss) -> Files {
        let mut files = self.sure.clone();
        let last = self.writes.iter().rposition(|write| !write.synced);
        for (index, write) in self.writes.iter().enumerate() {
            let whole = 0..write.bytes.len();
            let kept = if write.synced { whole } else { kept(loss, write, Some(index) == last) };
            files.write(write.file, write.at + kept.start as u64, &write.bytes[kept]);
        }
        for name in &self.names {
            let kept = match loss {
                Loss::Everything => false,
                Loss::Seeded(seed) => draw(seed, name.by, name.nth).bool(),
                _ => true,
            };
            if kept {
                rename_in(&mut files, &name.change);
            }
        }
        files
    }
}

fn kept(loss: Loss, write: &Pending, is_last: bool) -> Range<usize> {
    let bytes = write.bytes.len();
    let middle = (bytes / 2).next_multiple_of(SECTOR).min(bytes);
    match loss {
        Loss::FirstHalfOfLastKept if is_last => 0..middle,
        Loss::SecondHalfOfLastKept if is_last => middle..bytes,
        Loss::Nothing | Loss::FirstHalfOfLastKept | Loss::SecondHalfOfLastKept => 0..bytes,
        Loss::Everything => 0..0,
        Loss::Seeded(seed) => {
            let mut random = draw(seed, write.by, write.nth);
            let cut = (random.usize(0..=bytes / SECTOR) * SECTOR).min(bytes);
            match random.u8(0..8) {
                0..3 => 0..bytes,
                3..6 => 0..0,
                6 => 0..cut,
                _ => cut..bytes,
            }
        }
    }
}

/// Depends on the order of a writer's own operations alone, so threads do not change the result of a seed.
fn draw(seed: u64, by: u64, nth: u64) -> fastrand::Rng {
    let mut random = fastrand::Rng::with_seed(seed ^ by.rotate_left(32) ^ nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.u64(..);
    random
}

/// Applies `change` to the names, if the files that it needs are there.
pub(super) fn rename_in(files: &mut Files, change: &Change) {
    match change {
        Change::Create { name, file, .. } => drop(files.names.insert(name.clone(), *file)),
        Change::Rename { from, to } => {
            if let Some(file) = files.names.remove(from) {
                files.names.insert(to.clone(), file);
            }
        }
        Change::Remove { name } => drop(files.names.remove(name)),
        _ => {}
    }
}

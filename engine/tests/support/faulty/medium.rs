//! The medium: the jobs of a test write to it, one after the other.

use super::{Durable, Files, Loss, View, durable::rename_in, lock};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

#[derive(Clone)]
pub enum Change {
    Create {
        file: usize,
        name: String,
        bytes: u64,
    },
    Write {
        file: usize,
        handle: u64,
        at: u64,
        bytes: Arc<[u8]>,
    },
    Sync {
        file: usize,
        handle: u64,
    },
    /// A sync that failed and dropped the writes that it had to save.
    Forget {
        handle: u64,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
    SyncDirectory,
}

/// The `nth` operation of the view `by`.
#[derive(Clone)]
pub struct Operation {
    pub by: u64,
    pub nth: u64,
    pub change: Change,
}

/// The operations on several media, in one order: the index of the medium of each.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<usize>>>);

impl Journal {
    pub fn operations(&self) -> usize {
        lock(&self.0).len()
    }

    pub fn media(&self) -> Vec<usize> {
        lock(&self.0).clone()
    }
}

#[derive(Clone)]
pub struct Medium {
    pub(super) shared: Arc<Mutex<Shared>>,
}

pub(super) struct Shared {
    /// The state that everyone sees as long as the power stays on.
    pub(super) live: Files,
    durable: Durable,
    log: Vec<Operation>,
    /// The journal that records its operations beside those of other media, and its index there.
    journal: Option<(Journal, usize)>,
    /// The handle on the lock file that has locked a byte.
    pub(super) locks: BTreeMap<u64, u64>,
    pub(super) has_locks: bool,
    next: u64,
    pub(super) views: u64,
}

impl Medium {
    pub fn new(has_locks: bool) -> Medium {
        Self::resume(Durable::default(), has_locks)
    }

    /// The medium number `index` of those that `journal` knows.
    pub fn noted(journal: &Journal, index: usize) -> Medium {
        let medium = Self::new(true);
        medium.lock().journal = Some((journal.clone(), index));
        medium
    }

    /// The medium after the death of all jobs: unsynced data is still there, and still not synced.
    pub fn resume(durable: Durable, has_locks: bool) -> Medium {
        let durable = durable.orphaned();
        let live = durable.image(Loss::Nothing);
        let next = durable.unused_number();
        let shared =
            Shared { live, durable, log: Vec::new(), journal: None, locks: BTreeMap::new(), has_locks, next, views: 0 };
        Medium { shared: Arc::new(Mutex::new(shared)) }
    }

    /// The power fails. Processes that still run keep the old medium, which nobody will see again.
    pub fn lose_power(&self, loss: Loss) -> Medium {
        let shared = self.lock();
        Self::resume(Durable::of(shared.durable.image(loss)), shared.has_locks)
    }

    /// The processes end, all of them; the power stays on.
    pub fn end_processes(&self) -> Medium {
        let shared = self.lock();
        Self::resume(shared.durable.clone(), shared.has_locks)
    }

    pub fn view(&self) -> Arc<View> {
        Arc::new(View::new(self.clone(), None))
    }

    pub fn gated_view(&self, gate: &Arc<super::Gate>) -> Arc<View> {
        Arc::new(View::new(self.clone(), Some(gate.clone())))
    }

    pub fn log(&self) -> Vec<Operation> {
        self.lock().log.clone()
    }

    pub fn operations(&self) -> usize {
        self.lock().log.len()
    }

    pub fn files(&self) -> Files {
        self.lock().live.clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

impl Shared {
    /// The process with the view `by` has ended; others may go on.
    pub(super) fn end_process(&mut self, by: u64) {
        self.durable.orphan(by);
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn apply(&mut self, operation: Operation) {
        self.durable.apply(&operation);
        match &operation.change {
            Change::Create { file, bytes, .. } => {
                self.live.allocate(*file, *bytes);
                rename_in(&mut self.live, &operation.change);
            }
            Change::Write { file, at, bytes, .. } => self.live.write(*file, *at, bytes),
            // A read past the cache shows that the data is gone.
            Change::Forget { .. } => self.live = self.durable.image(Loss::Nothing),
            change => rename_in(&mut self.live, change),
        }
        if let Some((journal, index)) = &self.journal {
            lock(&journal.0).push(*index);
        }
        self.log.push(operation);
    }
}

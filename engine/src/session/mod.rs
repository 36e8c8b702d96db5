//! A session: one job at work on one space. It ties the stages together and is the only part that
//! talks to the group.
//!
//! What must hold: every rank calls the same collective methods in the same order, and every decision
//! that ranks must share comes out of a collective, never out of what one rank sees.

mod checkpoint;
mod domain;
mod holds;
mod layout;
mod open;
mod restore;

pub use restore::Restored;

use crate::{
    capture::{Region, Regions},
    commit::{Complete, Ledger, RevisionKey},
    config::Config,
    device::{Device, LockFile},
    error::{Error, Result},
    group::{Group, agree},
    place::{IoThreads, Saving, lock},
    restore::{Seen, Sight},
    space::{LayoutFile, format::Lineage, format::PhaseRecord},
    stage::PoolInMaking,
};
use domain::Domain;
use holds::Holds;
use std::sync::{Arc, Mutex};

/// What a checkpoint took on this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub revision: u64,
    /// Bytes of all regions.
    pub bytes: u64,
    pub phases: PhaseRecord,
}

pub struct Session {
    // Fields end in this order: first what is under way, last the lock that keeps others out.
    io: IoThreads,
    saving: Option<Attempt>,
    /// `None` with the stage `direct`.
    pool: Option<PoolInMaking>,
    current: Option<Current>,
    /// Portions that are only read: of older layouts, and of ranks that are not here.
    others: Vec<Ledger>,
    layouts: Vec<LayoutFile>,
    regions: Regions,
    config: Config,
    domain: Domain,
    lineage: Lineage,
    /// Whether this lineage has begun a revision.
    attempted: bool,
    next_number: u64,
    /// The newest revisions that all ranks know to be complete, newest first.
    complete: Vec<Complete>,
    /// What others hold stays besides.
    holds: Holds,
    /// What could not be read when the space was opened.
    damage: Vec<String>,
    /// Slots that a crash cut short, or that are damaged: they look alike.
    torn: Vec<String>,
    last: Option<Record>,
    device: Arc<dyn Device>,
    group: Box<dyn Group>,
    _locks: Box<dyn LockFile>,
}

/// The layout that is written.
struct Current {
    layout_id: [u8; 16],
    ledger: Arc<Mutex<Ledger>>,
}

/// A revision that was begun, until all ranks know what became of it.
enum Attempt {
    Running(Arc<Saving>),
    /// It failed before there was anything to wait for.
    Failed(Error),
}

impl Session {
    pub fn rank(&self) -> usize {
        self.group.rank()
    }

    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// Adds a region to what is saved and restored. Local.
    pub fn protect(&mut self, region: Region) -> Result<()> {
        self.regions.add(region)
    }

    /// Takes a region out again; revisions that hold it stay as they are. Local.
    pub fn unprotect(&mut self, name: &str) -> Result<()> {
        self.regions.remove(name)
    }

    /// Waits until the last revision is complete on all ranks. Collective. An error means that it is
    /// not, the same on every rank, and earlier revisions are as they were. After a failed sync, or a
    /// failure of the group, it may yet be found complete when the space is opened again.
    pub fn wait(&mut self) -> Result<()> {
        let mine = self.settle();
        let agreed = agree(&*self.group, mine);
        match self.saving.take() {
            Some(Attempt::Running(saving)) if agreed.is_ok() => self.complete = self.complete_with(Some(saving.key())),
            _ => {}
        }
        agreed
    }

    /// Whether this rank's part of the last revision is durable. Local, never waits.
    pub fn poll(&mut self) -> Result<bool> {
        match &self.saving {
            None => Ok(true),
            Some(Attempt::Failed(error)) => Err(error.clone()),
            Some(Attempt::Running(saving)) => match saving.poll() {
                None => Ok(false),
                Some(Ok(())) => self.settle().map(|()| true),
                Some(Err(error)) => Err(error),
            },
        }
    }

    /// What the last checkpoint took whose part of this rank is durable.
    pub fn last_record(&mut self) -> Option<Record> {
        if let Some(Attempt::Running(saving)) = &self.saving
            && matches!(saving.poll(), Some(Ok(())))
        {
            // It has ended: this does not wait.
            let _ = self.settle();
        }
        self.last
    }

    /// Ends the session in order. Collective. Waits for the last revision; an error says that it, or
    /// the end itself, failed, and the session is over all the same.
    pub fn close(mut self) -> Result<()> {
        let waited = self.wait();
        let ended = match (&self.current, &waited) {
            (Some(current), Ok(())) => lock(&current.ledger).end(),
            _ => Ok(()),
        };
        let ended = agree(&*self.group, ended);
        waited.and(ended)
    }

    /// Waits for this rank's part of the last revision.
    fn settle(&mut self) -> Result<()> {
        match &self.saving {
            None => Ok(()),
            Some(Attempt::Failed(error)) => Err(error.clone()),
            Some(Attempt::Running(saving)) => {
                let phases = saving.wait()?;
                self.last = Some(Record { revision: saving.key().number, bytes: saving.stream().item_bytes(), phases });
                Ok(())
            }
        }
    }

    /// The newest complete revisions once all ranks know that `key` is one: what every root must keep.
    fn complete_with(&self, key: Option<RevisionKey>) -> Vec<Complete> {
        let layout = self.current.as_ref().map_or([0; 16], |current| current.layout_id);
        let new = key.map(|key| Complete { key, shards: self.group.size() as u32, layout });
        new.into_iter().chain(self.complete.iter().copied()).take(self.config.keep as usize).collect()
    }

    fn begin_pool(&mut self) {
        if let Some(pool) = &mut self.pool {
            pool.begin();
        }
    }

    /// All that this rank sees.
    fn sight(&self) -> Sight {
        let mut sight = Sight { damage: self.damage.clone(), torn: self.torn.clone(), ..Sight::default() };
        self.each_ledger(|ledger| {
            let layout = ledger.portion().layout_id();
            for kept in ledger.found() {
                sight.lineages.push(kept.entry.lineage);
                sight.shards.push(Seen::of(&kept.entry, layout));
            }
        });
        sight
    }

    fn each_ledger(&self, mut visit: impl FnMut(&Ledger)) {
        self.others.iter().for_each(&mut visit);
        if let Some(current) = &self.current {
            visit(&lock(&current.ledger));
        }
    }
}

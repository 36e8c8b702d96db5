//! A session: one job at work on one space. It connects the stages, and it is the only part that talks to the group.
//!
//! Invariants: every rank calls the same collective methods in the same order (`entry` reports it otherwise). Every
//! decision that ranks must share comes from a collective, never from observations of one rank.

mod agreement;
mod announcer;
mod attempt;
mod begin;
mod bring_shards;
mod buffer;
mod calls;
mod carryover;
mod catching_up;
mod changed;
mod checkpoint;
mod choose;
mod choose_revision;
mod chosen;
mod closing;
mod copies;
mod copying;
mod damage;
mod deferred_levels;
mod diary;
mod domain;
mod due;
mod ended_unsaved;
mod entry;
mod epoch;
mod exchange;
mod failing;
mod fetch;
mod flag;
mod held_revisions;
mod holders;
mod holds;
mod layout;
mod layout_files;
mod level;
mod level_plan;
mod levels;
mod locking;
mod looked;
mod need;
mod node;
mod older_jobs;
mod open;
mod open_checkpoint;
mod outputs;
mod places;
mod preallocate;
mod program;
mod progress;
mod ranks;
mod reading;
mod recopy;
mod record;
mod recover;
mod redistribute;
mod report;
mod requests;
mod resources;
mod restore;
mod revisions;
mod run;
mod saved;
mod saver;
mod schedule;
mod settle;
mod shard_room;
mod shard_transfers;
mod shards;
mod sights;
mod speculative;
mod state;
mod status_reporter;
mod stepping;
mod tracing;
mod unreachable_disks;

pub use buffer::Got;
#[cfg(feature = "fuzzing")]
pub(crate) use copies::{read_word, words_of};
pub use holders::HandoverCounts;
pub use level::LevelKind;
pub use level_plan::LevelPlan;
pub use record::Record;
pub use recover::Recovered;
pub use restore::Restored;
pub use revisions::ListedRevision;
pub use run::{StepError, StepOutcome, run};
pub use saver::Saver;
pub use speculative::Speculation;

use crate::{
    config::Config,
    device::Device,
    error::{Error, Result},
    ground::Instant,
    group::Group,
    rehearsal,
    remark::remark,
};
use carryover::Carryover;
use level_plan::Origin;
use state::SessionState;
use std::{
    path::Path,
    process,
    sync::{Arc, Weak},
};

/// One job at work on one space. One thread at a time uses a session, and only in the process that opened it. In a
/// forked child every method is refused, and dropping the session does nothing.
pub struct Session {
    /// `None` once the session is closed or dropped.
    inner: Option<SessionState>,
    /// The process to which the threads, locks and communicator of the session belong.
    pid: u32,
    /// The saver with the exclusive right to begin revisions, if any.
    saver: Weak<()>,
    /// The program has begun revisions that hold more than the regions.
    has_more: bool,
}

impl Session {
    /// Opens the space in the directory `path`, which is made if it is missing. Refused if staged data of a killed job
    /// cannot be completed now, but possibly later. Collective.
    pub fn open(group: Box<dyn Group>, path: &Path, config: Config) -> Result<Session> {
        // An absolute path lets the program change its directory.
        let path = rehearsal::place(path);
        Self::open_from(group, Origin::Path(path), &config)
    }

    /// Opens the space on `device`. Collective.
    pub fn open_on(group: Box<dyn Group>, device: Arc<dyn Device>, config: Config) -> Result<Session> {
        let (copies, former) = (Vec::new(), Vec::new());
        let plan = LevelPlan { kind: LevelKind::Pfs, device, every: 1, keep: config.keep, copies, former };
        Self::open_levels(group, vec![plan], config)
    }

    /// Opens several levels, the nearest first. A checkpoint saves to the nearest level, and waits only for that. The
    /// other levels are fed from there, each at its own pace. Collective.
    pub fn open_levels(group: Box<dyn Group>, levels: Vec<LevelPlan>, config: Config) -> Result<Session> {
        Self::open_from(group, Origin::Levels(levels), &config)
    }

    /// Prints a remark to the user on standard error, on rank 0, if no call can report it as an error. For layers on
    /// top of a session. Local.
    pub fn remark(&self, text: &str) {
        remark(self.rank(), text);
    }

    pub fn rank(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.epoch.group.rank())
    }

    pub fn size(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.epoch.group.size())
    }

    /// Goes on without the ranks that have failed. Call it on every remaining rank after an error of the kind
    /// `GroupFailed`, from this session or from the program's own messages, in any call. The group chooses the ranks
    /// that go on (`Group::shrink`): fewer, or as many with replacements. A replacement comes out of `open` meanwhile.
    ///
    /// Protected regions stay protected, a checkpoint that was begun is given up, and later revisions never mix with
    /// earlier ones. Call `restore` next, on all ranks. If the number of ranks has changed, or the data of each rank,
    /// first protect the new data. If ranks fail during the recovery, it begins again.
    ///
    /// `InvalidArgument`: the setting `recovery` is off, or the group cannot go on; the session stays as it was. After
    /// any other error the session is over: start the job again. (Paper 002, section 4.2.) Collective.
    pub fn recover(&mut self) -> Result<Recovered> {
        let noticed = Instant::now();
        let group = self.ours()?.going_on()?;
        let Some(inner) = self.inner.take() else { return Ok(Recovered::default()) };
        let (inner, recovered) = inner.go_on(group, noticed.elapsed())?;
        self.inner = Some(inner);
        Ok(recovered)
    }

    /// Moves the region `name` to `address`. `shape`: the new shape in elements, slowest dimension first, if it
    /// changes. The errors are those of `move_region`. Local.
    ///
    /// # Safety
    /// The promise is that of [`Region::new`].
    #[allow(unsafe_code)]
    pub unsafe fn move_to(&mut self, name: &str, address: *mut u8, shape: Option<&[u64]>) -> Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.ours()?.program.not_begun("move")?.regions.move_to(name, address, shape) }
    }

    /// Makes the next collective call do nothing and return `error` on all ranks. For a front end that failed on this
    /// rank before the call, while other ranks are already in it. The other arguments of that call do not count. Of
    /// several errors the first is returned. Local.
    ///
    /// A `due` without a meeting of the ranks leaves the error to the next call. A `checkpoint` that ends a begun one
    /// is local: it returns the error on this rank, and its revision fails on all ranks.
    pub fn refuse(&mut self, error: Error) {
        // If the session belongs to another process, the call itself reports it.
        if let Ok(inner) = self.ours() {
            inner.program.refuse(error);
        }
    }

    fn open_from(group: Box<dyn Group>, origin: Origin, config: &Config) -> Result<Session> {
        let inner = SessionState::open(group, &origin, config, Carryover::default())?;
        Ok(Session { inner: Some(inner), pid: process::id(), saver: Weak::new(), has_more: false })
    }

    fn ours(&mut self) -> Result<&mut SessionState> {
        let is_ours = self.pid == process::id();
        match &mut self.inner {
            Some(inner) if is_ours => Ok(inner),
            _ if is_ours => Err(Error::argument("session", "a recovery that failed has ended it; start the job again")),
            _ => {
                let why = format!("it was opened by process {} and not by this child of it; open one here", self.pid);
                Err(Error::argument("session", why))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.pid != process::id() {
            // The communicator, and the threads that a drop would wait for, belong to the parent.
            std::mem::forget(self.inner.take());
        }
    }
}

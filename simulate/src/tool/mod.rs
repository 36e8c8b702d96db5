//! A command as a process of its own, beside a job or after it. It calls the same functions of the engine as `mainstay`.

mod look;
mod removal;

use crate::{
    cluster::{Cluster, Death, ProcessId},
    judge::{Judge, Place},
    lock::locked,
    mark::Mark,
    objects::Models,
    openings::Openings,
    plan::{Call, Setting, Tool},
    program::Program,
    workload::Restoring,
};
use mainstay_engine::{
    Error, ErrorKind, LevelKind, Places, Reader, RevisionKey, RevisionSurvey, SpaceSurvey,
    tend::{self, Holding, SalvageFate},
    transfer::{Became, Transfer},
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The time that a hold waits for the answer of a job.
const WAIT: Duration = Duration::from_millis(20);

/// A space, and its judge.
#[derive(Clone)]
pub struct Space {
    pub path: PathBuf,
    pub judge: Arc<Mutex<Judge>>,
    pub openings: Arc<Openings>,
    pub models: Arc<Mutex<Models>>,
}

/// A command, with all that it needs.
pub struct Work {
    pub cluster: Arc<Cluster>,
    pub setting: Setting,
    pub tool: Tool,
    pub space: Space,
    /// The space that `Call::Copy` makes.
    pub copy: Space,
}

/// A started command.
pub struct Started {
    death: Death,
    is_over: Arc<AtomicBool>,
}

impl Started {
    /// Whether its process has ended or was killed. Does not lock the cluster, so conditions of waits may ask.
    pub fn is_gone(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.death.time().is_some()
    }
}

/// Why a command does not go on.
enum Trouble {
    /// A promise is broken.
    Wrong(String),
    Refused(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Refused(error)
    }
}

impl From<Restoring> for Trouble {
    fn from(restoring: Restoring) -> Trouble {
        match restoring {
            Restoring::Refused(error) => Trouble::Refused(error),
            Restoring::Wrong(why) => Trouble::Wrong(why),
        }
    }
}

type Done = Result<(), Trouble>;

impl Work {
    pub fn start(self) -> Started {
        let is_over = Arc::new(AtomicBool::new(false));
        let (cluster, over, tool) = (self.cluster.clone(), is_over.clone(), self.tool.clone());
        let name = format!("{:?}", tool.call);
        let process = cluster.start_process(&name, Some(tool.node), move || {
            if let Err(why) = self.judged() {
                self.cluster.has_failed(format!("{:?}: {why}", self.tool.call));
            }
            over.store(true, Ordering::Release);
        });
        arm(&cluster, process, &tool);
        Started { death: cluster.death_of(process), is_over }
    }

    /// Carries the command out, and checks that an error is one of those that it may give.
    fn judged(&self) -> Result<(), String> {
        let tell = |outcome: &str| self.cluster.tell(|| format!("{:?}: {outcome}", self.tool.call));
        match self.carry_out() {
            Ok(()) => tell("done"),
            Err(Trouble::Wrong(why)) => return Err(why),
            Err(Trouble::Refused(error)) => {
                tell(&error.to_string());
                if !self.is_explained(error.kind()) {
                    return Err(error.to_string());
                }
            }
        }
        Ok(())
    }

    fn carry_out(&self) -> Done {
        match self.tool.call {
            Call::Look => self.look(&self.space),
            Call::Salvage => self.salvage(None),
            Call::Hold { age } => self.hold(age),
            Call::Release => self.release(),
            Call::Prune { keep_last } => self.prune(keep_last),
            Call::Rollback { age, gives_up } => self.roll_back(age, gives_up),
            Call::Copy => self.copy(),
        }
    }

    /// Whether something explains an error of this kind.
    fn is_explained(&self, kind: ErrorKind) -> bool {
        let is_beside = self.tool.time.is_some();
        match kind {
            ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::SyncFailed => {
                self.tool.fault.is_some() || self.cluster.is_ailing()
            }
            ErrorKind::InUse => is_beside,
            // Nothing is saved yet, a job has removed the revision, or the node that has it is lost.
            ErrorKind::NotASpace | ErrorKind::RevisionMissing | ErrorKind::OutOfSight => true,
            // A killed process may have left half a root, and no revision is promised.
            ErrorKind::Damaged => {
                let judge = locked(&self.space.judge);
                judge.is_rotten || judge.floor(true).is_none()
            }
            // The copy has revisions that a rollback has removed from the first space.
            ErrorKind::InvalidArgument => self.tool.call == Call::Copy,
            _ => false,
        }
    }

    fn pools(&self) -> PathBuf {
        self.cluster.node_folder(self.tool.node).join("memory")
    }

    /// Completes the staged data on this node, of `space` or of all spaces.
    fn salvage(&self, space: Option<&Path>) -> Done {
        let salvaged = tend::salvage(&self.pools(), space, false)?;
        for shard in salvaged.shards {
            self.cluster.tell(|| format!("shard {} of {:?}: {:?}", shard.shard, shard.key, shard.fate));
            let is_lost = matches!(shard.fate, SalvageFate::Failed(_) | SalvageFate::Lost(_));
            if is_lost && self.tool.fault.is_none() && self.tool.time.is_none() {
                self.cluster.tell(|| "salvage: data that could not be completed".to_owned());
            }
        }
        Ok(())
    }

    /// The complete revisions, on any level, newest first.
    fn complete(&self) -> Result<Vec<RevisionSurvey>, Error> {
        let survey = SpaceSurvey::open_all(&self.space.path)?;
        Ok(survey.revisions.into_iter().filter(|revision| revision.complete).collect())
    }

    /// The complete revision of this age, or the oldest.
    fn chosen(&self, age: usize) -> Result<Option<RevisionSurvey>, Error> {
        let mut all = self.complete()?;
        let index = age.min(all.len().saturating_sub(1));
        Ok((index < all.len()).then(|| all.swap_remove(index)))
    }

    /// Reads all of the revision, in `space`.
    fn read(&self, space: &Path, number: Option<u64>) -> Result<(RevisionKey, Mark), Trouble> {
        let mut reader = Reader::open(space, number, "simulated")?;
        let mark = Program::read(&mut reader, self.setting.is_global)?;
        Ok((reader.key(), mark))
    }

    fn hold(&self, age: usize) -> Done {
        self.salvage(Some(&self.space.path))?;
        let Some(revision) = self.chosen(age)? else { return Ok(()) };
        let (key, path) = (revision.key, &self.space.path);
        let whole = revision.parts.iter().filter(|part| part.whole).map(|part| part.place.clone());
        let places: Vec<_> = if revision.parts.is_empty() { Places::of(path).all } else { whole.collect() };
        for place in places.into_iter().rev() {
            let holding = tend::hold(&place.directory, key, "simulated", 0, WAIT)?;
            self.cluster.tell(|| format!("hold of {} on {place}: {holding:?}", key.number));
            if place.level == LevelKind::Pfs && matches!(holding, Holding::Counts(_)) {
                let (_, mark) = self.read(path, Some(key.number))?;
                locked(&self.space.judge).held(key.number, mark);
            }
        }
        Ok(())
    }

    fn release(&self) -> Done {
        locked(&self.space.judge).released(None);
        for place in Places::of(&self.space.path).all {
            match tend::release(&place.directory, None) {
                Err(Error::NotASpace { .. }) => {}
                released => drop(released?),
            }
        }
        Ok(())
    }

    fn copy(&self) -> Done {
        let transfer = Transfer::begin(&self.space.path, &self.copy.path, &[])?;
        for copied in transfer.carry_out(&|_| ())? {
            let key = copied.revision.key;
            self.cluster.tell(|| format!("copy of {}: {:?}", key.number, copied.became));
            if matches!(copied.became, Became::Copied | Became::WasThere) {
                let (_, mark) = self.read(&self.copy.path, Some(key.number))?;
                let mut judge = locked(&self.copy.judge);
                judge.promise_at(mark, Place::Pfs);
                judge.held(key.number, mark);
            }
        }
        self.look(&self.copy)
    }
}

/// Plans the fault of a command.
fn arm(cluster: &Cluster, process: ProcessId, tool: &Tool) {
    match tool.fault {
        Some((operation, Some(failure))) => cluster.fails_in(process, operation, failure),
        Some((operation, None)) => cluster.dies_in(process, operation),
        None => {}
    }
}

//! Who takes part in a job: the ranks that work, and spares, which wait asleep until one of those has failed.
//!
//! A world outlives the groups that the engine sees. When ranks fail, `regroup` makes it anew; what is here knows it,
//! and what a spare does meanwhile.

use crate::{
    agreement::is_of_mpi,
    error::raise,
    member::{Member, end_late, introduce},
    mpi::{is_over, survives},
    number::Status,
};
use mainstay_engine::{Error, group::Divided};
use pyo3::{
    exceptions::PySystemExit,
    intern,
    prelude::*,
    types::{PyByteArray, PyCFunction},
};
use std::{
    collections::BTreeSet,
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Set for a process that is started to take the place of one that has failed, to the same for all of a job.
pub(crate) const REPLACES: &str = "MAINSTAY_RUN_REPLACES";

/// So long a spare sleeps between two looks.
const NAP: Duration = Duration::from_millis(5);
/// With this tag a rank tells spares that it has ended its session.
const LEFT: i32 = 2;
/// With this one it calls them to a recovery.
const CALLED: i32 = 3;

/// So often processes are started in vain in one recovery.
pub(crate) const STARTS_MAX: usize = 3;

/// What becomes of the places of ranks that have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// Spares take them, or processes that are started for it.
    Filled,
    /// There are fewer.
    Dropped,
}

pub(crate) struct World {
    pub(crate) places: Places,
    now: Mutex<Now>,
    pid: u32,
    /// All communicators that were made for it, of which the program may still have one.
    kept: Kept,
    /// Whether all ranks end the session, and so free its communicator together.
    pub(crate) ends: AtomicBool,
    /// Whether ranks have failed in it.
    pub(crate) has_lost: AtomicBool,
    /// A variable that the processes have which are started for it, with its value: of no other job.
    pub(crate) mark: String,
    /// Whether processes were started for it.
    pub(crate) has_launched: AtomicBool,
    /// How often processes were started in vain, one time after the other.
    pub(crate) starts_in_vain: AtomicUsize,
}

/// The communicator of a job, and who is in it by rank.
type Everyone = (Py<PyAny>, Arc<Vec<Member>>);

/// Who was in a job that has ended in this process, and after which MPI's own end may not return.
static LAST: Mutex<Option<Everyone>> = Mutex::new(None);

type Kept = Arc<Mutex<Vec<Py<PyAny>>>>;

/// The world between two failures.
pub(crate) struct Now {
    /// Who works and who waits, in any order.
    pub(crate) all: Py<PyAny>,
    pub(crate) workers: usize,
    /// In the order of `all`.
    pub(crate) members: Arc<Vec<Member>>,
    /// Of the workers, for the engine alone; `None` in a spare.
    pub(crate) group: Option<Py<PyAny>>,
    /// The same for the program.
    pub(crate) program: Option<Py<PyAny>>,
    /// Communicators that the program has made for itself.
    pub(crate) adopted: Vec<Py<PyAny>>,
    /// The workers that were lost when this began, by their ranks until then.
    pub(crate) lost: Arc<Vec<usize>>,
}

impl World {
    /// All of `comm` work, which is the engine's alone; `program`: what the program has. Collective.
    pub(crate) fn of_workers(mpi: &Bound<'_, PyAny>, comm: &Bound<'_, PyAny>, program: Py<PyAny>) -> PyResult<World> {
        let size: i64 = comm.call_method0(intern!(mpi.py(), "Get_size"))?.extract()?;
        let members = introduce(mpi, comm, &(0..size).collect::<Vec<_>>())?;
        let mark = format!("{REPLACES}={}", members.first().map(Member::name).unwrap_or_default());
        let world = World::bare(Places::Dropped, comm, mark);
        {
            let mut now = world.lock();
            now.workers = members.len();
            now.members = Arc::new(members);
            now.group = Some(comm.clone().unbind());
            now.program = Some(program);
        }
        Ok(world)
    }

    /// The first `workers` of those that there were work, and the others wait. `born`: who of them is in `all`, which is
    /// this world's own, and `met` until now. Collective.
    pub(crate) fn with_spares(
        mpi: &Bound<'_, PyAny>,
        all: &Bound<'_, PyAny>,
        met: &World,
        places: Places,
        born: &[usize],
        workers: usize,
    ) -> PyResult<World> {
        let members: Vec<Member> =
            born.iter().map(|rank| Member::to_come((*rank < workers).then_some(*rank))).collect();
        let are_all_there = (0..workers).all(|rank| born.contains(&rank));
        let world = World::bare(places, all, met.mark.clone());
        {
            let mut now = world.lock();
            now.workers = workers;
            now.members = Arc::new(members.clone());
        }
        if !are_all_there || world.begin(mpi, all, members, workers, Vec::new()).is_err() {
            // On all ranks: one has failed already.
            world.regroup(mpi, Divided::Unknown)?;
        }
        Ok(world)
    }

    /// One in which nobody has a place yet.
    pub(crate) fn bare(places: Places, all: &Bound<'_, PyAny>, mark: String) -> World {
        let now = Now {
            all: all.clone().unbind(),
            workers: 0,
            members: Arc::default(),
            group: None,
            program: None,
            adopted: Vec::new(),
            lost: Arc::default(),
        };
        World {
            places,
            pid: process::id(),
            now: Mutex::new(now),
            kept: Kept::default(),
            ends: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
            mark,
            has_launched: AtomicBool::new(false),
            starts_in_vain: AtomicUsize::new(0),
        }
    }

    /// For a moment: MPI is not called under this lock, which others wait for with the interpreter.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn comm(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.lock().program.as_ref().map(|comm| comm.clone_ref(py))
    }

    /// Has a communicator of the program revoked with the others, when a rank has failed.
    pub(crate) fn adopt(&self, comm: Py<PyAny>) {
        self.lock().adopted.push(comm);
    }

    /// Keeps a communicator that was made for this world until MPI ends.
    pub(crate) fn keep(&self, comm: &Bound<'_, PyAny>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(comm.clone().unbind());
    }

    /// Frees what is kept before MPI ends: with a communicator of processes that were started later, Open MPI 5.0.11
    /// crashes there.
    pub(crate) fn free_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        let kept = self.kept.clone();
        let free = PyCFunction::new_closure(py, None, None, move |arguments, _| {
            let py = arguments.py();
            let all = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
            for comm in all {
                // Freed by the program, and MPI may have ended.
                drop(comm.bind(py).call_method0(intern!(py, "Free")));
            }
        })?;
        py.import(intern!(py, "atexit"))?.call_method1(intern!(py, "register"), (free,)).map(drop)
    }

    /// The workers that were lost when this world began, by their ranks until then.
    pub(crate) fn lost(&self) -> Vec<usize> {
        self.lock().lost.to_vec()
    }

    pub(crate) fn is_worker(&self) -> bool {
        self.lock().group.is_some()
    }

    /// Ends the processes that were started for it and did not come in time.
    pub(crate) fn end_late(&self, py: Python<'_>) {
        let members = self.lock().members.clone();
        if self.has_launched.load(Ordering::Relaxed) {
            end_late(py, &members, &self.mark);
        }
    }

    /// Tells the spares that this rank has ended its session.
    pub(crate) fn leave(&self, mpi: &Bound<'_, PyAny>) {
        let py = mpi.py();
        // Not in a process that was forked.
        if self.pid != process::id() || is_over(mpi) {
            return;
        }
        self.end_late(py);
        let (all, members) = {
            let now = self.lock();
            (now.all.clone_ref(py), now.members.clone())
        };
        tell_spares(mpi, all.bind(py), &members, LEFT);
        self.end(mpi);
    }

    /// Calls the spares to a recovery: their communicator is not revoked, because all are to speak in it.
    pub(crate) fn call(&self, mpi: &Bound<'_, PyAny>) {
        let py = mpi.py();
        let (all, members) = {
            let now = self.lock();
            (now.all.clone_ref(py), now.members.clone())
        };
        tell_spares(mpi, all.bind(py), &members, CALLED);
    }

    /// Remembers for the end of the program that ranks were lost.
    fn end(&self, mpi: &Bound<'_, PyAny>) {
        let (all, members) = {
            let now = self.lock();
            (now.all.clone_ref(mpi.py()), now.members.clone())
        };
        // Without recovery it is the session's own, which is freed by then.
        if !all.bind(mpi.py()).is_truthy().unwrap_or(false) {
            return;
        }
        let knows = || Ok::<_, PyErr>(survives(mpi)? && !failed(all.bind(mpi.py()))?.is_empty());
        if self.has_lost.load(Ordering::Relaxed) || has_heartbeat() || knows().unwrap_or(true) {
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some((all, members));
        }
    }

    /// A spare's sleep, until it works, or all that work have left: then this raises `NotNeeded`.
    pub(crate) fn wait(&self, mpi: &Bound<'_, PyAny>) -> PyResult<()> {
        self.sleep(mpi).or_else(|error| {
            self.end(mpi);
            if error.is_instance_of::<PySystemExit>(mpi.py()) {
                end_at_exit(mpi.py())?;
            }
            Err(error)
        })
    }

    fn sleep(&self, mpi: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = mpi.py();
        let (mut left, survives) = (BTreeSet::new(), survives(mpi)?);
        while !self.is_worker() {
            py.check_signals()?;
            py.detach(|| thread::sleep(NAP));
            let (all, members) = {
                let now = self.lock();
                (now.all.clone_ref(py).into_bound(py), now.members.clone())
            };
            match hear(mpi, &all, &mut left) {
                Ok(false) => {}
                Ok(true) => {
                    self.regroup(mpi, Divided::Unknown)?;
                    left.clear();
                    continue;
                }
                // Another spare, or a worker: then those that are left call, or have left themselves.
                Err(error) if survives && is_of_mpi(mpi, &error)? => drop(all.call_method0(intern!(py, "Ack_failed"))?),
                Err(error) => return Err(error),
            }
            let failed = if survives { failed(&all)? } else { BTreeSet::new() };
            let is_gone = |rank: &usize| left.contains(rank) || failed.contains(rank);
            if (0..members.len()).filter(|rank| members[*rank].place.is_some()).all(|rank| is_gone(&rank)) {
                if left.is_empty() {
                    let why = "a spare waits for nobody: all ranks that worked have failed; start the job again";
                    return Err(raise(py, &Error::GroupFailed { what: why.to_owned() }));
                }
                return Err(raise(py, &Error::NotNeeded));
            }
        }
        Ok(())
    }
}

fn tell_spares(mpi: &Bound<'_, PyAny>, all: &Bound<'_, PyAny>, members: &[Member], tag: i32) {
    let tell = |spare: usize| -> PyResult<()> {
        let py = mpi.py();
        let nothing = [PyByteArray::new(py, &[]).into_any(), mpi.getattr(intern!(py, "BYTE"))?];
        all.call_method1(intern!(py, "Send"), (nothing, spare, tag)).map(drop)
    };
    let mine = all.call_method0(intern!(mpi.py(), "Get_rank")).and_then(|rank| rank.extract::<usize>());
    let spares = (0..members.len()).filter(|rank| members[*rank].place.is_none() && mine.as_ref().ok() != Some(rank));
    // One that has failed does not need it.
    spares.for_each(|spare| drop(tell(spare)));
}

/// Takes in who has left, and whether one calls to a recovery.
fn hear(mpi: &Bound<'_, PyAny>, all: &Bound<'_, PyAny>, left: &mut BTreeSet<usize>) -> PyResult<bool> {
    let py = mpi.py();
    let status = mpi.call_method0(intern!(py, "Status"))?;
    let any = mpi.getattr(intern!(py, "ANY_SOURCE"))?;
    while all.call_method1(intern!(py, "Iprobe"), (&any, LEFT, &status))?.is_truthy()? {
        let rank: usize = status.call_method0(intern!(py, "Get_source"))?.extract()?;
        let into = [PyByteArray::new(py, &[]).into_any(), mpi.getattr(intern!(py, "BYTE"))?];
        all.call_method1(intern!(py, "Recv"), (into, rank, LEFT))?;
        left.insert(rank);
    }
    all.call_method1(intern!(py, "Iprobe"), (&any, CALLED))?.is_truthy()
}

/// The ranks of `comm` of which this process knows that they have failed.
pub(crate) fn failed(comm: &Bound<'_, PyAny>) -> PyResult<BTreeSet<usize>> {
    let py = comm.py();
    let dead = comm.call_method0(intern!(py, "Get_failed"))?;
    let all = comm.call_method0(intern!(py, "Get_group"))?;
    let ranks = dead.call_method1(intern!(py, "Translate_ranks"), (py.None(), &all))?.extract::<Vec<usize>>();
    all.call_method0(intern!(py, "Free"))?;
    dead.call_method0(intern!(py, "Free"))?;
    Ok(ranks?.into_iter().collect())
}

/// The ranks of `comm` as they are numbered in `group`, which has them all.
pub(crate) fn ranks_of(comm: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let py = comm.py();
    let mine = comm.call_method0(intern!(py, "Get_group"))?;
    let ranks = mine.call_method1(intern!(py, "Translate_ranks"), (py.None(), group))?.extract();
    mine.call_method0(intern!(py, "Free"))?;
    ranks
}

impl Now {
    /// All communicators that those that work may be waiting in.
    pub(crate) fn every(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let of_workers = self.group.iter().chain(&self.program).chain(&self.adopted);
        of_workers.map(|comm| comm.clone_ref(py)).collect()
    }
}

/// Whether mpiexec was asked for a heartbeat (`--mca mpi_ft_detector true`). On a busy machine the end of MPI of Open MPI 5.0.11
/// then waits for ever, though no rank has failed.
fn has_heartbeat() -> bool {
    let asked = std::env::var("OMPI_MCA_mpi_ft_detector").unwrap_or_default();
    asked.chars().next().is_some_and(|first| !"0fFnNdD".contains(first))
}

/// Ends MPI, in place of `MPI.Finalize()` and after the sessions are closed, on all processes, also spares that nobody
/// needed; `status` is what the program is to end with, and is returned: `sys.exit(mainstay.finalize())`. After ranks have
/// failed, and with a heartbeat, MPI's own end can hang or crash: this then ends the process once all have come so far. What is in the buffers of
/// standard output is written before, and nothing that atexit has registered is called.
#[pyfunction]
#[pyo3(signature = (status=Status(0)), text_signature = "(status=0)")]
pub(crate) fn finalize(py: Python<'_>, status: Status) -> PyResult<i32> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (all, members) = last.unzip();
    let arguments = (
        status.0,
        all,
        PyCFunction::new_closure(py, None, None, move |arguments, _| {
            let (all, members) = (arguments.get_item(0)?, members.iter().flat_map(|members| members.iter()));
            end_failed(&all, &members.collect::<Vec<_>>())
        })?,
    );
    py.import(intern!(py, "mainstay._recovery"))?.call_method1(intern!(py, "finalize"), arguments)?.extract()
}

/// Has a spare that nobody needed end as by `finalize` where ranks were lost, also if the program does not catch `NotNeeded`. A status
/// of its own that it gives to `sys.exit` then cannot be known here: it is to call `finalize`.
fn end_at_exit(py: Python<'_>) -> PyResult<()> {
    if LAST.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
        return Ok(());
    }
    let end = PyCFunction::new_closure(py, None, None, |arguments, _| {
        let py = arguments.py();
        // That the program ends by an exception of its own.
        let has_failed = py.import(intern!(py, "sys"))?.hasattr(intern!(py, "last_value"))?;
        finalize(py, Status(i32::from(has_failed)))
    })?;
    py.import(intern!(py, "atexit"))?.call_method1(intern!(py, "register"), (end,)).map(drop)
}

/// Ends the processes of the last job on this machine that have failed in MPI's eyes, and hang, as a spare can that nobody needed:
/// mpiexec would wait for them for ever.
fn end_failed(all: &Bound<'_, PyAny>, members: &[&Member]) -> PyResult<()> {
    for rank in failed(all)? {
        if let Some(member) = members.get(rank) {
            all.py().detach(|| member.end());
        }
    }
    Ok(())
}

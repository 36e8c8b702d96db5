//! The processes of a job: working ranks, and spares, which sleep until a rank has failed.
//!
//! A world outlives the groups that the engine sees. When ranks fail, `regroup` makes it anew. This file keeps its
//! data, and runs a spare's sleep.

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

/// Set for a process that is started to replace a failed one; the value is the same for all of a job.
pub(crate) const REPLACES: &str = "MAINSTAY_RUN_REPLACES";

/// Time of a spare's sleep between two looks.
const NAP: Duration = Duration::from_millis(5);
/// Tag of the message by which a rank tells spares that it has ended its session.
const LEFT: i32 = 2;
/// Tag of the message that calls spares to a recovery.
const CALLED: i32 = 3;

/// Limit of failed attempts to start processes in one recovery.
pub(crate) const STARTS_MAX: usize = 3;

/// Use of the places of failed ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// Spares take them, or newly started processes.
    Filled,
    /// They are dropped: there are fewer ranks.
    Dropped,
}

pub(crate) struct World {
    pub(crate) places: Places,
    now: Mutex<Now>,
    pid: u32,
    /// All communicators made for this world; the program may still have one.
    kept: Kept,
    /// Whether all ranks end the session, and free its communicator together.
    pub(crate) ends: AtomicBool,
    /// Whether ranks have failed in it.
    pub(crate) has_lost: AtomicBool,
    /// A variable of the processes that are started for this world, with its value; no other job has it.
    pub(crate) mark: String,
    /// Whether processes were started for it.
    pub(crate) has_launched: AtomicBool,
    /// Number of consecutive failed attempts to start processes.
    pub(crate) starts_in_vain: AtomicUsize,
}

/// The communicator of a job, and its processes by rank.
type Everyone = (Py<PyAny>, Arc<Vec<Member>>);

/// The processes of a job that has ended in this process, and after which MPI's own end may not return.
static LAST: Mutex<Option<Everyone>> = Mutex::new(None);

type Kept = Arc<Mutex<Vec<Py<PyAny>>>>;

/// The world between two failures.
pub(crate) struct Now {
    /// Working ranks and spares, in any order.
    pub(crate) all: Py<PyAny>,
    pub(crate) workers: usize,
    /// In the order of `all`.
    pub(crate) members: Arc<Vec<Member>>,
    /// Of the workers, for the engine alone; `None` in a spare.
    pub(crate) group: Option<Py<PyAny>>,
    /// The same for the program.
    pub(crate) program: Option<Py<PyAny>>,
    /// Communicators of the program.
    pub(crate) adopted: Vec<Py<PyAny>>,
    /// The workers lost when this world began, by their ranks until then.
    pub(crate) lost: Arc<Vec<usize>>,
}

impl World {
    /// All of `comm` work, which belongs to the engine alone; `program` is the program's communicator. Collective.
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

    /// The first `workers` of the original ranks work, and the others wait. `born`: the processes in `all`, which is
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

    /// A world in which no process has a place yet.
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

    /// Held only briefly: do not call MPI under this lock, because other threads wait for it with the interpreter.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn comm(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.lock().program.as_ref().map(|comm| comm.clone_ref(py))
    }

    /// Revokes a communicator of the program together with the others, when a rank has failed.
    pub(crate) fn adopt(&self, comm: Py<PyAny>) {
        self.lock().adopted.push(comm);
    }

    /// Keeps a communicator of this world until MPI ends.
    pub(crate) fn keep(&self, comm: &Bound<'_, PyAny>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(comm.clone().unbind());
    }

    /// Frees the kept communicators before MPI ends. With a communicator of processes that were started later, Open
    /// MPI 5.0.11 crashes there.
    pub(crate) fn free_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        let kept = self.kept.clone();
        let free = PyCFunction::new_closure(py, None, None, move |arguments, _| {
            let py = arguments.py();
            let all = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
            for comm in all {
                // The program may have freed it, and MPI may have ended.
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

    /// Ends processes that were started for this world and did not come in time.
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

    /// Calls the spares to a recovery. Their communicator is not revoked, because all ranks must talk in it.
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
        // Without recovery it is the session's own communicator, which is freed by then.
        if !all.bind(mpi.py()).is_truthy().unwrap_or(false) {
            return;
        }
        let knows = || Ok::<_, PyErr>(survives(mpi)? && !failed(all.bind(mpi.py()))?.is_empty());
        if self.has_lost.load(Ordering::Relaxed) || has_heartbeat() || knows().unwrap_or(true) {
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some((all, members));
        }
    }

    /// A spare's sleep, until it works, or until all workers have left: then this raises `NotNeeded`.
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
                // Another spare has failed, or a worker: then the surviving ranks call, or have left themselves.
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
    // A failed rank does not need it.
    spares.for_each(|spare| drop(tell(spare)));
}

/// Receives messages of ranks that have left, and of a rank that calls to a recovery.
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

/// The ranks of `comm` that this process knows to have failed.
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
    /// All communicators in which workers may be waiting.
    pub(crate) fn every(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let of_workers = self.group.iter().chain(&self.program).chain(&self.adopted);
        of_workers.map(|comm| comm.clone_ref(py)).collect()
    }
}

/// Whether mpiexec was started with a heartbeat (`--mca mpi_ft_detector true`). On a busy machine the end of MPI of
/// Open MPI 5.0.11 then waits forever, even if no rank has failed.
fn has_heartbeat() -> bool {
    let asked = std::env::var("OMPI_MCA_mpi_ft_detector").unwrap_or_default();
    asked.chars().next().is_some_and(|first| !"0fFnNdD".contains(first))
}

/// Ends MPI, in place of `MPI.Finalize()`, after the sessions are closed, on all processes, including unneeded
/// spares. `status` is the program's exit status, and is returned: `sys.exit(mainstay.finalize())`. After a failure
/// of ranks, and with a heartbeat, MPI's own end can hang or crash. In these cases this call ends the process, once
/// all ranks have come as far. It first writes the buffers of standard output, but calls no function registered with
/// atexit.
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

/// Ends an unneeded spare like `finalize` if ranks were lost, even if the program does not catch `NotNeeded`. The
/// spare cannot know a status that the program passes to `sys.exit`: such a program must call `finalize`.
fn end_at_exit(py: Python<'_>) -> PyResult<()> {
    if LAST.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
        return Ok(());
    }
    let end = PyCFunction::new_closure(py, None, None, |arguments, _| {
        let py = arguments.py();
        // Whether the program ends by an exception of its own.
        let has_failed = py.import(intern!(py, "sys"))?.hasattr(intern!(py, "last_value"))?;
        finalize(py, Status(i32::from(has_failed)))
    })?;
    py.import(intern!(py, "atexit"))?.call_method1(intern!(py, "register"), (end,)).map(drop)
}

/// Ends processes of the last job on this machine that MPI counts as failed and that hang, such as an unneeded spare:
/// mpiexec would wait for them forever.
fn end_failed(all: &Bound<'_, PyAny>, members: &[&Member]) -> PyResult<()> {
    for rank in failed(all)? {
        if let Some(member) = members.get(rank) {
            all.py().detach(|| member.end());
        }
    }
    Ok(())
}

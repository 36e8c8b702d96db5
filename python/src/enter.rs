//! How a rank enters its session's group: at once, after a spare's sleep, or in place of a failed rank.

use crate::{
    error::{detached, raise},
    group::MpiGroup,
    mpi::{check, survives},
    regroup::{agree_in_theirs, all_agree, shrunk, without_failed},
    wire::MpiWire,
    world::{Places, World, ranks_of},
};
use mainstay_engine::{
    Config, Error, Recovery, count,
    group::{Group, Process, Solo, agree},
};
use pyo3::{exceptions::PyRuntimeError, intern, prelude::*};
use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The ranks of a session on a communicator, while it is open and longer.
pub(crate) struct Job {
    mpi: Py<PyAny>,
    world: Arc<World>,
    recovers: bool,
}

/// The arguments of `open`.
type Given = Result<(PathBuf, Config), Error>;

/// A group with its job, and the arguments for it.
type Entered = (Box<dyn Group>, Option<Job>, PathBuf, Config);

/// The group of a session, its space and its settings; no job without a communicator. Collective.
pub(crate) fn enter(py: Python<'_>, comm: Option<&Bound<'_, PyAny>>, given: Given) -> PyResult<Entered> {
    let told = |error| raise(py, &error);
    let Some(comm) = comm else {
        let (path, config) = given.map_err(told)?;
        return Ok((Box::new(Solo), None, path, config));
    };
    let mpi = check(comm).map_err(told)?;
    let failed = |error| group_failed(py, "opening", error);
    let recovers = survives(&mpi).map_err(failed)?;
    let is_asked = given.as_ref().is_ok_and(|(_, config)| config.recovery != Recovery::Off);
    if recovers && is_asked {
        Process::outlive_connections();
    }
    if let Ok((path, config)) = &given
        && let Some(world) = World::join(&mpi, places(config).unwrap_or(Places::Filled))?
    {
        let job = Job { mpi: mpi.unbind(), world: Arc::new(world), recovers: true };
        return Ok((job.group(py).map_err(told)?, Some(job), path.clone(), config.clone()));
    }

    let begun = comm.call_method0(intern!(py, "Get_group")).map_err(failed)?;
    let size: usize = comm.call_method0(intern!(py, "Get_size")).map_err(failed)?.extract()?;
    let mut own = duplicate(&mpi, comm, is_asked).map_err(failed)?;
    let mut tries = size;
    let (own, job, group, path, config) = loop {
        let met = meet(&mpi, &own, comm, &given);
        let is_broken = matches!(&met, Err(error) if has_failed(py, error));
        // Leaves out ranks that have failed meanwhile, if the others are to go on.
        if !recovers || all_agree(&mpi, &own, !is_broken).map_err(failed)? || !is_asked || tries == 0 {
            let (job, group, path, config) = met?;
            break (own, job, group, path, config);
        }
        tries -= 1;
        drop(met);
        own = shrunk(&mpi, &own).map_err(failed)?;
    };
    let born = ranks_of(&own, &begun).map_err(failed)?;
    begun.call_method0(intern!(py, "Free")).map_err(failed)?;
    let places = match places(&config) {
        Some(places) if recovers || config.spares > 0 => places,
        wanted => {
            wanted.iter().for_each(|_| remark_no_effect(group.rank()));
            return Ok((group, Some(job), path, config));
        }
    };
    if !recovers {
        remark_no_effect(group.rank());
    }
    let workers = size - config.spares as usize;
    let world = Arc::new(World::with_spares(&mpi, &own, &job.world, places, &born, workers).map_err(failed)?);
    let job = Job { world, recovers, ..job };
    job.world.wait(&mpi).map_err(failed)?;
    Ok((job.group(py).map_err(told)?, Some(job), path, config))
}

/// A communicator of Mainstay's own: of all ranks, or if `is_asked` of the surviving ones. Collective.
fn duplicate<'py>(mpi: &Bound<'py, PyAny>, comm: &Bound<'py, PyAny>, is_asked: bool) -> PyResult<Bound<'py, PyAny>> {
    let py = mpi.py();
    let returned = mpi.getattr(intern!(py, "ERRORS_RETURN"))?;
    if !survives(mpi)? {
        let own = comm.call_method0(intern!(py, "Dup"))?;
        // Errors come back to Mainstay, whatever the program does with its own errors.
        own.call_method1(intern!(py, "Set_errhandler"), (returned,))?;
        return Ok(own);
    }
    let theirs = comm.call_method0(intern!(py, "Get_errhandler"))?;
    comm.call_method1(intern!(py, "Set_errhandler"), (&returned,))?;
    let own = duplicate_of_living(comm, is_asked);
    comm.call_method1(intern!(py, "Set_errhandler"), (&theirs,))?;
    theirs.call_method0(intern!(py, "Free"))?;
    let own = own?;
    own.call_method1(intern!(py, "Set_errhandler"), (&returned,))?;
    // All ranks have made it before one may revoke it; the next call notices a rank that has failed meanwhile.
    all_agree(mpi, &own, true)?;
    Ok(own)
}

/// A communicator of the surviving ranks of `comm`. Collective.
fn duplicate_of_living<'py>(comm: &Bound<'py, PyAny>, is_asked: bool) -> PyResult<Bound<'py, PyAny>> {
    let py = comm.py();
    let made = comm.call_method0(intern!(py, "Dup"));
    if made.is_err() && is_asked {
        // A failed rank leaves the others waiting in the call: this frees them.
        comm.call_method0(intern!(py, "Revoke"))?;
    }
    match (agree_in_theirs(comm, made.is_ok())?, made) {
        (true, made) => made,
        (false, Err(error)) if !is_asked => Err(error),
        (false, made) => {
            if let Ok(made) = made {
                made.call_method0(intern!(py, "Free"))?;
            }
            without_failed(comm)
        }
    }
}

/// The ranks of `own` as a group, and their common arguments. Collective.
fn meet(
    mpi: &Bound<'_, PyAny>,
    own: &Bound<'_, PyAny>,
    comm: &Bound<'_, PyAny>,
    given: &Given,
) -> PyResult<(Job, Box<dyn Group>, PathBuf, Config)> {
    let py = mpi.py();
    let given = given.clone();
    let met = || {
        let world =
            World::of_workers(mpi, own, comm.clone().unbind()).map_err(|error| group_failed(py, "opening", error))?;
        let job = Job { mpi: mpi.clone().unbind(), world: Arc::new(world), recovers: false };
        let group = job.group(py).map_err(|error| raise(py, &error))?;
        let (group, path, config) = detached(py, move || {
            // The other ranks must learn of wrong arguments on one rank.
            let (path, config) = agree(&*group, given)?;
            check_recovery(&*group, &config)?;
            Ok((group, path, config))
        })
        .map_err(|error| raise(py, &error))?;
        Ok((job, group, path, config))
    };
    let met = met();
    if let Err(error) = &met
        && has_failed(py, error)
        && survives(mpi)?
    {
        // The other ranks may still be in it.
        own.call_method0(intern!(py, "Revoke"))?;
    }
    met
}

fn has_failed(py: Python<'_>, error: &PyErr) -> bool {
    let kind = || -> PyResult<String> { error.value(py).getattr(intern!(py, "kind"))?.extract() };
    kind().is_ok_and(|kind| kind == "GroupFailed")
}

/// Once in a program.
fn remark_no_effect(rank: usize) {
    static MADE: AtomicBool = AtomicBool::new(false);
    if rank == 0 && !MADE.swap(true, Ordering::Relaxed) {
        let text = "mainstay: recovery has no effect here: this MPI does not go on without ranks that have failed, which Open \
                    MPI does from version 5 on, started with `mpiexec --with-ft ulfm`; a job that loses ranks ends, and is to be \
                    started again, as `mainstay run` does\n";
        // If nobody can read the line, that is no reason to fail.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

fn places(config: &Config) -> Option<Places> {
    match config.recovery {
        Recovery::Off => None,
        Recovery::Replace => Some(Places::Filled),
        Recovery::Shrink => Some(Places::Dropped),
    }
}

/// Checks before ranks part by these settings. Collective; the same error on every rank.
fn check_recovery(group: &dyn Group, config: &Config) -> Result<(), Error> {
    let mine = format!("recovery = {:?}, spares = {}", config.recovery, config.spares).to_lowercase();
    let all = group.all_gather(mine.as_bytes())?;
    if let Some(rank) = all.iter().position(|theirs| *theirs != all[0]) {
        let [other, first] = [rank, 0].map(|rank| String::from_utf8_lossy(&all[rank]).into_owned());
        let advice = "give all ranks of a job the same file, environment and options";
        return Err(Error::argument("recovery", format!("rank {rank} has {other} and rank 0 has {first}; {advice}")));
    }
    if config.recovery == Recovery::Off {
        return Ok(());
    }
    if config.spares as usize >= group.size() {
        let why =
            format!("{} of {} would wait, and none is left to work", config.spares, count(group.size() as u64, "rank"));
        return Err(Error::argument("spares", why));
    }
    Ok(())
}

impl Job {
    pub(crate) fn recovers(&self) -> bool {
        self.recovers
    }

    /// The workers' present group.
    pub(crate) fn group(&self, py: Python<'_>) -> Result<Box<dyn Group>, Error> {
        let group = MpiGroup::of(self.mpi.bind(py), &self.world);
        let told = |error: PyErr| Error::GroupFailed { what: format!("opening: {}", error.value(py)) };
        Ok(Box::new(group.map_err(told)?))
    }

    pub(crate) fn wire(&self, py: Python<'_>) -> MpiWire {
        MpiWire::new(self.mpi.clone_ref(py), self.world.clone())
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// This rank's session is over.
    pub(crate) fn leave(&self, py: Python<'_>) {
        self.world.leave(self.mpi.bind(py));
    }
}

/// The error of a failed MPI call; a Ctrl-C, and the end of a spare, stay as they are.
fn group_failed(py: Python<'_>, doing: &str, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyRuntimeError>(py) {
        return error;
    }
    raise(py, &Error::GroupFailed { what: format!("{doing}: {}", error.value(py)) })
}

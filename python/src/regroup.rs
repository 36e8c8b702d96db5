//! A world is made anew without the ranks that have failed.
//!
//! What must hold: all that take part go through the same steps, whoever fails meanwhile. After each communicator that
//! is made they agree, on the one that it is made from, whether each of them has it; if not, all begin again, without
//! those that have failed by then. No line of Python runs in between.

use crate::{
    error::raise,
    member::{kill_dead, members},
    world::{Now, Places, World, ranks_in},
};
use mainstay_engine::Error;
use pyo3::{
    exceptions::PyRuntimeError,
    intern,
    prelude::*,
    types::{PyByteArray, PyDict, PyList},
};
use std::{collections::BTreeSet, env, ffi::OsString, fs, os::unix::ffi::OsStringExt, sync::Arc};

/// Set for a process that is started to take the place of one that has failed.
const REPLACES: &str = "MAINSTAY_REPLACES";

/// Who sits where in the new world.
struct Seats {
    /// For each worker its rank in the old world; `None`: a process that is to be started.
    workers: Vec<Option<usize>>,
    /// Those that go on waiting.
    spares: Vec<usize>,
    lost: Vec<usize>,
}

impl World {
    /// Collective among all that have not failed, spares included: all that is under way in the old world's communicators,
    /// and whatever is called in them later, fails.
    pub(crate) fn regroup(&self, mpi: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = mpi.py();
        let (all, every) = {
            let now = self.lock();
            (now.all.clone_ref(py).into_bound(py), now.every(py))
        };
        // One that the program has freed is none any more.
        every.iter().for_each(|comm| drop(comm.bind(py).call_method0(intern!(py, "Revoke"))));
        let ranks: usize = all.call_method0(intern!(py, "Get_size"))?.extract()?;
        let mut why = None;
        for _ in 0..=ranks {
            let left = all.call_method0(intern!(py, "Shrink"))?;
            returns_errors(mpi, &left)?;
            // All have made it before one may revoke it: Open MPI 5.0.11 crashes in a rank that hears of that while it makes
            // it. Who has failed meanwhile shows in what comes next.
            let _ = agree(&left, true);
            match self.seat(mpi, &all, &left) {
                Ok(now) => {
                    *self.lock() = now;
                    return Ok(());
                }
                Err(error) => why = Some(error),
            }
        }
        Err(why.unwrap_or_else(|| PyRuntimeError::new_err("the ranks that are left did not agree")))
    }

    /// The new world, made from what is `left` of `all`.
    fn seat(&self, mpi: &Bound<'_, PyAny>, all: &Bound<'_, PyAny>, left: &Bound<'_, PyAny>) -> PyResult<Now> {
        let py = mpi.py();
        let seats = agreed(left, None, || {
            let group = left.call_method0(intern!(py, "Get_group"))?;
            let living = ranks_in(&group, all)?.into_iter().flatten().collect();
            group.call_method0(intern!(py, "Free"))?;
            let mine: usize = all.call_method0(intern!(py, "Get_rank"))?.extract()?;
            let (members, workers) = {
                let now = self.lock();
                (now.members.clone(), now.workers)
            };
            kill_dead(py, &members, &living, mine);
            let seats = Seats::find(self.places, workers, &living);
            let place = seats.place_of(mine);
            Ok((seats, place))
        })?;
        let (seats, place) = seats;
        let missing: Vec<usize> = (0..seats.workers.len()).filter(|worker| seats.workers[*worker].is_none()).collect();
        let mut came = left.clone();
        if !missing.is_empty() {
            self.free_at_exit(py)?;
            let bridge = made(mpi, left, || spawn(mpi, left, missing.len()))?;
            self.keep(&bridge);
            came = made(mpi, left, || bridge.call_method1(intern!(py, "Merge"), (false,)))?;
            self.keep(&came);
        }
        let places: Vec<usize> = [seats.workers.len()].into_iter().chain(missing).collect();
        self.arrange(mpi, &came, place, places, seats.lost)
    }

    /// Puts all that came into order. `places`: how many work, then those that processes take which were started; what
    /// these give counts for nothing. Collective.
    fn arrange(
        &self,
        mpi: &Bound<'_, PyAny>,
        came: &Bound<'_, PyAny>,
        place: Option<usize>,
        mut places: Vec<usize>,
        lost: Vec<usize>,
    ) -> PyResult<Now> {
        let py = mpi.py();
        let all = made(mpi, came, || {
            if places.len() > 1 {
                places = told(mpi, came, &places)?;
            }
            let size: usize = came.call_method0(intern!(py, "Get_size"))?.extract()?;
            let rank: usize = came.call_method0(intern!(py, "Get_rank"))?.extract()?;
            // Those that were started come last.
            let started = || places.get(rank + places.len() - size).copied();
            let key = place.or_else(started).unwrap_or(0);
            came.call_method1(intern!(py, "Split"), (0, key))
        })?;
        self.keep(&all);
        let workers = places[0];
        let members = agreed(&all, None, || members(mpi, &all))?;
        let of_workers = || {
            let rank: usize = all.call_method0(intern!(py, "Get_rank"))?.extract()?;
            let colour = if rank < workers { 0 } else { mpi.getattr(intern!(py, "UNDEFINED"))?.extract()? };
            all.call_method1(intern!(py, "Split"), (colour, rank))
        };
        let mut comms = [made(mpi, &all, of_workers)?, made(mpi, &all, of_workers)?].into_iter().map(|comm| {
            let works = comm.is_truthy()?;
            works.then(|| self.keep(&comm));
            PyResult::Ok(works.then(|| comm.unbind()))
        });
        let mut comm = || comms.next().transpose().map(Option::flatten);
        let (group, program) = (comm()?, comm()?);
        Ok(Now {
            all: all.unbind(),
            workers,
            members: Arc::new(members),
            group,
            program,
            adopted: Vec::new(),
            lost: Arc::new(lost),
        })
    }

    /// The first world, of the ranks of `all`, which is its own: the last `spares` wait. Collective.
    pub(crate) fn begin(
        mpi: &Bound<'_, PyAny>,
        all: &Bound<'_, PyAny>,
        places: Places,
        spares: usize,
    ) -> PyResult<World> {
        let py = mpi.py();
        let (size, rank): (usize, usize) = (
            all.call_method0(intern!(py, "Get_size"))?.extract()?,
            all.call_method0(intern!(py, "Get_rank"))?.extract()?,
        );
        let world = World::bare(places, all, size - spares);
        match world.arrange(mpi, all, Some(rank), vec![size - spares], Vec::new()) {
            Ok(now) => *world.lock() = now,
            // On all ranks.
            Err(_) => world.regroup(mpi)?,
        }
        Ok(world)
    }

    /// The world of a job that has started this process to take a place in it, if one has. Collective among its ranks.
    /// `NotNeeded`: a rank has failed meanwhile, and they begin again.
    pub(crate) fn join(mpi: &Bound<'_, PyAny>, places: Places) -> PyResult<Option<World>> {
        let py = mpi.py();
        let bridge = mpi.getattr(intern!(py, "Comm"))?.call_method0(intern!(py, "Get_parent"))?;
        if env::var_os(REPLACES).is_none() || !bridge.is_truthy()? {
            return Ok(None);
        }
        // What this process starts, replaces nobody; nor does what it opens later.
        py.import(intern!(py, "os"))?.getattr(intern!(py, "environ"))?.call_method1(intern!(py, "pop"), (REPLACES,))?;
        let world = World::bare(places, &bridge, 0);
        world.keep(&bridge);
        world.free_at_exit(py)?;
        let started: usize =
            mpi.getattr(intern!(py, "COMM_WORLD"))?.call_method0(intern!(py, "Get_size"))?.extract()?;
        let joined = || -> PyResult<Now> {
            returns_errors(mpi, &bridge)?;
            let came = bridge.call_method1(intern!(py, "Merge"), (true,))?;
            returns_errors(mpi, &came)?;
            world.keep(&came);
            world.arrange(mpi, &came, None, vec![0; started + 1], Vec::new())
        };
        let now = joined().map_err(|_| raise(py, &Error::NotNeeded))?;
        *world.lock() = now;
        Ok(Some(world))
    }
}

impl Seats {
    /// `living`: those of the old world that have not failed.
    fn find(places: Places, workers: usize, living: &BTreeSet<usize>) -> Seats {
        let mut spares = living.range(workers..).copied();
        let mut lost = Vec::new();
        let mut seats = Vec::new();
        for worker in 0..workers {
            let seat = living.contains(&worker).then_some(worker);
            if seat.is_none() {
                lost.push(worker);
            }
            match seat.or_else(|| spares.next()) {
                None if places == Places::Dropped => {}
                seat => seats.push(seat),
            }
        }
        Seats { workers: seats, spares: spares.collect(), lost }
    }

    fn place_of(&self, rank: usize) -> Option<usize> {
        let spare = || self.spares.iter().position(|spare| *spare == rank).map(|place| self.workers.len() + place);
        self.workers.iter().position(|seat| *seat == Some(rank)).or_else(spare)
    }
}

/// What `make` gives, if each rank of `parent` has it. Collective.
fn agreed<T>(parent: &Bound<'_, PyAny>, revoked: Option<fn(&T)>, make: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let made = make();
    if made.is_err() {
        // The others may still be in it.
        parent.call_method0(intern!(parent.py(), "Revoke"))?;
    }
    if agree(parent, made.is_ok())? {
        return made;
    }
    if let (Ok(made), Some(revoke)) = (&made, revoked) {
        revoke(made);
    }
    Err(made.err().unwrap_or_else(|| PyRuntimeError::new_err("another rank could not go on")))
}

/// A communicator that each rank of `parent` has. Collective.
fn made<'py>(
    mpi: &Bound<'py, PyAny>,
    parent: &Bound<'py, PyAny>,
    make: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let returning = || {
        let comm = make()?;
        returns_errors(mpi, &comm)?;
        Ok(comm)
    };
    // Those that were started wait in it for the others.
    agreed(parent, Some(|comm: &Bound<'py, PyAny>| drop(comm.call_method0(intern!(comm.py(), "Revoke")))), returning)
}

/// Whether all ranks that have not failed say so; an error if one has failed meanwhile, the same on all.
fn agree(comm: &Bound<'_, PyAny>, flag: bool) -> PyResult<bool> {
    let py = comm.py();
    match comm.call_method1(intern!(py, "Agree"), (i32::from(flag),)) {
        Ok(all) => all.is_truthy(),
        Err(_) => Ok(false),
    }
}

fn returns_errors(mpi: &Bound<'_, PyAny>, comm: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = mpi.py();
    if comm.is_truthy()? {
        comm.call_method1(intern!(py, "Set_errhandler"), (mpi.getattr(intern!(py, "ERRORS_RETURN"))?,))?;
    }
    Ok(())
}

/// Starts processes of this program, with its arguments, where it is now. Collective.
fn spawn<'py>(mpi: &Bound<'py, PyAny>, comm: &Bound<'py, PyAny>, count: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = mpi.py();
    let words = fs::read("/proc/self/cmdline")?;
    let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|byte| *byte == 0).skip(1);
    let arguments = PyList::new(py, [format!("{REPLACES}=1")])?;
    arguments.append(py.import(intern!(py, "sys"))?.getattr(intern!(py, "executable"))?)?;
    words.map(|word| OsString::from_vec(word.to_vec())).try_for_each(|word| arguments.append(word))?;
    let info = PyDict::new(py);
    info.set_item("wdir", py.import(intern!(py, "os"))?.call_method0(intern!(py, "getcwd"))?)?;
    let info = mpi.getattr(intern!(py, "Info"))?.call_method1(intern!(py, "Create"), (info,))?;
    let spawned = comm.call_method1(intern!(py, "Spawn"), ("env", arguments, count, &info, 0));
    info.call_method0(intern!(py, "Free"))?;
    spawned
}

/// What rank 0 gives, on all. Collective.
fn told(mpi: &Bound<'_, PyAny>, comm: &Bound<'_, PyAny>, numbers: &[usize]) -> PyResult<Vec<usize>> {
    let py = mpi.py();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let shared = PyByteArray::new(py, &bytes);
    comm.call_method1(intern!(py, "Bcast"), ([shared.as_any(), &mpi.getattr(intern!(py, "BYTE"))?], 0))?;
    let bytes = shared.to_vec();
    Ok(bytes.chunks_exact(size_of::<usize>()).map(|b| usize::from_ne_bytes(b.try_into().unwrap_or_default())).collect())
}

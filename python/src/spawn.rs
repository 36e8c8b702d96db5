//! Newly started processes take the empty places. The first rank of the world starts them, and sends them the port at
//! which they meet the world. Like `mainstay_mpi_spawn` in C.
//!
//! Invariant: whichever rank fails meanwhile, no rank waits forever. One rank alone starts processes, which takes
//! seconds. The world and the new processes meet once all have come as far, which is short. Both are watched.

use crate::{
    regroup::{all_agree, made, returns_errors},
    world::{Places, REPLACES, World},
};
use mainstay_engine::{
    group::{Start, Watch, successor},
    kernel_bytes,
};
use pyo3::{
    exceptions::{PyRuntimeError, PyTimeoutError},
    intern,
    prelude::*,
    types::{PyByteArray, PyDict, PyList},
};
use std::{
    env,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    process,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

const LAUNCHING: &str = "starting processes in the places of others";
/// A start takes a second or two, and longer if the program is on a slow file system.
const LAUNCHING_S_MAX: u32 = 120;
const MEETING: &str = "joining ranks with those that were started in the places of others";
const MEETING_S_MAX: u32 = 60;
/// How long a process waits for the port, which is sent when all have come.
const PORT_MAX: Duration = Duration::from_secs(LAUNCHING_S_MAX as u64);
/// The message by which a started process reports that it has reached its opening.
const HAS_COME: i32 = 1;
const NAP: Duration = Duration::from_micros(500);

impl World {
    /// `all` and `count` new processes, which come last. Collective among `all`.
    pub(crate) fn spawn<'py>(
        &self,
        mpi: &Bound<'py, PyAny>,
        all: &Bound<'py, PyAny>,
        count: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = mpi.py();
        self.has_launched.store(true, Ordering::Relaxed);
        let is_first = all.call_method0(intern!(py, "Get_rank"))?.extract::<usize>()? == 0;
        // With a broken mpiexec, MPI waits forever in it, and would on every rank that tried next.
        let watch = Watch::begin(LAUNCHING_S_MAX, LAUNCHING);
        let launched = is_first.then(|| launch(mpi, count, &self.mark)).transpose();
        // In Open MPI 5.0.11, a rank that fails while the two sides meet can leave the others waiting forever. So no
        // rank begins before all have come.
        let are_launched = all_agree(mpi, all, launched.is_ok())?;
        drop(watch);
        if !are_launched {
            let launched = launched?;
            launched.iter().for_each(|(started, _)| drop(started.call_method0(intern!(py, "Free"))));
            return Err(PyRuntimeError::new_err("a rank could not start processes, or has failed meanwhile"));
        }
        let launched = launched?;
        let meet = || {
            let _watch = Watch::begin(MEETING_S_MAX, MEETING);
            if let Some((started, port)) = &launched {
                (0..count).for_each(|rank| drop(tell_port(mpi, started, rank, port)));
            }
            // The first rank's port counts.
            let port = launched.as_ref().map_or("", |(_, port)| port);
            let between = all.call_method1(intern!(py, "Accept"), (port, mpi.getattr(intern!(py, "INFO_NULL"))?, 0))?;
            merged(mpi, &between, false)
        };
        let world = made(mpi, all, meet);
        if let Some((started, port)) = &launched {
            drop(mpi.call_method1(intern!(py, "Close_port"), (port,)));
            drop(started.call_method0(intern!(py, "Free")));
        }
        let world = world?;
        self.keep(&world);
        Ok(world)
    }

    /// The world of a job that has started this process to take a place in it, if one has. Collective among its
    /// ranks.
    pub(crate) fn join(mpi: &Bound<'_, PyAny>, places: Places) -> PyResult<Option<World>> {
        let py = mpi.py();
        let parent = mpi.getattr(intern!(py, "Comm"))?.call_method0(intern!(py, "Get_parent"))?;
        let Some(mark) = env::var(REPLACES).ok().filter(|_| parent.is_truthy().unwrap_or(false)) else {
            return Ok(None);
        };
        // Processes that this process starts replace none, and neither do its later openings.
        py.import(intern!(py, "os"))?.getattr(intern!(py, "environ"))?.call_method1(intern!(py, "pop"), (REPLACES,))?;
        let joined = || -> PyResult<World> {
            returns_errors(mpi, &parent)?;
            let all = meet_by(mpi, &heard_port(mpi, &parent)?)?;
            let world = World::bare(places, &all, format!("{REPLACES}={mark}"));
            world.has_lost.store(true, Ordering::Relaxed);
            world.has_launched.store(true, Ordering::Relaxed);
            world.keep(&parent);
            world.keep(&all);
            world.free_at_exit(py)?;
            world.begin(mpi, &all, Vec::new(), 0, Vec::new())?;
            Ok(world)
        };
        match joined() {
            Ok(world) => Ok(Some(world)),
            // The other ranks go on without this one. Any other way of ending could hinder them.
            Err(error) => {
                let (os, signal) = (py.import(intern!(py, "os"))?, py.import(intern!(py, "signal"))?);
                os.call_method1(intern!(py, "kill"), (process::id(), signal.getattr(intern!(py, "SIGKILL"))?))?;
                Err(error)
            }
        }
    }
}

/// Starts processes of this program, with its arguments, in its working directory. Returns the other side of them,
/// and the port at which they meet the world.
fn launch<'py>(mpi: &Bound<'py, PyAny>, count: usize, mark: &str) -> PyResult<(Bound<'py, PyAny>, String)> {
    let py = mpi.py();
    let words = kernel_bytes("/proc/self/cmdline")?;
    let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|byte| *byte == 0).skip(1);
    let executable: OsString = py.import(intern!(py, "sys"))?.getattr(intern!(py, "executable"))?.extract()?;
    let command = [executable].into_iter().chain(words.map(|word| OsString::from_vec(word.to_vec())));
    let start = Start::begin();
    let mut words = start.words(successor(command)).into_iter();
    let (program, arguments) = (words.next().unwrap_or_default(), PyList::new(py, words)?);
    let info = PyDict::new(py);
    info.set_item("map_by", ":OVERSUBSCRIBE")?;
    info.set_item("wdir", py.import(intern!(py, "os"))?.call_method0(intern!(py, "getcwd"))?)?;
    info.set_item("PMIX_ENVAR", mark)?;
    let info = mpi.getattr(intern!(py, "Info"))?.call_method1(intern!(py, "Create"), (info,))?;
    let own = mpi.getattr(intern!(py, "COMM_SELF"))?;
    let launched = hushed(mpi, &own, || {
        let started = own.call_method1(intern!(py, "Spawn"), (program, arguments, count, &info, 0))?;
        start.is_through();
        returns_errors(mpi, &started)?;
        if let Err(error) = await_started(mpi, &started, count, &start) {
            started.call_method0(intern!(py, "Free"))?;
            return Err(error);
        }
        match mpi.call_method0(intern!(py, "Open_port")).and_then(|port| port.extract()) {
            Ok(port) => Ok((started, port)),
            Err(error) => {
                started.call_method0(intern!(py, "Free"))?;
                Err(error)
            }
        }
    });
    info.call_method0(intern!(py, "Free"))?;
    launched
}

/// Waits until all started processes have reached their opening; an error if one of them ends before. The world waits
/// for this rank outside of MPI's joint operations: in Open MPI 5.0.11 no rank returns from those.
fn await_started(mpi: &Bound<'_, PyAny>, started: &Bound<'_, PyAny>, count: usize, start: &Start) -> PyResult<()> {
    let py = mpi.py();
    for rank in 0..count {
        let word = PyByteArray::new(py, &[0]);
        let into = [word.as_any(), &mpi.getattr(intern!(py, "BYTE"))?].map(Bound::clone);
        let request = started.call_method1(intern!(py, "Irecv"), (into, rank, HAS_COME))?;
        while !request.call_method0(intern!(py, "Test"))?.is_truthy()? {
            if start.has_lost() {
                // The lent memory stays MPI's.
                std::mem::forget((word, request));
                return Err(PyRuntimeError::new_err(
                    "a process that was started has ended before it opened its session",
                ));
            }
            py.detach(|| thread::sleep(NAP));
        }
    }
    Ok(())
}

/// Sends the port to a started process. A failed one does not need it.
fn tell_port(mpi: &Bound<'_, PyAny>, started: &Bound<'_, PyAny>, rank: usize, port: &str) -> PyResult<()> {
    let py = mpi.py();
    let mut text = port.as_bytes().to_vec();
    text.resize(mpi.getattr(intern!(py, "MAX_PORT_NAME"))?.extract()?, 0);
    let text = [PyByteArray::new(py, &text).into_any(), mpi.getattr(intern!(py, "CHAR"))?];
    started.call_method1(intern!(py, "Send"), (text, rank, 0)).map(drop)
}

fn heard_port(mpi: &Bound<'_, PyAny>, parent: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = mpi.py();
    let text = PyByteArray::new_with(py, mpi.getattr(intern!(py, "MAX_PORT_NAME"))?.extract()?, |_| Ok(()))?;
    let into = [text.as_any(), &mpi.getattr(intern!(py, "CHAR"))?].map(Bound::clone);
    let word = [PyByteArray::new(py, &[0]).as_any(), &mpi.getattr(intern!(py, "BYTE"))?].map(Bound::clone);
    parent.call_method1(intern!(py, "Send"), (word, 0, HAS_COME))?;
    let request = parent.call_method1(intern!(py, "Irecv"), (into, 0, 0))?;
    let since = Instant::now();
    while !request.call_method0(intern!(py, "Test"))?.is_truthy()? {
        if since.elapsed() > PORT_MAX {
            return Err(PyTimeoutError::new_err("the rank that started this process has not sent its port"));
        }
        py.detach(|| thread::sleep(NAP));
    }
    let text = text.to_vec();
    Ok(String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned())
}

/// Connects this process with the world that waits at `port`.
fn meet_by<'py>(mpi: &Bound<'py, PyAny>, port: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = mpi.py();
    let _watch = Watch::begin(MEETING_S_MAX, MEETING);
    let started = mpi.getattr(intern!(py, "COMM_WORLD"))?;
    hushed(mpi, &started, || {
        let between =
            started.call_method1(intern!(py, "Connect"), (port, mpi.getattr(intern!(py, "INFO_NULL"))?, 0))?;
        merged(mpi, &between, true)
    })
}

/// One communicator from the two sides of `between`, which is freed.
fn merged<'py>(mpi: &Bound<'py, PyAny>, between: &Bound<'py, PyAny>, is_new: bool) -> PyResult<Bound<'py, PyAny>> {
    let py = mpi.py();
    returns_errors(mpi, between)?;
    let all = between.call_method1(intern!(py, "Merge"), (is_new,));
    between.call_method0(intern!(py, "Free"))?;
    let all = all?;
    returns_errors(mpi, &all)?;
    Ok(all)
}

/// The result of `call`, during which MPI returns errors in a communicator of the program.
fn hushed<T>(mpi: &Bound<'_, PyAny>, comm: &Bound<'_, PyAny>, call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let py = mpi.py();
    let theirs = comm.call_method0(intern!(py, "Get_errhandler"))?;
    returns_errors(mpi, comm)?;
    let called = call();
    comm.call_method1(intern!(py, "Set_errhandler"), (&theirs,))?;
    theirs.call_method0(intern!(py, "Free"))?;
    called
}

//! The ranks of a job, on an mpi4py communicator.
//!
//! This calls only mpi4py's uppercase methods, directly: no Python code runs inside a collective, nothing is pickled,
//! and a Ctrl-C waits until the engine's call has returned. A program that has a communicator has imported mpi4py;
//! this file never does.

use crate::{
    member::Member,
    mpi::{is_over, may_be_eager, processors, survives},
    world::{World, failed},
};
use mainstay_engine::{
    Error, Result,
    group::{Divided, Group, Incoming, Message, Outgoing, Tested, broadcast_sized, gather_padded},
};
use pyo3::{exceptions::PyValueError, intern, prelude::*, types::PyByteArray};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    mem::{forget, take},
    ops::RangeInclusive,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long a rank looks for others without sleep.
const INSTANT: Duration = Duration::from_micros(50);
/// How a rank gives MPI time to learn of failures, like `mainstay_mpi_look` in C.
const LOOK_CALLS: u32 = 8;
const LOOKS_SHARE: u32 = 500;
const SLICE: Duration = Duration::from_micros(500);
const LOOKS_APART: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(125);

pub(crate) struct MpiGroup {
    /// The module `mpi4py.MPI`.
    mpi: Py<PyAny>,
    /// This session's own.
    comm: Py<PyAny>,
    rank: usize,
    size: usize,
    ranks_here: usize,
    pause_max: Duration,
    /// Whether MPI may wait in its own way, and whether it does.
    may_be_eager: bool,
    is_eager: Cell<bool>,
    world: Arc<World>,
    /// Messages in progress: mpi4py's request, and the memory lent to it.
    started: RefCell<BTreeMap<Message, (Py<PyAny>, Lent)>>,
    /// When MPI next gets time to learn of failures.
    looks_at: Cell<Option<Instant>>,
}

enum Lent {
    /// Only kept.
    Read(#[expect(dead_code)] Outgoing),
    Filled(Incoming, usize),
}

/// The tag of messages.
const STARTED: i32 = 1;

impl MpiGroup {
    /// The working ranks of `world`.
    pub(crate) fn of(mpi: &Bound<'_, PyAny>, world: &Arc<World>) -> PyResult<MpiGroup> {
        let py = mpi.py();
        let (comm, workers, members) = {
            let now = world.lock();
            let comm = now.group.as_ref().map(|comm| comm.clone_ref(py));
            (comm.ok_or_else(|| PyValueError::new_err("a spare works"))?, now.workers, now.members.clone())
        };
        let rank: usize = comm.call_method0(py, intern!(py, "Get_rank"))?.extract(py)?;
        let ranks_here = ranks_beside(&members, rank);
        Ok(MpiGroup {
            mpi: mpi.clone().unbind(),
            comm,
            rank,
            size: workers,
            ranks_here,
            pause_max: pause_max(py, ranks_here)?,
            may_be_eager: may_be_eager(mpi, ranks_here)?,
            is_eager: Cell::default(),
            world: world.clone(),
            started: RefCell::default(),
            looks_at: Cell::default(),
        })
    }

    /// Calls MPI with the interpreter held; a session used too late gets an error.
    fn call<T>(
        &self,
        doing: &str,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T> {
        let failed = |why: String| Error::GroupFailed { what: format!("{doing}: {why}") };
        Python::try_attach(|py| {
            let (mpi, comm) = (self.mpi.bind(py), self.comm.bind(py));
            if is_over(mpi) {
                return Err(failed("MPI was finalized; close sessions before".to_owned()));
            }
            call(py, mpi, comm).map_err(|error| failed(error.value(py).to_string()))
        })
        .unwrap_or_else(|| Err(failed("the interpreter is ending; close sessions before".to_owned())))
    }

    fn gather_equal(&self, mine: &[u8]) -> Result<Vec<u8>> {
        self.call("all-gather", |py, mpi, comm| {
            let byte = mpi.getattr(intern!(py, "BYTE"))?;
            let all = PyByteArray::new_with(py, mine.len() * self.size, |_| Ok(()))?;
            let mine = PyByteArray::new(py, mine);
            comm.call_method1(intern!(py, "Allgather"), ([mine.as_any(), &byte], [all.as_any(), &byte]))
                .inspect_err(|_| leave_to_mpi(&all))?;
            Ok(all.to_vec())
        })
    }

    fn wait_asleep(&self, request: &Bound<'_, PyAny>, status: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        wait_asleep(request, status, self.pause_max)
    }

    fn broadcast_equal(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        self.call("broadcast", |py, mpi, comm| {
            let byte = mpi.getattr(intern!(py, "BYTE"))?;
            let shared = PyByteArray::new(py, bytes);
            comm.call_method1(intern!(py, "Bcast"), ([shared.as_any(), &byte], root))
                .inspect_err(|_| leave_to_mpi(&shared))?;
            bytes.copy_from_slice(&shared.to_vec());
            Ok(())
        })
    }
}

/// Open MPI may still receive data that others sent before a rank failed.
fn leave_to_mpi(memory: &Bound<'_, PyByteArray>) {
    std::mem::forget(memory.clone().unbind());
}

impl Group for MpiGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn ranks_here(&self) -> usize {
        self.ranks_here
    }

    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        self.call("all-reduce", |py, mpi, comm| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            let shared = PyByteArray::new(py, &bytes);
            let (number, maximum) = (mpi.getattr(intern!(py, "UINT64_T"))?, mpi.getattr(intern!(py, "MAX"))?);
            let given = (mpi.getattr(intern!(py, "IN_PLACE"))?, [shared.as_any(), &number], maximum);
            if self.is_eager.get() {
                comm.call_method1(intern!(py, "Allreduce"), given)?;
            } else {
                let request = comm.call_method1(intern!(py, "Iallreduce"), given)?;
                self.wait_asleep(&request, None)?;
            }
            for (value, bytes) in values.iter_mut().zip(shared.to_vec().chunks_exact(8)) {
                *value = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            }
            Ok(())
        })
    }

    fn can_wait_eagerly(&self) -> bool {
        self.may_be_eager
    }

    fn wait_eagerly(&self, eagerly: bool) {
        self.is_eager.set(eagerly);
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        gather_padded(mine, |mine| self.gather_equal(mine))
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        broadcast_sized(bytes, |bytes| self.broadcast_equal(root, bytes))
    }

    fn start_send(&self, to: usize, bytes: Outgoing) -> Result<Message> {
        let data = (*bytes).as_ref();
        let request = self.start("Isend", (data.as_ptr().expose_provenance(), data.len()), to)?;
        Ok(self.lend(request, Lent::Read(bytes)))
    }

    fn start_receive(&self, from: usize, mut into: Incoming) -> Result<Message> {
        let data = (*into).as_mut();
        let bytes = data.len();
        let request = self.start("Irecv", (data.as_mut_ptr().expose_provenance(), bytes), from)?;
        Ok(self.lend(request, Lent::Filled(into, bytes)))
    }

    fn test(&self, message: Message) -> Result<Tested> {
        let mut started = self.started.borrow_mut();
        let Some((request, _)) = started.get(&message) else {
            return Err(Error::Internal { what: format!("{message:?} is not under way in this group") });
        };
        let tested = self.call("a message", |py, mpi, _| {
            let status = mpi.call_method0(intern!(py, "Status"))?;
            if !request.bind(py).call_method1(intern!(py, "Test"), (&status,))?.is_truthy()? {
                return Ok(None);
            }
            status.call_method1(intern!(py, "Get_count"), (mpi.getattr(intern!(py, "BYTE"))?,))?.extract().map(Some)
        });
        let count: usize = match tested {
            Ok(None) => return Ok(Tested::UnderWay),
            Ok(Some(count)) => count,
            Err(error) => {
                // The call may not have reached MPI, which may still fill the memory.
                std::mem::forget(started.remove(&message));
                return Err(error);
            }
        };
        match started.remove(&message) {
            Some((_, Lent::Filled(_, bytes))) if bytes != count => {
                Err(Error::GroupFailed { what: format!("a message: {count} bytes instead of {bytes}") })
            }
            Some((_, Lent::Filled(into, _))) => Ok(Tested::Received(into)),
            _ => Ok(Tested::Sent),
        }
    }

    fn failed(&self) -> Result<Vec<usize>> {
        self.check_survives("tell who has failed")?;
        self.call("asking for failed ranks", |py, mpi, comm| {
            let now = Instant::now();
            let late = self.looks_at.get().map_or(Some(Duration::MAX), |at| now.checked_duration_since(at));
            if let Some(late) = late {
                // MPI learns of failures only inside its other calls.
                let comm_self = mpi.getattr(intern!(py, "COMM_SELF"))?;
                for call in 0..LOOK_CALLS {
                    if now.elapsed() >= SLICE && call * *LOOKS_APART.end() > late {
                        break;
                    }
                    comm_self.call_method0(intern!(py, "Iprobe"))?;
                }
                let apart = (LOOKS_SHARE * now.elapsed()).clamp(*LOOKS_APART.start(), *LOOKS_APART.end());
                self.looks_at.set(Some(now + apart));
            }
            Ok(failed(comm)?.into_iter().collect())
        })
    }

    /// Like `mainstay_mpi_shrink` in C.
    fn shrink(&self, divided: Divided) -> Result<Box<dyn Group>> {
        self.check_survives("go on without those that have failed")?;
        self.call("going on without the ranks that have failed", |_, mpi, _| {
            self.world.regroup(mpi, divided)?;
            Ok(Box::new(Self::of(mpi, &self.world)?) as Box<dyn Group>)
        })
    }
}

impl MpiGroup {
    /// Starts `Isend` or `Irecv` with memory that mpi4py finds by its address and length.
    fn start(&self, how: &str, memory: (usize, usize), peer: usize) -> Result<Py<PyAny>> {
        self.call(how, |py, mpi, comm| {
            let memory = mpi.getattr(intern!(py, "memory"))?.call_method1(intern!(py, "fromaddress"), memory)?;
            let given = ([&memory, &mpi.getattr(intern!(py, "BYTE"))?], peer, STARTED);
            comm.call_method1(how, given).map(Bound::unbind)
        })
    }

    /// Keeps the memory lent to a message while the message is in progress.
    fn lend(&self, request: Py<PyAny>, lent: Lent) -> Message {
        let message = Message::new();
        self.started.borrow_mut().insert(message, (request, lent));
        message
    }

    fn check_survives(&self, what: &str) -> Result<()> {
        let survives = self.call("asking for the MPI's name", |_, mpi, _| survives(mpi))?;
        survives.then_some(()).ok_or_else(|| Error::argument("group", format!("its ranks cannot {what}: {ONLY}")))
    }
}

/// The MPI that can go on without ranks.
const ONLY: &str = "only Open MPI can, started with `mpiexec --with-ft ulfm`; where a rank has failed, start the \
                               job again";

/// Waits for the other ranks, like `mainstay_mpi_await` in C. They may still be writing, and MPI's own waiting would
/// take the processors away from them. Other threads have the interpreter meanwhile.
pub(crate) fn wait_asleep(
    request: &Bound<'_, PyAny>,
    status: Option<&Bound<'_, PyAny>>,
    pause_max: Duration,
) -> PyResult<()> {
    wait_asleep_for(request, status, pause_max, None).map(|_| ())
}

/// The same, for `limit` at most; returns whether the request is done.
pub(crate) fn wait_asleep_for(
    request: &Bound<'_, PyAny>,
    status: Option<&Bound<'_, PyAny>>,
    pause_max: Duration,
    limit: Option<Duration>,
) -> PyResult<bool> {
    let (py, since) = (request.py(), Instant::now());
    let is_done = || request.call_method1(intern!(py, "Test"), (status,))?.is_truthy();
    // A failed request may still be in progress, and has memory that must stay.
    while !is_done().inspect_err(|_| std::mem::forget(request.clone()))? {
        let waited = since.elapsed();
        if limit.is_some_and(|limit| waited >= limit) {
            return Ok(false);
        }
        let pause = if waited > INSTANT { (waited / 16).min(pause_max) } else { Duration::ZERO };
        py.detach(|| thread::sleep(pause));
    }
    Ok(true)
}

/// The number of workers that share processors with the worker of this rank, including itself.
fn ranks_beside(members: &[Member], rank: usize) -> usize {
    let mine = members.iter().find(|member| member.place == Some(rank));
    let shares = |member: &&Member| mine.is_some_and(|mine| mine.shares_processors_with(member));
    members.iter().filter(|member| member.place.is_some()).filter(shares).count().max(1)
}

/// The longest sleep of the worker of this rank between two looks for slower ranks.
pub(crate) fn pause_of(py: Python<'_>, world: &World, rank: usize) -> PyResult<Duration> {
    let members = world.lock().members.clone();
    pause_max(py, ranks_beside(&members, rank))
}

/// The same, for a given number of ranks that share its processors; like `mainstay_mpi_pause_max` in C.
fn pause_max(py: Python<'_>, ranks_here: usize) -> PyResult<Duration> {
    let shared = Duration::from_micros((100 * ranks_here / processors(py)?) as u64);
    Ok(shared.max(Duration::from_micros(500)))
}

impl Drop for MpiGroup {
    fn drop(&mut self) {
        // Messages in progress may still read or fill their memory: do not free it.
        forget(take(self.started.get_mut()));
        // Freeing is collective: if only one rank drops its session, the communicator stays with MPI.
        if self.world.ends.load(Ordering::Relaxed) {
            let _ = self.call("free", |_, _, comm| comm.call_method0("Free").map(drop));
        }
    }
}

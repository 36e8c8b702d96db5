//! Makes a world anew without the failed ranks.
//!
//! Invariant: all participants go through the same steps, whichever rank fails meanwhile. After each new communicator
//! they agree, on its parent, whether each of them has it. If not, all start again, without the ranks that have
//! failed by then. No line of Python runs in between.

use crate::{
    agreement::{common, heard},
    ears::Ears,
    member::{Member, end_dead, introduce},
    mpi::survives,
    world::{Now, Places, STARTS_MAX, World, ranks_of},
};
use mainstay_engine::group::{Divided, Watch};
use pyo3::{exceptions::PyRuntimeError, intern, prelude::*, types::PyByteArray};
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

/// Flags of ranks that know of no state, or of no state that is divided into boxes.
const NO_STATE: i32 = 1;
const NO_BOXES: i32 = 2;
/// Ending ranks agree on another number: see `finalize`.
const GOES_ON: i32 = 2;
const STARTED_IN_VAIN: &str = "no process could be started in place of a failed one, and no spare is left; the started \
                               process may have ended before it opened its session";
const CLOSED: &str = "other ranks have closed their session, and take no part in the recovery";

const REGROUPING: &str = "making a communicator without the ranks that have failed";
const DIVIDING: &str = "making a communicator of the ranks that work";
/// Time limit for a joint operation of the world, which takes milliseconds once all of it has come.
const REGROUPING_S_MAX: u32 = 60;

impl World {
    /// Collective among all surviving ranks, including spares. All operations in progress in the workers' old
    /// communicators fail, and so do later ones. `divided`: as far as this rank knows.
    pub(crate) fn regroup(&self, mpi: &Bound<'_, PyAny>, divided: Divided) -> PyResult<()> {
        let py = mpi.py();
        self.has_lost.store(true, Ordering::Relaxed);
        let every = self.lock().every(py);
        // A communicator that the program has freed no longer counts.
        every.iter().for_each(|comm| drop(comm.bind(py).call_method0(intern!(py, "Revoke"))));
        self.come(mpi)?;
        let mut why = None;
        let attempts_max = self.lock().members.len() + STARTS_MAX;
        self.starts_in_vain.store(0, Ordering::Relaxed);
        for _ in 0..attempts_max {
            self.leave_out(mpi)?;
            if self.starts_in_vain.load(Ordering::Relaxed) >= STARTS_MAX {
                return Err(PyRuntimeError::new_err(STARTED_IN_VAIN));
            }
            match self.tell(mpi, divided).and_then(|divided| self.fill(mpi, divided)) {
                Ok(()) => return Ok(()),
                Err(error) => why = Some(error),
            }
        }
        Err(why.unwrap_or_else(|| PyRuntimeError::new_err("the ranks that are left did not agree")))
    }

    /// Waits until all have come, because computing ranks may come later; ends deaf ranks. Collective.
    fn come(&self, mpi: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = mpi.py();
        self.call(mpi);
        let (all, members) = {
            let now = self.lock();
            (now.all.clone_ref(py).into_bound(py), now.members.clone())
        };
        let mine: usize = all.call_method0(intern!(py, "Get_rank"))?.extract()?;
        // No rank is ended before all have exchanged their identities.
        let ears = members.get(mine).is_some_and(|member| member.pid() != 0).then(|| Ears::new(&members, mine));
        // The next step leaves out a rank that has failed meanwhile; the votes of the others count all the same.
        let wants = heard(mpi, &all, GOES_ON, ears)?.flags;
        if wants & GOES_ON == 0 {
            return Err(PyRuntimeError::new_err(CLOSED));
        }
        Ok(())
    }

    /// Leaves the failed ranks out of the world. Collective.
    fn leave_out(&self, mpi: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = mpi.py();
        let (all, members) = {
            let now = self.lock();
            (now.all.clone_ref(py).into_bound(py), now.members.clone())
        };
        let group = all.call_method0(intern!(py, "Get_group"))?;
        let mine: usize = all.call_method0(intern!(py, "Get_rank"))?.extract()?;
        // Twice, and each time the old one is freed, to give the world a lower number in Open MPI 5.0.11 than the
        // communicators made from it. Open MPI never makes a communicator out of one with a higher number than the
        // last one with which it failed.
        let left = shrunk(mpi, &shrunk(mpi, &all)?)?;
        self.keep(&left);
        let old = ranks_of(&left, &group)?;
        group.call_method0(intern!(py, "Free"))?;
        end_dead(py, &members, &old.iter().copied().collect(), mine);
        {
            let mut now = self.lock();
            now.all = left.unbind();
            now.members = Arc::new(old.into_iter().filter_map(|rank| members.get(rank).cloned()).collect());
        }
        self.end_late(py);
        Ok(())
    }

    /// How the state is divided, as far as any rank knows. Collective.
    fn tell(&self, mpi: &Bound<'_, PyAny>, mine: Divided) -> PyResult<Divided> {
        let mut lacks = 0;
        if mine == Divided::Unknown {
            lacks |= NO_STATE;
        }
        if mine != Divided::IntoBoxes {
            lacks |= NO_BOXES;
        }
        let all = self.lock().all.clone_ref(mpi.py()).into_bound(mpi.py());
        let common = common(mpi, &all, lacks)?;
        let lacks = common.ok_or_else(|| PyRuntimeError::new_err("ranks failed while the others agreed"))?;
        Ok(match lacks {
            lacks if lacks & NO_BOXES == 0 => Divided::IntoBoxes,
            lacks if lacks & NO_STATE == 0 => Divided::ByRanks,
            _ => Divided::Unknown,
        })
    }

    /// Fills the empty places, and makes the workers' communicators. Collective; an error, on all ranks, leaves the
    /// world as it was.
    fn fill(&self, mpi: &Bound<'_, PyAny>, divided: Divided) -> PyResult<()> {
        let py = mpi.py();
        let (mut all, mut members, mut workers) = {
            let now = self.lock();
            (now.all.clone_ref(py).into_bound(py), now.members.to_vec(), now.workers)
        };
        let lost = empty_places(&members, workers);
        let mut empty = lost.clone();
        for spare in members.iter_mut().filter(|member| member.place.is_none()) {
            spare.place = (!empty.is_empty()).then(|| empty.remove(0));
        }
        if self.places == Places::Dropped && divided != Divided::ByRanks && !empty.is_empty() {
            for place in members.iter_mut().filter_map(|member| member.place.as_mut()) {
                *place -= empty.partition_point(|empty| *empty < *place);
            }
            workers -= empty.len();
        } else if !empty.is_empty() {
            self.free_at_exit(py)?;
            self.starts_in_vain.fetch_add(1, Ordering::Relaxed);
            all = self.spawn(mpi, &all, empty.len())?;
            self.starts_in_vain.store(0, Ordering::Relaxed);
            members.extend(empty.into_iter().map(|place| Member::to_come(Some(place))));
        }
        self.begin(mpi, &all, members, workers, lost)
    }

    /// A world on `all`, in which each process has its place. Values from newly started processes do not count.
    /// Collective.
    pub(crate) fn begin(
        &self,
        mpi: &Bound<'_, PyAny>,
        all: &Bound<'_, PyAny>,
        members: Vec<Member>,
        workers: usize,
        lost: Vec<usize>,
    ) -> PyResult<()> {
        let py = mpi.py();
        let introduced = || {
            let [rank, size] = [intern!(py, "Get_rank"), intern!(py, "Get_size")].map(|get| all.call_method0(get));
            let (rank, size): (usize, usize) = (rank?.extract()?, size?.extract()?);
            // The number of workers, and the place of each process.
            let mut numbers = vec![-1; size + 1];
            numbers[0] = workers as i64;
            numbers[1..].iter_mut().zip(&members).for_each(|(number, member)| *number = member.number());
            let numbers = told(mpi, all, &numbers)?;
            Ok((numbers[0] as usize, rank, introduce(mpi, all, &numbers[1..])?))
        };
        let (workers, rank, members) = agreed(mpi, all, None, introduced)?;
        let place = members.get(rank).and_then(|member| member.place);
        let of_workers = || {
            let undefined = mpi.getattr(intern!(py, "UNDEFINED"))?.extract::<i64>()?;
            let (colour, key) = place.map_or((undefined, 0), |place| (0, place as i64));
            let watch = Watch::begin(REGROUPING_S_MAX, DIVIDING);
            let comm = all.call_method1(intern!(py, "Split"), (colour, key))?;
            drop(watch);
            if place.is_some() {
                self.keep(&comm);
            }
            Ok(comm)
        };
        // Made from the world, and not from each other: see `leave_out`.
        let (group, program) = (made(mpi, all, of_workers)?, made(mpi, all, of_workers)?);
        let works = |comm: Bound<'_, PyAny>| place.map(|_| comm.unbind());
        let mut now = self.lock();
        let adopted = Vec::new();
        *now = Now {
            all: all.clone().unbind(),
            workers,
            members: Arc::new(members),
            group: works(group),
            program: works(program),
            adopted,
            lost: Arc::new(lost),
        };
        Ok(())
    }
}

/// The empty places.
fn empty_places(members: &[Member], workers: usize) -> Vec<usize> {
    let taken: BTreeSet<usize> = members.iter().filter_map(|member| member.place).collect();
    (0..workers).filter(|place| !taken.contains(place)).collect()
}

/// A communicator of the surviving ranks, in place of one that is freed. Collective.
pub(crate) fn shrunk<'py>(mpi: &Bound<'py, PyAny>, comm: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = mpi.py();
    let left = without_failed(comm)?;
    returns_errors(mpi, &left)?;
    // All ranks have made it before one may revoke it: Open MPI 5.0.11 crashes in a rank that learns of a revocation
    // while it makes the communicator. The next call notices a rank that has failed meanwhile.
    all_agree(mpi, &left, true)?;
    comm.call_method0(intern!(py, "Free"))?;
    Ok(left)
}

/// A communicator of the surviving ranks. All of them are there by then. If one were deaf (see `Ears`), the others
/// would wait in it forever. Collective.
pub(crate) fn without_failed<'py>(comm: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _watch = Watch::begin(REGROUPING_S_MAX, REGROUPING);
    comm.call_method0(intern!(comm.py(), "Shrink"))
}

/// The result of `make`, if each rank of `parent` has it. Collective.
fn agreed<T>(
    mpi: &Bound<'_, PyAny>,
    parent: &Bound<'_, PyAny>,
    revoked: Option<fn(&T)>,
    make: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let made = make();
    if made.is_err() && survives(mpi)? {
        // The other ranks may still be in it.
        parent.call_method0(intern!(parent.py(), "Revoke"))?;
    }
    if all_agree(mpi, parent, made.is_ok())? {
        return made;
    }
    if let (Ok(made), Some(revoke)) = (&made, revoked) {
        revoke(made);
    }
    Err(made.err().unwrap_or_else(|| PyRuntimeError::new_err("another rank could not go on")))
}

/// A communicator that each rank of `parent` has. Collective.
pub(crate) fn made<'py>(
    mpi: &Bound<'py, PyAny>,
    parent: &Bound<'py, PyAny>,
    make: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let returning = || {
        let comm = make()?;
        returns_errors(mpi, &comm)?;
        Ok(comm)
    };
    // Newly started processes wait in it for the others.
    agreed(
        mpi,
        parent,
        Some(|comm: &Bound<'py, PyAny>| drop(comm.call_method0(intern!(comm.py(), "Revoke")))),
        returning,
    )
}

/// Whether all ranks of a communicator of the program say so; false if one has failed.
pub(crate) fn agree_in_theirs(comm: &Bound<'_, PyAny>, flag: bool) -> PyResult<bool> {
    // Mainstay's messages could interfere with the program's there: see `common`.
    match comm.call_method1(intern!(comm.py(), "Agree"), (i32::from(flag),)) {
        Ok(all) => all.is_truthy(),
        Err(_) => Ok(false),
    }
}

/// Whether all ranks of a communicator of Mainstay say so; false, on all, if one has failed meanwhile.
pub(crate) fn all_agree(mpi: &Bound<'_, PyAny>, comm: &Bound<'_, PyAny>, flag: bool) -> PyResult<bool> {
    let py = mpi.py();
    if survives(mpi)? {
        return Ok(common(mpi, comm, i32::from(flag))? == Some(1));
    }
    let all = PyByteArray::new(py, &[u8::from(flag)]);
    let lent = [all.as_any(), &mpi.getattr(intern!(py, "UINT8_T"))?].map(Bound::clone);
    comm.call_method1(intern!(py, "Allreduce"), (mpi.getattr("IN_PLACE")?, lent, mpi.getattr("MIN")?))?;
    Ok(all.to_vec() == [1])
}

pub(crate) fn returns_errors(mpi: &Bound<'_, PyAny>, comm: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = mpi.py();
    if comm.is_truthy()? {
        comm.call_method1(intern!(py, "Set_errhandler"), (mpi.getattr(intern!(py, "ERRORS_RETURN"))?,))?;
    }
    Ok(())
}

/// Gives all ranks the numbers of rank 0. Collective.
fn told(mpi: &Bound<'_, PyAny>, comm: &Bound<'_, PyAny>, numbers: &[i64]) -> PyResult<Vec<i64>> {
    let py = mpi.py();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let shared = PyByteArray::new(py, &bytes);
    comm.call_method1(intern!(py, "Bcast"), ([shared.as_any(), &mpi.getattr(intern!(py, "BYTE"))?], 0))?;
    let bytes = shared.to_vec();
    Ok(bytes.chunks_exact(size_of::<i64>()).map(|b| i64::from_ne_bytes(b.try_into().unwrap_or_default())).collect())
}

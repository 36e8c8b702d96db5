//! Transport between objects on different ranks: messages of mpi4py on the program's communicator, which is a new one
//! after each recovery.
//!
//! Invariant: memory that MPI may still fill is not freed.

use crate::{
    group::{pause_of, wait_asleep, wait_asleep_for},
    mpi::is_over,
    world::World,
};
use mainstay_engine::{Error, Result};
use mainstay_objects::{Arriving, Wire, work_for_a_while, worth_waiting_for};
use pyo3::{exceptions::PyValueError, intern, prelude::*, types::PyByteArray};
use std::{
    cell::RefCell,
    mem::{forget, take},
    sync::Arc,
    time::Duration,
};

/// Like MAINSTAY_OBJECTS_TAG in C: every MPI allows a tag as large as this.
const TAG: i32 = 32767;
/// Like MAINSTAY_OBJECTS_PIECE_MAX in C. MPI counts in int: a longer message is sent in pieces, which arrive in
/// order.
const PIECE_MAX: usize = 1 << 30;

pub(crate) struct MpiWire {
    /// The module `mpi4py.MPI`.
    mpi: Py<PyAny>,
    world: Arc<World>,
    known: RefCell<Option<Known>>,
}

/// Facts about the communicator.
struct Known {
    comm: Py<PyAny>,
    rank: usize,
    ranks: usize,
    pause: Duration,
}

impl MpiWire {
    pub(crate) fn new(mpi: Py<PyAny>, world: Arc<World>) -> MpiWire {
        MpiWire { mpi, world, known: RefCell::default() }
    }

    /// Calls MPI on the present communicator, with the longest sleep between two looks for slower ranks.
    fn call<T>(
        &self,
        doing: &str,
        call: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, PyAny>, Duration) -> PyResult<T>,
    ) -> Result<T> {
        let failed =
            |why: String| Error::GroupFailed { what: format!("objects: {doing}: {why}; recover on all ranks") };
        Python::try_attach(|py| {
            let mpi = self.mpi.bind(py);
            if is_over(mpi) {
                return Err(failed("MPI was finalized; close objects before".to_owned()));
            }
            let called = self.look(mpi).and_then(|()| {
                let (comm, pause) = {
                    let known = self.known.borrow();
                    let known = known.as_ref().ok_or_else(|| PyValueError::new_err("there is no communicator"))?;
                    (known.comm.clone_ref(py), known.pause)
                };
                call(mpi, comm.bind(py), pause)
            });
            called.map_err(|error| failed(error.value(py).to_string()))
        })
        .unwrap_or_else(|| Err(failed("the interpreter is ending; close objects before".to_owned())))
    }

    /// Inspects the communicator, if it is a new one.
    fn look(&self, mpi: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = mpi.py();
        let comm = self.world.comm(py).ok_or_else(|| PyValueError::new_err("a spare has no objects"))?;
        if self.known.borrow().as_ref().is_some_and(|known| known.comm.is(&comm)) {
            return Ok(());
        }
        let rank = comm.call_method0(py, intern!(py, "Get_rank"))?.extract(py)?;
        let ranks = comm.call_method0(py, intern!(py, "Get_size"))?.extract(py)?;
        let pause = pause_of(py, &self.world, rank)?;
        *self.known.borrow_mut() = Some(Known { comm, rank, ranks, pause });
        Ok(())
    }

    /// If the ranks are unknown, the next call that needs them fails.
    fn place(&self) -> (usize, usize) {
        let looked = Python::try_attach(|py| self.look(self.mpi.bind(py)).is_ok());
        let known = self.known.borrow();
        known.as_ref().filter(|_| looked == Some(true)).map_or((0, 1), |known| (known.rank, known.ranks))
    }
}

impl Wire for MpiWire {
    fn rank(&self) -> usize {
        self.place().0
    }

    fn ranks(&self) -> usize {
        self.place().1
    }

    fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()> {
        self.call("telling all ranks", |mpi, comm, pause| {
            let py = mpi.py();
            let bytes: Vec<u8> = to.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let (sent, number) = (PyByteArray::new(py, &bytes), mpi.getattr(intern!(py, "UINT64_T"))?);
            let got = PyByteArray::new_with(py, bytes.len(), |_| Ok(()))?;
            let given = ([sent.as_any(), &number], [got.as_any(), &number]);
            wait_asleep(&comm.call_method1(intern!(py, "Ialltoall"), given)?, None, pause)?;
            for (word, bytes) in from.iter_mut().zip(got.to_vec().chunks_exact(8)) {
                *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            }
            Ok(())
        })
    }

    fn exchange(
        &self,
        leaving: &[(usize, &[u8])],
        arriving: &mut Vec<Arriving>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let worth_waiting = worth_waiting_for(arriving);
        let mut coming: Vec<Py<PyAny>> = Vec::with_capacity(arriving.len());
        let done = self.call("messages", |mpi, comm, pause| {
            let py = mpi.py();
            let (memory, byte) = (mpi.getattr(intern!(py, "memory"))?, mpi.getattr(intern!(py, "BYTE"))?);
            let at = |address: usize, bytes: usize| memory.call_method1(intern!(py, "fromaddress"), (address, bytes));
            for Arriving { from, bytes } in arriving.iter_mut() {
                for piece in bytes.chunks_mut(PIECE_MAX) {
                    let room = at(piece.as_mut_ptr().expose_provenance(), piece.len())?;
                    coming.push(comm.call_method1(intern!(py, "Irecv"), ([&room, &byte], *from, TAG))?.unbind());
                }
            }
            // Uses Send, into started receives: Isend of Open MPI 5.0 can crash in a wait when a rank fails.
            for (to, bytes) in leaving {
                for piece in bytes.chunks(PIECE_MAX) {
                    let data = at(piece.as_ptr().expose_provenance(), piece.len())?;
                    comm.call_method1(intern!(py, "Send"), ([&data, &byte], *to, TAG))?;
                }
            }
            let mut under_way = coming.iter();
            let mut next = under_way.next();
            let mut limit = Some(worth_waiting);
            while let Some(request) = next {
                if wait_asleep_for(request.bind(py), None, pause, limit)? {
                    next = under_way.next();
                } else {
                    limit = work_for_a_while(meanwhile).then_some(Duration::ZERO);
                }
            }
            while meanwhile() {}
            Ok(())
        });
        if done.is_err() {
            // Messages in progress may still fill their memory: do not free it.
            forget((coming, take(arriving)));
        }
        done
    }
}

/// The objects of a program without a communicator.
pub(crate) struct Alone;

impl Wire for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()> {
        from.copy_from_slice(to);
        Ok(())
    }

    fn exchange(&self, _: &[(usize, &[u8])], _: &mut Vec<Arriving>, meanwhile: &mut dyn FnMut() -> bool) -> Result<()> {
        while meanwhile() {}
        Ok(())
    }
}

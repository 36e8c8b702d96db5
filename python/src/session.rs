//! Opening, saving, restoring, closing.

use crate::{
    buffer::{Buffer, Flat},
    enter::{Job, enter},
    error::{caused, detached, of_all, raise},
    got::Got,
    memory::Memory,
    mpi::check,
    notes,
    number::{Flag, Text, Whole, Wholes, whole},
    open::{Open, State, or_refuse},
    reader::{Item, Shard},
    record::Record,
    recovered::Recovered,
    restored::Restored,
    settings::{config, path as path_of, shown, text},
    speculation::Speculation,
    stream::{self, Files},
    wire::MpiWire,
};
use mainstay_engine::{Allocated, Error, LevelKind, Session as Engine, space::format::PlaceInWhole};
use pyo3::{
    IntoPyObjectExt, PyTraverseError, PyVisit,
    exceptions::PyBaseException,
    intern,
    prelude::*,
    types::{PyBytes, PyDict, PyType, PyWeakrefReference},
};
use std::{
    collections::HashMap,
    mem::{replace, take},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// One job at work on one space; `open` makes it. It is used by one thread at a time, is closed at the
/// end of a `with` block, and cannot be pickled or used in a forked process.
#[pyclass(frozen, module = "mainstay")]
pub struct Session {
    path: PathBuf,
    rank: AtomicUsize,
    size: AtomicUsize,
    /// `None` without a communicator.
    job: Option<Arc<Job>>,
    pub(crate) state: State,
}

/// Opens the space in the directory `path`, made if it is missing, for the ranks of the mpi4py
/// communicator `comm`, which is duplicated, or for this process alone. Collective.
///
/// Settings that are not given come from the environment (MAINSTAY_KEEP and so on), from mainstay.toml, or
/// are the default; `mainstay config` lists them all. `hints`, a mapping or an MPI.Info, go before the others:
/// striping_factor, striping_unit and cb_nodes as MPI-IO has them, and mainstay_ before the name of a setting;
/// unknown ones are ignored.
#[pyfunction]
#[pyo3(
    signature = (path, comm=None, **settings),
    text_signature = "(path, comm=None, *, keep=None, capture=None, compress=None, track=None, audit=None, predictor=None, infrequent_seconds=None, stagger=None, oracle=None, snapshot_bytes=None, stage=None, pool_bytes=None, chunk_bytes=None, pool_held=None, \
                      small_bytes=None, threshold_bytes=None, buffer_bytes=None, flush_seconds=None, io_threads=None, \
                      aggregators=None, portion_bytes=None, shard_bytes=None, per=None, allocate=None, stripe_count=None, stripe_bytes=None, \
                      pool_directory=None, memory=None, memory_keep=None, memory_copies=None, memory_after=None, disk=None, disk_every=None, \
                      disk_keep=None, disk_copies=None, disk_lost=None, exchange=None, pfs_every=None, start=None, recovery=None, spares=None, every_steps=None, every_seconds=None, mtbf_seconds=None, interval=None, agree_seconds=None, when_busy=None, checkpoint_signal=None, trace=None, tick_seconds=None, hints=None)"
)]
pub fn open(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    comm: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Session> {
    Session::open(py, path, comm, settings)
}

impl Session {
    /// What the objects of a program reach each other by; `None` without a communicator.
    pub(crate) fn wire(&self, py: Python<'_>) -> Option<MpiWire> {
        self.job.as_ref().map(|job| job.wire(py))
    }

    fn open(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        comm: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Session> {
        let given = path_of("path", path).and_then(|path| Ok((path, config(settings)?)));
        if comm.is_some() {
            py.import(intern!(py, "mainstay._uncaught"))?.call_method0(intern!(py, "install"))?;
        }
        let (group, job, path, config) = enter(py, comm, given)?;
        let rank = group.rank();
        let opened = detached(py, || Engine::open(group, &path, config)).map_err(|error| {
            // Spares wait until those that work have left.
            job.iter().for_each(|job| job.leave(py));
            raise(py, &error)
        });
        let engine = of_all(py, rank, true, opened)?;
        let (rank, size) = (engine.rank().into(), engine.size().into());
        let job = job.map(Arc::new);
        let open = Open {
            engine: Some(engine),
            held: HashMap::new(),
            followed: HashMap::new(),
            files: Files::default(),
            steps: None,
            job: job.clone(),
        };
        Ok(Session { path, rank, size, job, state: State::new(open) })
    }
}

#[pymethods]
impl Session {
    /// This process's number among those that work; it changes when others are lost and not replaced.
    #[getter]
    pub(crate) fn rank(&self) -> usize {
        self.rank.load(Ordering::Relaxed)
    }

    /// How many ranks work.
    #[getter]
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// The communicator of the ranks that work, for the program: with recovery one of its own, and a new one after each
    /// recovery; otherwise the one that was given to open(). `None` without one.
    #[getter]
    fn comm(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.job.as_ref()?.world().comm(py)
    }

    /// Names a communicator that the program has made out of `comm`, with Split() or Create_cart(): a recovery revokes it
    /// like `comm` itself, so that no rank waits in it. Local. It is forgotten then.
    fn adopt(&self, comm: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = comm.py();
        check(comm).map_err(|error| raise(py, &error))?;
        if let Some(job) = &self.job {
            job.world().adopt(comm.clone().unbind());
        }
        Ok(())
    }
    /// Has the memory of `buffer` saved and restored under `name`. Local. Any object with the buffer
    /// protocol: in C's order, writable; shape and element type are kept. Of a view with gaps, field[1:-1, 1:-1] of
    /// an array with ghost cells, the elements alone. It is held, and cannot be resized, until it is unprotected or
    /// the session is closed. InvalidArgument, with both names: it has bytes of another region.
    ///
    /// With `global_shape` and `offset` it is a box in a global array, which begins behind `offset` elements along
    /// each side: restore() on any number of ranks fills the boxes from those that were saved.
    ///
    /// A function in place of the buffer, `lambda: self.field`, is called here, at each checkpoint (with begin() there
    /// and at the checkpoint() that ends it) and at each restore(), and gives the buffer of that moment, which is held
    /// no longer than that: for programs that swap their arrays, or make new ones. What it raises, the call raises on
    /// all ranks, as InvalidArgument; a Ctrl-C in it stays one on its own rank.
    ///
    /// `allocate`, beside such a function: restore() calls it with the shape that was saved, if that is another one. It makes
    /// an array of that shape, which the function gives from then on.
    #[pyo3(signature = (name, buffer, global_shape=None, offset=None, *, allocate=None))]
    fn protect(
        &self,
        py: Python<'_>,
        name: Text<'_>,
        buffer: &Bound<'_, PyAny>,
        global_shape: Option<Wholes<u64>>,
        offset: Option<Wholes<u64>>,
        allocate: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        // What is no Unicode is refused with the other odd characters.
        let name = name.to_string_lossy();
        let place = place_of(&name, global_shape, offset);
        if buffer.is_callable() {
            let place = place.map_err(|error| raise(py, &error))?;
            return self.state.follow(&name, buffer, place, allocate);
        }
        if allocate.is_some() {
            let why = "give a function in place of the buffer, which gives the array that was allocated";
            return Err(raise(py, &Error::argument("allocate", why)));
        }
        self.state.local(py, |open| {
            let held = Buffer::hold(&name, buffer)?;
            open.engine()?.protect(held.region(&name, place?)?)?;
            open.held.insert(name.into_owned(), held);
            Ok(())
        })
    }

    /// Has the region that is protected under `name` lie in `buffer` from now on, also if that has another shape; the
    /// one before is let go. Local. Arguments as of protect(); without `global_shape` and `offset` a box stays at its
    /// offset. RegionMissing: no region has this name. One that a function gives moves by itself.
    #[pyo3(name = "move", signature = (name, buffer, global_shape=None, offset=None))]
    fn move_region(
        &self,
        py: Python<'_>,
        name: Text<'_>,
        buffer: &Bound<'_, PyAny>,
        global_shape: Option<Wholes<u64>>,
        offset: Option<Wholes<u64>>,
    ) -> PyResult<()> {
        let name = name.to_string_lossy();
        let before = self.state.local(py, |open| {
            if open.followed.contains_key(&*name) {
                let why = "a function gives its buffer, at each checkpoint and restore; let that give another one";
                return Err(Error::argument(format!("region {name:?}"), why));
            }
            let held = Buffer::hold(&name, buffer)?;
            open.engine()?.move_region(held.region(&name, place_of(&name, global_shape, offset)?)?)?;
            Ok(open.held.insert(name.into_owned(), held))
        })?;
        drop(before);
        Ok(())
    }

    /// A numpy array of zeros, in memory that Mainstay allocates, in pages of 2 MiB where the system has them, protected under
    /// `name`. Local. With capture="snapshot" it is copied under write protection, which costs the program far less than
    /// other memory: meanwhile MPI, and calls such as readinto(), cannot write into it, so say `written_by_system=True` if
    /// they do. With `same_address` it lies at the same address in every run. It stays as long as the array, or until it is
    /// freed.
    #[pyo3(
        signature = (name, shape, dtype=None, *, written_by_system=Flag(false), same_address=Flag(false)),
        text_signature = "($self, name, shape, dtype=None, *, written_by_system=False, same_address=False)"
    )]
    fn empty<'py>(
        &self,
        py: Python<'py>,
        name: Text<'py>,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
        written_by_system: Flag,
        same_address: Flag,
    ) -> PyResult<Bound<'py, PyAny>> {
        let numpy = py.import("numpy")?;
        let given = dtype.map_or_else(|| "f8".into_bound_py_any(py), |dtype| Ok(dtype.clone()))?;
        let dtype = numpy.call_method1("dtype", (given,)).map_err(|error| odd_type(py, &error))?;
        let one = shape.hasattr(intern!(py, "__index__"))?;
        let shape: Vec<usize> =
            if one { vec![shape.extract::<Whole<_>>()?.0] } else { shape.extract::<Wholes<_>>()?.0 };
        let item: usize = dtype.getattr("itemsize")?.extract()?;
        let is_of_objects: bool = dtype.getattr("hasobject")?.extract()?;
        let bytes = shape.iter().try_fold(item, |bytes, side| bytes.checked_mul(*side));
        let how = Allocated { written_by_system: written_by_system.0, same_address: same_address.0 };
        let (memory, bytes) = self.state.local(py, |open| {
            let bytes = bytes.ok_or_else(|| Error::argument("shape", "so many elements have no room"))?;
            if is_of_objects {
                return Err(Error::argument("dtype", "objects of Python are no plain memory; take a type of numbers"));
            }
            Ok((open.engine()?.allocate(&name.to_string_lossy(), bytes as u64, how)?, bytes))
        })?;
        let protect = || {
            let memory = numpy.call_method1("asarray", (Bound::new(py, Memory { memory, bytes })?,))?;
            // Not of the interface's type, which knows no fields, and no types of others than numpy.
            let array = numpy.call_method1("ndarray", (shape, dtype, memory))?;
            self.protect(py, name.clone(), &array, None, None, None)?;
            Ok(array)
        };
        protect().inspect_err(|_| drop(self.free(py, name)))
    }

    /// Unprotects what empty() has allocated under `name`; the memory goes with the last array that lies in it. Local.
    fn free(&self, py: Python<'_>, name: Text<'_>) -> PyResult<()> {
        let held = self.state.local(py, |open| {
            let name = name.to_string_lossy();
            open.engine()?.free(&name)?;
            Ok((open.held.remove(&*name), open.followed.remove(&*name)))
        })?;
        drop(held);
        Ok(())
    }

    /// Has what changed of the region `name` found by its hashes, and not by the pages that were written: for memory that a
    /// network card, a GPU or another process writes to. Local. For as long as it is protected, wherever it moves.
    /// RegionMissing: no region has this name.
    fn untrack(&self, py: Python<'_>, name: Text<'_>) -> PyResult<()> {
        self.state.local(py, |open| open.engine()?.untrack(&name.to_string_lossy()))
    }

    /// Says that all ranks have the same bytes in the region `name`, so that any number of ranks gets it back. Local. It holds for as
    /// long as the region is protected. RegionMissing: no region has this name; InvalidArgument: it is a box of a global array.
    fn same_on_all_ranks(&self, py: Python<'_>, name: Text<'_>) -> PyResult<()> {
        self.state.local(py, |open| open.engine()?.same_on_all_ranks(&name.to_string_lossy()))
    }

    /// Says that the program will not write `bytes` bytes of the region `name`, from `offset` on, again
    /// before its next checkpoint: with the setting predictor they are saved at once, in the background. What is written again
    /// all the same is saved again. Local, never waits for a write. RegionMissing: no region has this name; InvalidArgument: it
    /// has fewer bytes.
    fn settled(&self, py: Python<'_>, name: Text<'_>, offset: Whole<u64>, bytes: Whole<u64>) -> PyResult<()> {
        let (name, Whole(offset), Whole(bytes)) = (name.to_string_lossy(), offset, bytes);
        self.state.local(py, |open| open.engine()?.settled(&name, offset, bytes))
    }

    /// Takes a region out again and lets its memory go. Local. Revisions that hold it stay as they are.
    fn unprotect(&self, py: Python<'_>, name: Text<'_>) -> PyResult<()> {
        let held = self.state.local(py, |open| {
            let name = name.to_string_lossy();
            open.engine()?.unprotect(&name)?;
            Ok((open.held.remove(&*name), open.followed.remove(&*name)))
        })?;
        drop(held);
        Ok(())
    }

    /// Takes all regions out again, as unprotect() does one, and lets their memory go. Local.
    fn unprotect_all(&self, py: Python<'_>) -> PyResult<()> {
        let held = self.state.local(py, |open| {
            open.engine()?.unprotect_all()?;
            Ok((std::mem::take(&mut open.held), std::mem::take(&mut open.followed)))
        })?;
        drop(held);
        Ok(())
    }

    /// Names a file that this rank's program appends to. Local; one rank a file: restore and the checkpoint refuse
    /// one that several ranks name. It is synced before a revision is published, its length is kept, and restore()
    /// cuts it back to that: restore before writing to it, and flush() it before a checkpoint. It need not be there
    /// yet. If it is shorter than it was, restore() raises OutputShort. Files that no call names stay as they are.
    fn protect_output(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        self.state.local(py, |open| open.engine()?.protect_output(&path_of("path", path)?))
    }

    /// Fills the protected buffers with the newest complete revision that can be read whole, the same on
    /// all ranks; `None` if there is none. Collective. Every block is verified. Boxes of global arrays are filled
    /// whatever the number of ranks; other buffers come back on another number if all ranks had saved the same
    /// bytes, or rank 0 alone had it. After RegionChanged,
    /// RegionMissing, RankCount, OutOfSight, LineageConflict and OutputShort the buffers are as they were;
    /// after any other error they are undefined. With `revision` it is the one of that number, the same on all ranks, and
    /// RevisionMissing if that is not there whole: the program goes on from there, and newer revisions are kept no longer from
    /// the next checkpoint on, but for held ones.
    #[pyo3(signature = (*, revision=None))]
    fn restore(&self, py: Python<'_>, revision: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Restored>> {
        let asked = number(revision);
        self.state.turn(py)?;
        let mut was_called = false;
        let restore = |engine: &mut Engine| {
            was_called = true;
            match or_refuse(engine, asked) {
                None => engine.restore(),
                Some(revision) => engine.restore_revision(revision),
            }
        };
        let restored = self.state.call_held(py, restore);
        Ok(of_all(py, self.rank(), was_called, restored)?.map(Restored::from))
    }

    /// Goes on without the ranks that have failed: every rank that is left calls it after a GroupFailed of this session, or an
    /// MPI.Exception of the program's own messages, wherever it was. Spares, or processes that are started for it, take
    /// the places of those that failed, or with recovery="shrink" there are fewer ranks; `comm` is a new communicator, with
    /// `rank` and `size` as they are now. What is protected stays so. restore() comes next, on all ranks. InvalidArgument:
    /// recovery is off; after any other error the session is over, and the job is to be started again. Collective among the
    /// ranks that are left. steps() does it by itself.
    fn recover(&self, py: Python<'_>) -> PyResult<Recovered> {
        self.state.turn(py)?;
        let (recovered, rank) =
            self.state.call(py, |engine| engine.recover().map(|recovered| (recovered, engine.rank())))?;
        self.rank.store(rank, Ordering::Relaxed);
        self.size.store(recovered.ranks, Ordering::Relaxed);
        Ok(Recovered::from(recovered))
    }

    /// Raises GroupFailed if ranks have failed as far as this one knows: for programs that do not look at what their own
    /// messages come to. Local, never waits. steps() does it after each step. With recovery off nothing.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self._recovers() { self.state.call(py, Engine::check) } else { self.state.local(py, |_| Ok(())) }
    }

    /// The numbers from 0 to `count - 1` of the steps that are still to be done, for a loop whose body is a step:
    ///
    ///     for step in session.steps(1000, layout):
    ///         with session.recovering():
    ///             ...
    ///
    /// Before the first step it restores; after each it takes a checkpoint where due() says so. With recovery on, a failure
    /// of a rank has all of them begin again at the newest revision, or, where there is none yet, at step 0. `layout`, a
    /// function of the session, is called before each restore(): it makes this rank's arrays for the ranks that there are
    /// now, on `comm`, with their values of the beginning, and protects them; what it protected the time before is let go.
    /// Without a layout the arrays are those that are protected, and are saved before the first step. Other exceptions,
    /// and those of MPI where no rank has failed, pass through. One loop at a time.
    #[pyo3(signature = (count, layout=None))]
    fn steps<'py>(
        slf: &Bound<'py, Self>,
        count: Whole<u64>,
        layout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().state.local(slf.py(), |_| match layout {
            Some(layout) if !layout.is_callable() => {
                Err(Error::argument("layout", format!("{} is none, it takes a function of the session", shown(layout))))
            }
            _ => Ok(()),
        })?;
        recovery(slf.py())?.call_method1(intern!(slf.py(), "Steps"), (slf, count.0, layout))?.call_method0("run")
    }

    /// A context manager for the body of a loop over steps(), all of it: a GroupFailed or MPI.Exception that comes out of it
    /// is kept for steps(), which recovers and goes on. It is inside the loop and not around it, because Python cannot run
    /// the body of a `with` a second time. With recovery off it does nothing.
    fn recovering<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        recovery(slf.py())?.call_method1(intern!(slf.py(), "Recovering"), (slf,))
    }

    /// For steps: whether failures are recovered from.
    #[getter]
    fn _recovers(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.recovers())
    }

    /// For steps: the names of what is protected, and of what empty() has allocated.
    fn _names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.state.local(py, |open| {
            let allocated = open.engine()?.allocated()?;
            Ok(open.held.keys().chain(open.followed.keys()).cloned().chain(allocated).collect())
        })
    }

    /// For steps: those that are under way.
    #[getter]
    fn _steps(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.state.local(py, |open| Ok(open.steps.as_ref().map(|steps| steps.clone_ref(py))))
    }

    #[setter(_steps)]
    fn set_steps(&self, py: Python<'_>, steps: Option<Py<PyAny>>) -> PyResult<()> {
        let before =
            self.state.lock().map_err(|error| raise(py, &error))?.as_mut().map(|open| replace(&mut open.steps, steps));
        drop(before);
        Ok(())
    }

    /// Notes `value`, a text or a number, under `name` with the revisions from now on, until the name is noted anew;
    /// Restored.notes has it as text. Local; between begin() and checkpoint() it is refused.
    fn note(&self, py: Python<'_>, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (name, value) = notes::note(name, value).map_err(|error| raise(py, &error))?;
        self.state.call(py, |engine| engine.note(&name, &value))
    }

    /// Saves all protected buffers as a new revision and returns its number as soon as their bytes are
    /// out of the way: the program may go on and change them. Collective: the ranks talk to each other in one small
    /// all-reduce; one that ends a begun checkpoint is local. If the revision before failed
    /// and nobody was told, this raises its error and saves nothing: call it again.
    ///
    /// `notes`, a mapping of names to texts and numbers, is kept as text with this revision and those after it, until
    /// a name is noted anew. One that was begun takes them at begin().
    #[pyo3(signature = (notes=None))]
    fn checkpoint(&self, py: Python<'_>, notes: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        if notes.is_some() && self.state.call(py, Engine::has_begun)? {
            // What was begun stays as it is.
            let why = "a checkpoint has begun, and has its notes already; give them to begin()";
            return Err(raise(py, &Error::argument("notes", why)));
        }
        let notes = notes::notes(notes);
        let (flushed, raised) = self.state.flush(py);
        self.state.turn(py)?;
        let mut of_ranks = false;
        let saved = self.state.call_held(py, |engine| {
            // One that was begun ends on each rank by itself.
            of_ranks = !engine.has_begun()?;
            let noted = flushed.and_then(|()| notes::set(engine, &notes?));
            or_refuse(engine, noted);
            engine.checkpoint()
        });
        of_all(py, self.rank(), of_ranks, saved.map_err(|error| caused(py, error, raised)))
    }

    /// Begins a checkpoint that is written in pieces, at most `bytes` bytes on this rank, a piece that lies over another
    /// counted once more, with what lies in the gaps between them: write() and open() add to it, and checkpoint() adds the protected buffers and ends it. Collective; the
    /// checkpoint() is local then. The first one of a space sizes the portions by `bytes`. Returns the number of the revision to
    /// be. What was restored before can be read no more. `notes` as in checkpoint(). If a rank left the one before
    /// without checkpoint() or abandon(), that one is given up, and all ranks are told so here: call it again.
    #[pyo3(signature = (bytes, notes=None))]
    fn begin(&self, py: Python<'_>, bytes: &Bound<'_, PyAny>, notes: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        let (notes, bytes) = (notes::notes(notes), whole("bytes", bytes));
        self.state.turn(py)?;
        self.state.call_held(py, |engine| {
            let noted = notes.and_then(|notes| notes::set(engine, &notes));
            or_refuse(engine, noted);
            let bytes = or_refuse(engine, bytes);
            engine.begin(bytes)
        })
    }

    /// Gives up the checkpoint that was begun, in place of checkpoint(). Collective: all ranks do, or none. Nothing
    /// of it is kept, and the revisions that were complete stay as they were. Its number is used up.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        self.state.turn(py)?;
        self.state.call(py, Engine::abandon)
    }

    /// Writes the bytes of `data`, any object with the buffer protocol, at `offset` of the stream `name`, which
    /// exists from then on in the revision that was begun. Local. Any order, any size: what is written twice
    /// is what was written last, what was skipped is zero, and counts towards the bytes announced to begin(). An error is raised by checkpoint() too, which then
    /// saves nothing.
    fn write(&self, py: Python<'_>, name: Text<'_>, offset: Whole<u64>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let name = name.to_string_lossy();
        let data = Flat::to_read(&format!("stream {name:?}"), data).map_err(|error| raise(py, &error))?;
        let bytes = data.bytes();
        self.state.call(py, |engine| engine.write(&name, offset.0, bytes))
    }

    /// Up to `bytes` bytes, or all, from `offset` on of the stream `name` of the revision that restore() brought
    /// back: fewer only at its end. Local, verified; until the next checkpoint begins.
    #[pyo3(signature = (name, offset=Whole(0), bytes=None), text_signature = "($self, name, offset=0, bytes=None)")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        name: Text<'_>,
        offset: Whole<u64>,
        bytes: Option<Whole<u64>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (name, Whole(offset)) = (name.to_string_lossy(), offset);
        let there = self.state.call(py, |engine| engine.stream_bytes(&name))?.saturating_sub(offset);
        let bytes = bytes.map_or(there, |Whole(most)| most.min(there));
        PyBytes::new_with(py, bytes as usize, |into| {
            self.state.call(py, |engine| engine.read(&name, offset, into)).map(drop)
        })
    }

    /// As read(), into `buffer`; returns how many bytes there were.
    fn readinto(
        &self,
        py: Python<'_>,
        name: Text<'_>,
        offset: Whole<u64>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let name = name.to_string_lossy();
        let mut buffer = Flat::to_fill(&format!("stream {name:?}"), buffer).map_err(|error| raise(py, &error))?;
        let into = buffer.bytes_mut();
        self.state.call(py, |engine| engine.read(&name, offset.0, into))
    }

    /// Names and lengths of this rank's streams in the revision that restore() brought back. Local.
    fn streams<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let streams = PyDict::new(py);
        for (name, bytes) in self.state.call(py, Engine::streams)? {
            streams.set_item(name, bytes)?;
        }
        Ok(streams)
    }

    /// Has this rank read the shards of these numbers with read_shard(), wherever they lie, and returns all shards of the
    /// revision that restore() brought back: shard r is what rank r had saved, whatever the number of ranks now, with its
    /// `items` and `notes`. Without numbers that is all. What lies on other nodes alone is sent, into memory of this rank.
    /// Collective, with what each rank wants; until the next checkpoint begins. InvalidArgument: nothing was restored, a
    /// checkpoint has begun since, or there is no such shard; Damaged: no copy of a shard is whole.
    #[pyo3(signature = (shards=None))]
    fn bring_shards(&self, py: Python<'_>, shards: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Py<Shard>>> {
        let wanted = shards.map_or(Ok(Vec::new()), numbers);
        self.state.turn(py)?;
        let told = self.state.call(py, |engine| {
            let wanted = or_refuse(engine, wanted);
            engine.bring_shards(&wanted)?;
            (0..engine.shards()?.count).map(|shard| engine.shard(shard)).collect::<Result<Vec<_>, Error>>()
        })?;
        (0..).zip(told).map(|(number, told)| Shard::of(py, number, &told.items, told.notes)).collect()
    }

    /// Up to `bytes` bytes, or all, from `offset` on of the item `name` of a shard that bring_shards() has brought: fewer
    /// only at its end. Local, verified; until the next checkpoint begins.
    #[pyo3(
        signature = (shard, name, offset=Whole(0), bytes=None),
        text_signature = "($self, shard, name, offset=0, bytes=None)"
    )]
    fn read_shard<'py>(
        &self,
        py: Python<'py>,
        shard: Whole<u32>,
        name: Text<'_>,
        offset: Whole<u64>,
        bytes: Option<Whole<u64>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (name, Whole(shard), Whole(offset)) = (name.to_string_lossy(), shard, offset);
        let there = self.state.call(py, |engine| engine.shard_item_bytes(shard, &name))?.saturating_sub(offset);
        let bytes = bytes.map_or(there, |Whole(most)| most.min(there));
        PyBytes::new_with(py, bytes as usize, |into| {
            self.state.call(py, |engine| engine.read_shard(shard, &name, offset, into)).map(drop)
        })
    }

    /// As read_shard(), into `buffer`; returns how many bytes there were.
    fn readinto_shard(
        &self,
        py: Python<'_>,
        shard: Whole<u32>,
        name: Text<'_>,
        offset: Whole<u64>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let name = name.to_string_lossy();
        let mut buffer = Flat::to_fill(&format!("item {name:?}"), buffer).map_err(|error| raise(py, &error))?;
        let into = buffer.bytes_mut();
        self.state.call(py, |engine| engine.read_shard(shard.0, &name, offset.0, into))
    }

    /// A stream as a binary file: with "wb" a writer of the revision that was begun, with "rb" a reader of the
    /// one that was restored. Local. A writer begins at offset 0 and cuts nothing off that was written there
    /// before; seek(0, 2) goes behind all that was. checkpoint() flushes writers; after that, or another
    /// restore(), open anew.
    #[pyo3(name = "open", signature = (name, mode=None), text_signature = "($self, name, mode='rb')")]
    fn open_stream<'py>(
        slf: &Bound<'py, Self>,
        name: Text<'py>,
        mode: Option<Text<'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, session) = (slf.py(), slf.get());
        let mode = mode.map_or("rb".into(), |mode| mode.to_string_lossy().into_owned());
        let file = stream::open(slf.as_any(), &name, &mode)?;
        if mode == "wb" {
            let writer = PyWeakrefReference::new(&file)?.unbind();
            session.state.local(py, |open| {
                open.files.add(writer);
                Ok(())
            })?;
        }
        Ok(file)
    }

    /// For files: which of the times between checkpoints and restores this is.
    #[getter]
    fn _moment(&self, py: Python<'_>) -> PyResult<u64> {
        self.state.local(py, |open| Ok(open.files.moment()))
    }

    /// For files: where the stream ends that is read, or so far the one that is written.
    fn _end(&self, py: Python<'_>, name: Text<'_>, mode: &str) -> PyResult<u64> {
        let name = name.to_string_lossy();
        self.state.local(py, |open| match mode {
            "wb" => open.engine()?.written_bytes(&name),
            _ => open.engine()?.stream_bytes(&name),
        })
    }

    /// Saves the bytes of `data`, any object with the buffer protocol, under `name`, with the protected buffers if
    /// there are any, as the next revision, and returns its number once it is complete: durable on all ranks.
    /// Collective; each rank has as many bytes as it likes, this time. A restore() leaves it for get(), unless a buffer is
    /// protected under its name.
    fn put(&self, py: Python<'_>, name: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let name = text(name);
        let data = Flat::to_read(&buffer_of(&name), data);
        let bytes = data.as_ref().map(Flat::bytes).map_err(Error::clone);
        self.state.turn(py)?;
        self.state.call_held(py, |engine| {
            let (name, bytes) = (or_refuse(engine, name), or_refuse(engine, bytes));
            engine.put(&name, bytes)
        })
    }

    /// Fills `buffer` from the beginning with what this rank saved under `name` in the revision of this number, or in
    /// the newest that can be read whole on all ranks; `None` if nothing was saved yet. Collective; every block is
    /// verified. Nothing else changes: what is saved next goes on as if nobody had read. After InvalidArgument,
    /// RegionMissing, RevisionMissing and RankCount the buffer is as it was, after any other error it is undefined.
    #[pyo3(signature = (name, buffer, revision=None))]
    fn get(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        revision: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Got>> {
        let name = text(name);
        let mut buffer = Flat::to_fill(&buffer_of(&name), buffer);
        let into = buffer.as_mut().map(Flat::bytes_mut).map_err(|error| error.clone());
        let asked = number(revision);
        let got = self.state.call(py, |engine| {
            let (name, revision, into) = (or_refuse(engine, name), or_refuse(engine, asked), or_refuse(engine, into));
            engine.get(revision, &name, into)
        })?;
        Ok(got.map(Got::from))
    }

    /// How many bytes get() would fill in on this rank, if nothing is damaged; `None` if nothing was saved yet.
    /// Collective.
    #[pyo3(signature = (name, revision=None))]
    fn get_bytes(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        revision: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<u64>> {
        let name = text(name);
        let asked = number(revision);
        self.state.call(py, |engine| {
            let (name, revision) = (or_refuse(engine, name), or_refuse(engine, asked));
            engine.get_bytes(revision, &name)
        })
    }

    /// The Item that this rank saved under `name`, with its `shape`, `dtype` and `bytes`. It comes from the revision that
    /// restore() tries first, or from `revision`. `None`: nothing was saved under that name. If another number of ranks saved
    /// the revision, the Item is that of the first shard which has one. Collective: all ranks call it equally often, and each may
    /// give another name.
    #[pyo3(signature = (name, revision=None))]
    fn saved(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        revision: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Item>> {
        let name = text(name);
        let asked = number(revision);
        let saved = self.state.call(py, |engine| {
            let (name, revision) = (or_refuse(engine, name), or_refuse(engine, asked));
            engine.saved(revision, &name)
        })?;
        saved.map(|item| Item::of(py, &item)).transpose()
    }

    /// Whether a checkpoint should be taken now that the program has done `step` steps, the same on all
    /// ranks. Every rank calls it at the same steps, with the same number. A checkpoint is due by the
    /// settings every_steps, every_seconds and mtbf_seconds, by the signal of checkpoint_signal on any rank,
    /// and when someone asks from outside: `mainstay checkpoint`, and `mainstay run` before the job's end.
    /// While the last revision is not durable on the nearest level of any rank, none is due by steps or time: it is due at
    /// the next step after that, unless the setting when_busy says "now".
    /// Costs a count; about every agree_seconds, and where steps make one due, it is collective, one small all-reduce.
    fn due(&self, py: Python<'_>, step: &Bound<'_, PyAny>) -> PyResult<bool> {
        let step = whole("step", step);
        self.state.call(py, |engine| {
            let refused = step.as_ref().err().cloned();
            let step = or_refuse(engine, step);
            let due = engine.due(step)?;
            // Where the ranks did not meet now, the others are told by the next call.
            refused.map_or(Ok(due), Err)
        })
    }

    /// Waits until the last revision is complete: durable on all ranks. Collective. That it failed is raised once on
    /// all ranks, here or by checkpoint(); then nothing is under way, and this returns until the next checkpoint.
    ///
    /// With a level, "memory" or "disk" of the nodes, or "space", the space that was opened: until the last revision that
    /// went there is complete there. Levels behind it go on meanwhile, and are not waited for.
    #[pyo3(signature = (level=None))]
    fn wait(&self, py: Python<'_>, level: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let mut was_called = false;
        let Some(level) = level else {
            let waited = self.state.call(py, |engine| {
                was_called = true;
                engine.wait()
            });
            return of_all(py, self.rank(), was_called, waited);
        };
        // What is no text names none.
        let level = level.str().map(|level| level.to_string_lossy().into_owned());
        let level = LevelKind::named(level.as_deref().unwrap_or_default());
        let waited = self.state.call(py, |engine| {
            was_called = true;
            let level = or_refuse(engine, level);
            engine.wait_for(level)
        });
        of_all(py, self.rank(), was_called, waited)
    }

    /// Moves on what is under way between this rank and others, such as copies that go to other nodes: for programs
    /// that compute for long between two calls. Local, never waits. What fails is raised by wait(), close() or the next
    /// checkpoint().
    fn progress(&self, py: Python<'_>) -> PyResult<()> {
        self.state.call(py, Engine::progress)
    }

    /// A moment between two steps of the program at which it may be seen what it has written since the moment before:
    /// where one phase of a step ends and the next begins. With the setting trace it is recorded, for `mainstay oracle`;
    /// else nothing happens. Local, never waits.
    fn tick(&self, py: Python<'_>) -> PyResult<()> {
        self.state.call(py, Engine::tick)
    }

    /// Whether this rank's part of the last revision is durable. Local, never waits. If another rank writes for
    /// this one (aggregators), as the medium shows: that it failed is told by wait(). True also if nothing is under
    /// way: nothing was saved yet, or all ranks were told that the last revision failed.
    fn poll(&self, py: Python<'_>) -> PyResult<bool> {
        self.state.local(py, |open| open.engine()?.poll())
    }

    /// What the newest checkpoint took whose part of this rank is durable. Local, never waits.
    fn last_record(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        self.state.local(py, |open| Ok(open.engine()?.last_record()?.map(Record::from)))
    }

    /// What saving early has come to on this rank, in blocks of 4 KiB. Local, never waits.
    fn speculation(&self, py: Python<'_>) -> PyResult<Speculation> {
        self.state.local(py, |open| open.engine()?.speculation().map(Speculation::from))
    }

    /// Waits for the last revision and ends the session, also when it raises. Collective, before
    /// MPI.Finalize. Closed once more, nothing happens.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.end(py).map_err(|error| raise(py, &error))
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        slf.get().state.local(py, |_| Ok(()))?;
        Ok(slf)
    }

    /// Closes. After an exception, which may be this rank's alone, it does so without the other ranks:
    /// this one's part of the last revision becomes durable, and the exception goes on.
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception_type: Option<Bound<'_, PyType>>,
        exception: Option<Bound<'_, PyBaseException>>,
        _traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let Some(exception) = exception else { return self.close(py) };
        let ended =
            if self.size() == 1 { self.state.end(py) } else { self.state.lock().map(|mut open| drop(open.take())) };
        if let Err(error) = ended {
            // Python 3.10 has no notes.
            let note = format!("mainstay: closing the session failed too: {error}");
            let _ = exception.call_method1(intern!(py, "add_note"), (note,));
        }
        Ok(())
    }

    /// A function of the program often holds the object that holds this session.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.state.idle() {
            Some(open) => open.iter().try_for_each(|open| {
                visit.call(&open.steps)?;
                open.followed.values().try_for_each(|one| one.traverse(&visit))
            }),
            None => Ok(()),
        }
    }

    fn __clear__(&self) {
        let followed = self
            .state
            .idle()
            .and_then(|mut open| open.as_mut().map(|open| (take(&mut open.followed), open.steps.take())));
        // Their own code may run now.
        drop(followed);
    }

    fn __repr__(&self) -> String {
        let state = match self.state.idle() {
            Some(open) if open.is_none() => "closed",
            Some(_) => "open",
            None => "at work",
        };
        format!("<mainstay.Session on {:?}, rank {} of {}, {state}>", self.path, self.rank(), self.size())
    }
}

fn recovery(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "mainstay._recovery"))
}

/// What numpy has against a type of elements.
fn odd_type(py: Python<'_>, error: &PyErr) -> PyErr {
    raise(py, &Error::argument("dtype", format!("numpy has no such type: {}", error.value(py))))
}

/// Where a box lies, if it is one.
fn place_of(
    name: &str,
    global_shape: Option<Wholes<u64>>,
    offset: Option<Wholes<u64>>,
) -> Result<Option<PlaceInWhole>, Error> {
    match (global_shape, offset) {
        (Some(global_shape), Some(offset)) => {
            let [global_shape, offset] = [global_shape, offset].map(|Wholes(all)| all);
            Ok(Some(PlaceInWhole { global_shape, offset }))
        }
        (None, None) => Ok(None),
        _ => {
            let why = "a box has both a global_shape and an offset; give the other one too";
            Err(Error::argument(format!("region {name:?}"), why))
        }
    }
}

/// What a buffer of this name is called where it is refused.
fn buffer_of(name: &Result<String, Error>) -> String {
    format!("buffer {:?}", name.as_deref().unwrap_or_default())
}

/// That of a revision. One that is no number there can be is none of them.
fn number(revision: Option<&Bound<'_, PyAny>>) -> Result<Option<u64>, Error> {
    let Some(given) = revision else { return Ok(None) };
    let told = || Error::argument("revision", format!("{given} is none, it takes a number from 1 on"));
    given.extract().map(Some).map_err(|_| told())
}

/// Those of shards.
fn numbers(shards: &Bound<'_, PyAny>) -> Result<Vec<u32>, Error> {
    let told = || Error::argument("shards", format!("{shards} is no sequence of their numbers, from 0 on"));
    let each = shards.try_iter().map_err(|_| told())?;
    each.map(|number| number.and_then(|number| number.extract()).map_err(|_: PyErr| told())).collect()
}

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
    open::{Open, OpenSession, or_refuse},
    reader::{Item, ReadsShards, Shard, contents_of},
    record::Record,
    recovered::Recovered,
    restored::Restored,
    settings::{config, path as path_of, shown, text},
    speculation::Speculation,
    stream::{self, Files},
    wire::MpiWire,
};
use mainstay_engine::{Allocated, Error, LevelKind, Reader, Session as Engine, space::format::PlaceInWhole};
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

/// One job at work on one space; `open` makes it. One thread at a time may use it. The end of a `with` block closes
/// it. It cannot be pickled or used in a forked process.
#[pyclass(frozen, module = "mainstay")]
pub struct Session {
    path: PathBuf,
    rank: AtomicUsize,
    size: AtomicUsize,
    /// `None` without a communicator.
    job: Option<Arc<Job>>,
    pub(crate) state: OpenSession,
}

/// Opens the space in the directory `path` for the ranks of the mpi4py communicator `comm`, which is duplicated, or
/// for this process alone. Makes the directory if it is missing. Collective.
///
/// Settings that you do not pass come from the environment (MAINSTAY_KEEP and so on), from mainstay.toml, or from the
/// defaults; `mainstay config` lists them all. `hints`, a mapping or an MPI.Info, go before the others:
/// striping_factor, striping_unit and cb_nodes as in MPI-IO, and mainstay_ before the name of a setting. Unknown
/// hints are ignored.
#[pyfunction]
#[pyo3(
    signature = (path, comm=None, **settings),
    text_signature = "(path, comm=None, *, keep=None, capture=None, compress=None, track=None, audit=None, predictor=None, infrequent_seconds=None, stagger=None, oracle=None, snapshot_bytes=None, stage=None, pool_bytes=None, chunk_bytes=None, pool_held=None, \
                      small_bytes=None, threshold_bytes=None, buffer_bytes=None, flush_seconds=None, io_threads=None, \
                      portion_bytes=None, shard_bytes=None, per=None, allocate=None, stripe_count=None, stripe_bytes=None, \
                      pool_directory=None, memory=None, memory_keep=None, memory_copies=None, memory_after=None, disk=None, disk_every=None, \
                      disk_keep=None, disk_copies=None, disk_lost=None, exchange=None, pfs_every=None, start=None, recovery=None, spares=None, every_steps=None, every_seconds=None, mtbf_seconds=None, agree_seconds=None, when_busy=None, checkpoint_signal=None, trace=None, tick_seconds=None, hints=None)"
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
    /// Transport between the program's objects; `None` without a communicator.
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
            // Spares wait until the workers have left.
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
        Ok(Session { path, rank, size, job, state: OpenSession::new(open) })
    }
}

#[pymethods]
impl Session {
    /// This process's number among the working ranks; it changes if ranks are lost and not replaced.
    #[getter]
    pub(crate) fn rank(&self) -> usize {
        self.rank.load(Ordering::Relaxed)
    }

    /// The number of working ranks.
    #[getter]
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// The program's communicator of the working ranks: with recovery one of its own, and a new one after each
    /// recovery; otherwise the one that you passed to open(). `None` without one.
    #[getter]
    fn comm(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.job.as_ref()?.world().comm(py)
    }

    /// Adopts a communicator that the program has made from `comm`, with Split() or Create_cart(). A recovery revokes
    /// it like `comm` itself, so no rank waits in it, and then forgets it. Local.
    fn adopt(&self, comm: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = comm.py();
        check(comm).map_err(|error| raise(py, &error))?;
        if let Some(job) = &self.job {
            job.world().adopt(comm.clone().unbind());
        }
        Ok(())
    }
    /// Protects the memory of `buffer` under `name`: checkpoints save it, and restore() fills it. Local. `buffer` is
    /// any writable object with the buffer protocol, in C order. Mainstay keeps its shape and element type. Of a view
    /// with gaps, such as field[1:-1, 1:-1] of an array with ghost cells, it saves only the elements. The buffer is
    /// held, and cannot be resized, until you unprotect it or close the session. InvalidArgument, with both names: it
    /// shares bytes with another region.
    ///
    /// With `global_shape` and `offset` it is a box in a global array, with `offset` elements in front of it along
    /// each side: restore() on any number of ranks fills the boxes from the saved ones.
    ///
    /// In place of the buffer you may pass a function, `lambda: self.field`, if your program swaps its arrays, or
    /// makes new ones. Mainstay calls it here, at each checkpoint (with begin() there and at the checkpoint() that
    /// ends it) and at each restore(). It returns the present buffer, which is held only for the call. If it raises,
    /// the call raises InvalidArgument on all ranks; a Ctrl-C in it stays one on its own rank.
    ///
    /// `allocate` is a second function beside it. restore() calls it with the saved shape if the shape differs. It
    /// makes an array of that shape, which the first function returns from then on.
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
        // Invalid Unicode is refused together with other forbidden characters.
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

    /// Moves the region `name` to `buffer`, which may have another shape, and releases the old buffer. Local.
    /// Arguments as in protect(); without `global_shape` and `offset` a box keeps its offset. RegionMissing: no
    /// region has this name. A region from a function moves by itself.
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

    /// Returns a numpy array of zeros, in memory that Mainstay allocates, protected under `name`. It uses pages of 2
    /// MiB if the system has them. Local. With capture="snapshot" Mainstay copies it under write protection, which
    /// costs the program far less than other memory. Meanwhile MPI, and calls such as readinto(), cannot write into
    /// it: pass `written_by_system=True` if you use such calls. With `same_address` it has the same address in every
    /// run. The memory stays as long as the array, or until you free it.
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
            let bytes = bytes.ok_or_else(|| Error::argument("shape", "there is no room for this many elements"))?;
            if is_of_objects {
                return Err(Error::argument("dtype", "objects of Python are no plain memory; take a type of numbers"));
            }
            Ok((open.engine()?.allocate(&name.to_string_lossy(), bytes as u64, how)?, bytes))
        })?;
        let protect = || {
            let memory = numpy.call_method1("asarray", (Bound::new(py, Memory { memory, bytes })?,))?;
            // Not of the interface's type, which has no fields, and no types from outside numpy.
            let array = numpy.call_method1("ndarray", (shape, dtype, memory))?;
            self.protect(py, name.clone(), &array, None, None, None)?;
            Ok(array)
        };
        protect().inspect_err(|_| drop(self.free(py, name)))
    }

    /// Unprotects the memory that empty() has allocated under `name`; it is freed with the last array in it. Local.
    fn free(&self, py: Python<'_>, name: Text<'_>) -> PyResult<()> {
        let held = self.state.local(py, |open| {
            let name = name.to_string_lossy();
            open.engine()?.free(&name)?;
            Ok((open.held.remove(&*name), open.followed.remove(&*name)))
        })?;
        drop(held);
        Ok(())
    }

    /// Finds the changes of the region `name` by hashes instead of written pages: for memory that a network card, a
    /// GPU or another process writes. Local. It holds while the region is protected, wherever it moves.
    /// RegionMissing: no region has this name.
    fn untrack(&self, py: Python<'_>, name: Text<'_>) -> PyResult<()> {
        self.state.local(py, |open| open.engine()?.untrack(&name.to_string_lossy()))
    }

    /// Declares that all ranks have the same bytes in the region `name`, so any number of ranks gets it back. Local.
    /// It holds while the region is protected. RegionMissing: no region has this name; InvalidArgument: it is a box
    /// of a global array.
    fn same_on_all_ranks(&self, py: Python<'_>, name: Text<'_>) -> PyResult<()> {
        self.state.local(py, |open| open.engine()?.same_on_all_ranks(&name.to_string_lossy()))
    }

    /// Promises that the program will not write `bytes` bytes of the region `name`, from `offset` on, again before
    /// its next checkpoint. With the setting predictor Mainstay saves them at once, in the background. If the program
    /// writes them after all, Mainstay saves them again. Local, never waits for a write. RegionMissing: no region has
    /// this name; InvalidArgument: it has fewer bytes.
    fn settled(&self, py: Python<'_>, name: Text<'_>, offset: Whole<u64>, bytes: Whole<u64>) -> PyResult<()> {
        let (name, Whole(offset), Whole(bytes)) = (name.to_string_lossy(), offset, bytes);
        self.state.local(py, |open| open.engine()?.settled(&name, offset, bytes))
    }

    /// Removes a region and releases its memory. Local. Revisions that hold it stay as they are.
    fn unprotect(&self, py: Python<'_>, name: Text<'_>) -> PyResult<()> {
        let held = self.state.local(py, |open| {
            let name = name.to_string_lossy();
            open.engine()?.unprotect(&name)?;
            Ok((open.held.remove(&*name), open.followed.remove(&*name)))
        })?;
        drop(held);
        Ok(())
    }

    /// Removes all regions, as unprotect() removes one, and releases their memory. Local.
    fn unprotect_all(&self, py: Python<'_>) -> PyResult<()> {
        let held = self.state.local(py, |open| {
            open.engine()?.unprotect_all()?;
            Ok((std::mem::take(&mut open.held), std::mem::take(&mut open.followed)))
        })?;
        drop(held);
        Ok(())
    }

    /// Registers a file that this rank's program appends to. Local. Only one rank may register a file: restore and
    /// the checkpoint refuse one that several ranks registered. A checkpoint records the file's length, and syncs the
    /// file before it publishes the revision. restore() truncates the file to that length: restore before you write
    /// to it, and flush() it before a checkpoint. The file need not exist yet. If it is shorter than at the
    /// checkpoint, restore() raises OutputShort. Files that no call registers stay as they are.
    fn protect_output(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        self.state.local(py, |open| open.engine()?.protect_output(&path_of("path", path)?))
    }

    /// Fills the protected buffers with the newest complete revision that can be read whole, the same on all ranks;
    /// `None` if there is none. Collective. Every block is verified. Boxes of global arrays are filled whatever the
    /// number of ranks. Other buffers come back on another number of ranks if all ranks had saved the same bytes, or
    /// if only rank 0 had them. After RegionChanged, RegionMissing, RankCount, OutOfSight, LineageConflict and
    /// OutputShort the buffers are unchanged. After any other error they are undefined.
    ///
    /// With `revision`, the same on all ranks, it restores the revision of that number. RevisionMissing: it is
    /// missing or incomplete. The program goes on from there: the next checkpoint stops keeping the newer revisions,
    /// except those under a hold.
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

    /// Goes on without the failed ranks. Every surviving rank calls it after a GroupFailed of this session, or an
    /// MPI.Exception of the program's own messages, wherever the rank was. Spares, or newly started processes, take
    /// the places of the failed ranks; with recovery="shrink" there are fewer ranks. `comm` is then a new
    /// communicator, and `rank` and `size` have their new values. Regions stay protected. Call restore() next, on all
    /// ranks. InvalidArgument: recovery is off. After any other error the session is over: restart the job.
    /// Collective among the surviving ranks. steps() does it by itself.
    fn recover(&self, py: Python<'_>) -> PyResult<Recovered> {
        self.state.turn(py)?;
        let (recovered, rank) =
            self.state.call(py, |engine| engine.recover().map(|recovered| (recovered, engine.rank())))?;
        self.rank.store(rank, Ordering::Relaxed);
        self.size.store(recovered.ranks, Ordering::Relaxed);
        Ok(Recovered::from(recovered))
    }

    /// Raises GroupFailed if this rank knows of failed ranks: for programs that ignore the errors of their own
    /// messages. Local, never waits. steps() does it after each step. With recovery off it does nothing.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self._recovers() { self.state.call(py, Engine::check) } else { self.state.local(py, |_| Ok(())) }
    }

    /// The numbers of the remaining steps, up to `count - 1`, for a loop with a step as its body:
    ///
    ///     for step in session.steps(1000, layout):
    ///         with session.recovering():
    ///             ...
    ///
    /// It restores before the first step, and takes a checkpoint after each step for which due() is true. With
    /// recovery on, all ranks start again after a failure of a rank: at the newest revision, or, if there is none
    /// yet, at step 0. `layout`, a function of the session, is called before each restore(). It makes this rank's
    /// arrays for the present ranks, on `comm`, with their initial values, and protects them; the regions of the call
    /// before are released. Without a layout the arrays are those that you have protected, and are saved before the
    /// first step. Other exceptions pass through, and so do those of MPI if no rank has failed. One loop at a time.
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

    /// A context manager around the whole body of a loop over steps(). It keeps a GroupFailed or MPI.Exception for
    /// steps(), which recovers and goes on. It must be inside the loop, because Python cannot run the body of a
    /// `with` a second time. With recovery off it does nothing.
    fn recovering<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        recovery(slf.py())?.call_method1(intern!(slf.py(), "Recovering"), (slf,))
    }

    /// For steps: whether the session recovers from failures.
    #[getter]
    fn _recovers(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.recovers())
    }

    /// For steps: the names of all regions, and of the memory of empty().
    fn _names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.state.local(py, |open| {
            let allocated = open.engine()?.allocated()?;
            Ok(open.held.keys().chain(open.followed.keys()).cloned().chain(allocated).collect())
        })
    }

    /// For steps: the running loop.
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

    /// Sets a note: revisions from now on carry `value`, a text or a number, under `name`, until you set it again.
    /// Restored.notes has it as text. Local. Not allowed between begin() and checkpoint().
    fn note(&self, py: Python<'_>, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (name, value) = notes::note(name, value).map_err(|error| raise(py, &error))?;
        self.state.call(py, |engine| engine.note(&name, &value))
    }

    /// Saves all protected buffers as a new revision and returns its number as soon as their bytes are copied: the
    /// program may go on and change them. Collective: one small all-reduce; the end of a checkpoint of begin() is
    /// local. If the revision before failed and no rank has seen the error, this raises the error and saves nothing:
    /// call it again.
    ///
    /// `notes`, a mapping of names to texts and numbers, are kept as text with this revision and later ones, until
    /// you set a name again. A checkpoint of begin() takes its notes there.
    #[pyo3(signature = (notes=None))]
    fn checkpoint(&self, py: Python<'_>, notes: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        if notes.is_some() && self.state.call(py, Engine::has_begun)? {
            // The begun checkpoint stays as it is.
            let why = "a checkpoint has begun, and has its notes already; give them to begin()";
            return Err(raise(py, &Error::argument("notes", why)));
        }
        let notes = notes::notes(notes);
        let (flushed, raised) = self.state.flush(py);
        self.state.turn(py)?;
        let mut of_ranks = false;
        let saved = self.state.call_held(py, |engine| {
            // Each rank ends a begun checkpoint by itself.
            of_ranks = !engine.has_begun()?;
            let noted = flushed.and_then(|()| notes::set(engine, &notes?));
            or_refuse(engine, noted);
            engine.checkpoint()
        });
        of_all(py, self.rank(), of_ranks, saved.map_err(|error| caused(py, error, raised)))
    }

    /// Begins a checkpoint that the program writes in pieces, of at most `bytes` bytes on this rank. Count
    /// bytes in overlapping pieces twice, and count the gaps. write() and open() add to it; checkpoint() adds the
    /// protected buffers and ends it. Collective; the checkpoint() is then local. The first one of a space sizes the
    /// portions by `bytes`. Returns the number of the future revision. From here on the program can no longer read
    /// the revision that it restored. `notes` as in checkpoint(). If a rank left the checkpoint before without
    /// checkpoint() or abandon(), this call abandons it and raises an error on all ranks: call it again.
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

    /// Abandons the checkpoint that has begun, in place of checkpoint(). Collective: all ranks call it, or none.
    /// Mainstay keeps nothing of it, and complete revisions are unchanged. The number is used up.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        self.state.turn(py)?;
        self.state.call(py, Engine::abandon)
    }

    /// Writes the bytes of `data`, any object with the buffer protocol, at `offset` of the stream `name`. The first
    /// write creates the stream in the revision that has begun. Local. Pieces may have any order and size. If pieces
    /// overlap, the last one counts. Skipped bytes are zero, and count towards the bytes announced to begin(). After
    /// an error, checkpoint() raises it too and saves nothing.
    fn write(&self, py: Python<'_>, name: Text<'_>, offset: Whole<u64>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let name = name.to_string_lossy();
        let data = Flat::to_read(&format!("stream {name:?}"), data).map_err(|error| raise(py, &error))?;
        let bytes = data.bytes();
        self.state.call(py, |engine| engine.write(&name, offset.0, bytes))
    }

    /// Returns up to `bytes` bytes, or all, from `offset` on of the stream `name` of the restored revision: fewer
    /// only at its end. Local, verified; valid until the next checkpoint begins.
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

    /// Like read(), into `buffer`; returns the number of bytes read.
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

    /// Names and lengths of this rank's streams in the restored revision. Local.
    fn streams<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let streams = PyDict::new(py);
        for (name, bytes) in self.state.call(py, Engine::streams)? {
            streams.set_item(name, bytes)?;
        }
        Ok(streams)
    }

    /// Lets this rank read the shards of these numbers with read_shard(), on whichever node they are. Returns all
    /// shards of the restored revision, with their `items` and `notes`: shard r is the one that rank r saved,
    /// whatever the number of ranks now. Without numbers it does only that. Shards that only other nodes have are
    /// sent into memory of this rank. Collective; each rank passes the shards that it wants. Valid until the next
    /// checkpoint begins. InvalidArgument: nothing was restored, a checkpoint has begun since, or there is no such
    /// shard; Damaged: every copy of a shard is damaged.
    #[pyo3(signature = (shards=None))]
    fn bring_shards(&self, py: Python<'_>, shards: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Py<Shard>>> {
        let wanted = shards.map_or(Ok(Vec::new()), numbers);
        self.state.turn(py)?;
        let told = self.state.call(py, |engine| {
            let wanted = or_refuse(engine, wanted);
            engine.bring_shards(&wanted)?;
            let shards = engine.shards()?;
            (0..shards.shard_count()).map(|shard| contents_of(shards, shard)).collect::<Result<Vec<_>, Error>>()
        })?;
        (0..).zip(told).map(|(number, (items, notes))| Shard::of(py, number, &items, notes)).collect()
    }

    /// Returns up to `bytes` bytes, or all, from `offset` on of the item `name` of a shard of bring_shards(): fewer
    /// only at its end. Local, verified; valid until the next checkpoint begins.
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
        self.read_item(py, (shard, name), offset, bytes)
    }

    /// Like read_shard(), into `buffer`; returns the number of bytes read.
    fn readinto_shard(
        &self,
        py: Python<'_>,
        shard: Whole<u32>,
        name: Text<'_>,
        offset: Whole<u64>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        self.read_item_into(py, (shard, name), offset, buffer)
    }

    /// Returns a stream as a binary file: with "wb" a writer to the revision that has begun, with "rb" a reader of
    /// the restored revision. Local. A writer begins at offset 0 and truncates nothing; seek(0, 2) goes to the end of
    /// the bytes written so far. checkpoint() flushes writers. After it, or after another restore(), open the stream
    /// again.
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

    /// For files: counts the times between checkpoints and restores.
    #[getter]
    fn _moment(&self, py: Python<'_>) -> PyResult<u64> {
        self.state.local(py, |open| Ok(open.files.moment()))
    }

    /// For files: the end of the stream that is read, or the present end of the one that is written.
    fn _end(&self, py: Python<'_>, name: Text<'_>, mode: &str) -> PyResult<u64> {
        let name = name.to_string_lossy();
        self.state.local(py, |open| match mode {
            "wb" => open.engine()?.written_bytes(&name),
            _ => open.engine()?.stream_bytes(&name),
        })
    }

    /// Saves the bytes of `data`, any object with the buffer protocol, under `name` as the next revision, together
    /// with the protected buffers if there are any. Returns its number once it is complete: durable on all ranks.
    /// Collective; the number of bytes may differ between ranks and calls. A restore() leaves it to get(), unless a
    /// buffer is protected under its name.
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

    /// Fills `buffer` from the beginning with the bytes that this rank saved under `name`, in the revision of this
    /// number, or in the newest that can be read whole on all ranks; `None` if nothing was saved yet. Collective.
    /// Every block is verified. Nothing else changes: the next checkpoint goes on as if the program had not read.
    /// After InvalidArgument, RegionMissing, RevisionMissing and RankCount the buffer is unchanged. After any other
    /// error it is undefined.
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

    /// The number of bytes that get() would fill in on this rank, if nothing is damaged; `None` if nothing was saved
    /// yet. Collective.
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

    /// Whether the program should checkpoint now, after `step` steps; the same on all ranks. Every rank calls it at
    /// the same steps, with the same number. A checkpoint is due by the settings every_steps, every_seconds and
    /// mtbf_seconds, by the signal of checkpoint_signal on any rank, and by a request from outside: `mainstay
    /// checkpoint`, and `mainstay run` before the job's end. While the last revision is not durable on the nearest
    /// level of any rank, no checkpoint is due by steps or time. It is due at the first step after that, unless the
    /// setting when_busy is "now". Most calls cost one increment. About every agree_seconds, and at steps that make a
    /// checkpoint due, the call is collective, with one small all-reduce.
    fn due(&self, py: Python<'_>, step: &Bound<'_, PyAny>) -> PyResult<bool> {
        let step = whole("step", step);
        self.state.call(py, |engine| {
            let refused = step.as_ref().err().cloned();
            let step = or_refuse(engine, step);
            let due = engine.due(step)?;
            // If the ranks did not meet now, the next call reports it to the others.
            refused.map_or(Ok(due), Err)
        })
    }

    /// Waits until the last revision is complete: durable on all ranks. Collective. If it failed, all ranks raise the
    /// error once, here or in checkpoint(). Then nothing is in progress, and this returns at once until the next
    /// checkpoint.
    ///
    /// `level` is "memory" or "disk" of the nodes, or "space", the space that you opened. It then waits until the
    /// last revision that went to that level is complete there. It does not wait for the levels behind it.
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
        // An argument that is not text names no level.
        let level = level.str().map(|level| level.to_string_lossy().into_owned());
        let level = LevelKind::named(level.as_deref().unwrap_or_default());
        let waited = self.state.call(py, |engine| {
            was_called = true;
            let level = or_refuse(engine, level);
            engine.wait_for(level)
        });
        of_all(py, self.rank(), was_called, waited)
    }

    /// Advances the transfers between this rank and others, such as copies to other nodes: for programs that compute
    /// for long between two calls. Local, never waits. wait(), close() or the next checkpoint() raise the errors of
    /// transfers.
    fn progress(&self, py: Python<'_>) -> PyResult<()> {
        self.state.call(py, Engine::progress)
    }

    /// Marks a moment inside a step, where one phase ends and the next begins. With the settings trace or predictor
    /// Mainstay then looks for the pages that the program has written since the last such moment. Otherwise the call
    /// does nothing. Local, never waits for a write.
    fn tick(&self, py: Python<'_>) -> PyResult<()> {
        self.state.call(py, Engine::tick)
    }

    /// Whether this rank's part of the last revision is durable. Local, never waits. True also if nothing is under
    /// way: nothing was saved yet, or all ranks were told that the last revision failed.
    fn poll(&self, py: Python<'_>) -> PyResult<bool> {
        self.state.local(py, |open| open.engine()?.poll())
    }

    /// The cost of the newest checkpoint that is durable on this rank. Local, never waits.
    fn last_record(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        self.state.local(py, |open| Ok(open.engine()?.last_record()?.map(Record::from)))
    }

    /// Results of saving early on this rank, in blocks of 4 KiB. Local, never waits.
    fn speculation(&self, py: Python<'_>) -> PyResult<Speculation> {
        self.state.local(py, |open| open.engine()?.speculation().map(Speculation::from))
    }

    /// Waits for the last revision and ends the session, even if it raises. Collective, before MPI.Finalize. A second
    /// call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.end(py).map_err(|error| raise(py, &error))
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        slf.get().state.local(py, |_| Ok(()))?;
        Ok(slf)
    }

    /// Closes. After an exception, which may be this rank's alone, it closes without the other ranks: this rank's
    /// part of the last revision becomes durable, and the exception goes on.
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

/// numpy's objection to a type of elements.
fn odd_type(py: Python<'_>, error: &PyErr) -> PyErr {
    raise(py, &Error::argument("dtype", format!("numpy has no such type: {}", error.value(py))))
}

/// The place of a box, if it is one.
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

/// The name of a buffer in an error.
fn buffer_of(name: &Result<String, Error>) -> String {
    format!("buffer {:?}", name.as_deref().unwrap_or_default())
}

/// The number of a revision. A number that no revision can have means none of them.
fn number(revision: Option<&Bound<'_, PyAny>>) -> Result<Option<u64>, Error> {
    let Some(given) = revision else { return Ok(None) };
    let told = || Error::argument("revision", format!("{given} is none, it takes a number from 1 on"));
    given.extract().map(Some).map_err(|_| told())
}

impl ReadsShards for Session {
    fn reading<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Reader) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.state.call(py, |engine| call(engine.shards()?))
    }
}

/// The numbers of shards.
fn numbers(shards: &Bound<'_, PyAny>) -> Result<Vec<u32>, Error> {
    let told = || Error::argument("shards", format!("{shards} is no sequence of their numbers, from 0 on"));
    let each = shards.try_iter().map_err(|_| told())?;
    each.map(|number| number.and_then(|number| number.extract()).map_err(|_: PyErr| told())).collect()
}

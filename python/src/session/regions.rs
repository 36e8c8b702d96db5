//! Protected memory and files.

use super::Session;
use crate::{
    buffer::Buffer,
    error::raise,
    memory::Memory,
    number::{Flag, Text, Whole, Wholes},
    settings::path as path_of,
};
use mainstay_engine::{Allocated, Error, space::format::PlaceInWhole};
use pyo3::{IntoPyObjectExt, intern, prelude::*};

#[pymethods]
impl Session {
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

    /// Declares that any number of ranks can take over the shards of this job: the program divides them anew itself, by
    /// bring_shards. With recovery = "shrink" the job then goes on with fewer ranks. Local. It holds until the session
    /// ends; call it alike on all ranks.
    fn any_number_of_ranks(&self, py: Python<'_>) -> PyResult<()> {
        self.state.local(py, |open| open.engine()?.any_number_of_ranks())
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

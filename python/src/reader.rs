//! Reading a revision from outside a job.

use crate::{
    buffer::Flat,
    error::{detached, raise},
    number::{Text, Whole, Wholes},
    settings::path as path_of,
};
use mainstay_engine::{
    Error, Reader as Engine, count,
    space::format::{self, ElementType, ItemKind},
};
use pyo3::{
    exceptions::PyBaseException,
    prelude::*,
    types::{PyBytes, PyTuple, PyType},
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError, TryLockError},
};

/// One revision of a space, opened by read(); the end of a `with` block closes it. One thread at a time may use it.
#[pyclass(frozen, module = "mainstay")]
pub struct Reader {
    #[pyo3(get)]
    path: String,
    #[pyo3(get)]
    revision: u64,
    /// Shard r is the one that rank r saved.
    #[pyo3(get)]
    shards: Vec<Py<Shard>>,
    /// `None` once it is closed.
    engine: Mutex<Option<Engine>>,
}

/// The items and notes that one rank saved.
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Shard {
    number: u32,
    items: Vec<Py<Item>>,
    notes: BTreeMap<String, String>,
}

/// One item of a shard.
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Item {
    name: String,
    /// "region", "object" (a buffer of put) or "stream".
    kind: &'static str,
    element_type: &'static str,
    /// numpy's name of the element type.
    dtype: &'static str,
    shape: Py<PyTuple>,
    /// Shape of the global array in which the item is a box, and the beginning of that box; `None`: it is none.
    global_shape: Option<Py<PyTuple>>,
    offset: Option<Py<PyTuple>>,
    bytes: u64,
}

/// Opens a revision of the space in the directory `path` for reading: the complete revision of this number, or the
/// newest. Local: any process may call it, without MPI. While a job is running, the reader holds the revision until
/// you close it, or for an hour after its last use.
#[pyfunction]
#[pyo3(signature = (path, revision=None))]
pub fn read(py: Python<'_>, path: &Bound<'_, PyAny>, revision: Option<Whole<u64>>) -> PyResult<Reader> {
    let revision = revision.map(|Whole(revision)| revision);
    let opened = path_of("path", path).and_then(|path| detached(py, || Engine::open(&path, revision, "mainstay.read")));
    let engine = opened.map_err(|error| raise(py, &error))?;
    let mut shards = Vec::new();
    for number in 0..engine.shard_count() {
        let (items, notes) = contents_of(&engine, number).map_err(|error| raise(py, &error))?;
        shards.push(Shard::of(py, number, &items, notes)?);
    }
    let (path, revision) = (engine.path().to_owned(), engine.key().number);
    Ok(Reader { path, revision, shards, engine: Mutex::new(Some(engine)) })
}

/// The items and notes of a shard.
pub(crate) fn contents_of(reader: &Engine, shard: u32) -> Result<Contents, Error> {
    Ok((reader.items(shard)?.to_vec(), reader.notes(shard)?))
}

type Contents = (Vec<format::Item>, BTreeMap<String, String>);

/// A `Reader`, or a session after a restore.
pub(crate) trait ReadsShards {
    /// Calls the engine without the interpreter.
    fn reading<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Engine) -> Result<T, Error> + Send,
    ) -> PyResult<T>;

    fn read_item<'py>(
        &self,
        py: Python<'py>,
        (shard, name): (Whole<u32>, Text<'_>),
        Whole(offset): Whole<u64>,
        bytes: Option<Whole<u64>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (Whole(shard), name) = (shard, name.to_string_lossy());
        let there = self.reading(py, |reader| Ok(reader.item(shard, &name)?.bytes))?.saturating_sub(offset);
        let bytes = bytes.map_or(there, |Whole(most)| most.min(there));
        PyBytes::new_with(py, bytes as usize, |into| {
            self.reading(py, |reader| reader.read(shard, &name, offset, into)).map(drop)
        })
    }

    fn read_item_into(
        &self,
        py: Python<'_>,
        (shard, name): (Whole<u32>, Text<'_>),
        offset: Whole<u64>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let name = name.to_string_lossy();
        let mut buffer = Flat::to_fill(&format!("item {name:?}"), buffer).map_err(|error| raise(py, &error))?;
        let into = buffer.bytes_mut();
        self.reading(py, |reader| reader.read(shard.0, &name, offset.0, into))
    }
}

impl Shard {
    pub(crate) fn of(
        py: Python<'_>,
        number: u32,
        items: &[format::Item],
        notes: BTreeMap<String, String>,
    ) -> PyResult<Py<Shard>> {
        let items = items.iter().map(|item| Py::new(py, Item::of(py, item)?)).collect::<PyResult<_>>()?;
        Py::new(py, Shard { number, items, notes })
    }
}

impl Item {
    pub(crate) fn of(py: Python<'_>, item: &format::Item) -> PyResult<Item> {
        let tuple = |numbers: &[u64]| PyTuple::new(py, numbers).map(Bound::unbind);
        let place = item.place.as_ref();
        Ok(Item {
            name: item.name.clone(),
            kind: match item.kind {
                ItemKind::Region => "region",
                ItemKind::Object => "object",
                ItemKind::Stream => "stream",
            },
            element_type: item.element.name(),
            dtype: item.element.numpy(),
            shape: tuple(&item.shape)?,
            global_shape: place.map(|place| tuple(&place.global_shape)).transpose()?,
            offset: place.map(|place| tuple(&place.offset)).transpose()?,
            bytes: item.bytes,
        })
    }
}

/// An item as an array.
struct Found {
    /// `None`: a global array, of all shards together.
    shard: Option<u32>,
    dtype: &'static str,
    shape: Vec<u64>,
    bytes: u64,
}

impl Found {
    fn of(engine: &Engine, name: &str, shard: Option<u32>) -> Result<Found, Error> {
        if let Some(shard) = shard {
            return Ok(Found::part(shard, engine.item(shard, name)?));
        }
        let mut all = Vec::new();
        for shard in 0..engine.shard_count() {
            all.extend(engine.items(shard)?.iter().find(|item| item.name == name).map(|item| (shard, item)));
        }
        match &all[..] {
            // The name in the error if there is none.
            [] => engine.item(0, name).map(|item| Found::part(0, item)),
            [(_, item), ..] if item.place.is_some() => {
                let shape = item.place.as_ref().map_or_else(Vec::new, |place| place.global_shape.clone());
                let bytes = shape.iter().try_fold(item.element.size(), |all, length| all.checked_mul(*length));
                let bytes = bytes.ok_or_else(|| Error::argument("array", "no memory has room for it"))?;
                Ok(Found { shard: None, dtype: item.element.numpy(), shape, bytes })
            }
            [(shard, item)] => Ok(Found::part(*shard, item)),
            several => {
                let shards = count(several.len() as u64, "shard");
                let why = format!("{shards} have an item {name:?} of their own; say which: array({name:?}, shard=0)");
                Err(Error::argument("shard", why))
            }
        }
    }

    fn part(shard: u32, item: &format::Item) -> Found {
        let product = item.shape.iter().try_fold(item.element.size(), |all, length| all.checked_mul(*length));
        let is_sound = product == Some(item.bytes) && (item.element != ElementType::Bytes || !item.shape.is_empty());
        let (dtype, shape) = match is_sound {
            true => (item.element.numpy(), item.shape.clone()),
            false => (ElementType::Bytes.numpy(), vec![item.bytes]),
        };
        Found { shard: Some(shard), dtype, shape, bytes: item.bytes }
    }
}

#[pymethods]
impl Shard {
    fn __repr__(&self) -> String {
        format!("<mainstay.Shard: {}, {}>", self.number, count(self.items.len() as u64, "item"))
    }
}

#[pymethods]
impl Item {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Item { name, kind, element_type, shape, bytes, .. } = self;
        let place = match (&self.offset, &self.global_shape) {
            (Some(offset), Some(shape)) => format!(" at {} of {}", offset.bind(py).repr()?, shape.bind(py).repr()?),
            _ => String::new(),
        };
        let shape = shape.bind(py).repr()?;
        Ok(format!("<mainstay.Item: {kind} {name}, {element_type} {shape}{place}, {bytes} bytes>"))
    }
}

impl ReadsShards for Reader {
    fn reading<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Engine) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let called = || {
            let mut engine = match self.engine.try_lock() {
                Ok(engine) => engine,
                Err(TryLockError::Poisoned(engine)) => engine.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    let why = "a call of it is under way in another thread; use a reader from one thread at a time";
                    return Err(Error::argument("reader", why));
                }
            };
            let engine = engine.as_mut().ok_or_else(|| Error::argument("reader", "it is closed"))?;
            detached(py, || call(engine))
        };
        called().map_err(|error| raise(py, &error))
    }
}

#[pymethods]
impl Reader {
    /// Returns up to `bytes` bytes, or all, from `offset` on of the item `name` of a shard; verified.
    #[pyo3(
        signature = (shard, name, offset=Whole(0), bytes=None),
        text_signature = "($self, shard, name, offset=0, bytes=None)"
    )]
    fn read<'py>(
        &self,
        py: Python<'py>,
        shard: Whole<u32>,
        name: Text<'_>,
        offset: Whole<u64>,
        bytes: Option<Whole<u64>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.read_item(py, (shard, name), offset, bytes)
    }

    /// Like read(), into `buffer`; returns the number of bytes read.
    fn readinto(
        &self,
        py: Python<'_>,
        shard: Whole<u32>,
        name: Text<'_>,
        offset: Whole<u64>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        self.read_item_into(py, (shard, name), offset, buffer)
    }

    /// Fills `buffer` with a box of the global array `name`, from all shards that hold part of it. The box begins at
    /// `offset` and has this `shape`.
    fn read_box(
        &self,
        py: Python<'_>,
        name: Text<'_>,
        offset: Wholes<u64>,
        shape: Wholes<u64>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let name = name.to_string_lossy();
        let mut buffer = Flat::to_fill(&format!("box of {name:?}"), buffer).map_err(|error| raise(py, &error))?;
        let into = buffer.bytes_mut();
        let [offset, shape] = [offset, shape].map(|Wholes(all)| all);
        self.reading(py, |engine| engine.read_box(&name, &offset, &shape, into))
    }

    /// Returns the item `name` as a numpy array of its saved type and shape. With `shard` it is the item of that
    /// shard. Without one it is the whole global array, or the item that only one shard has. A stream is its bytes,
    /// and so is an item with elements that numpy does not know.
    #[pyo3(signature = (name, shard=None))]
    fn array<'py>(&self, py: Python<'py>, name: Text<'_>, shard: Option<Whole<u32>>) -> PyResult<Bound<'py, PyAny>> {
        let name = name.to_string_lossy();
        let shard = shard.map(|Whole(shard)| shard);
        let Found { shard, dtype, shape, bytes } = self.reading(py, |engine| Found::of(engine, &name, shard))?;
        let array = py.import("numpy")?.call_method1("empty", (bytes, "u1"))?;
        {
            let mut buffer = Flat::to_fill(&format!("item {name:?}"), &array).map_err(|error| raise(py, &error))?;
            let into = buffer.bytes_mut();
            self.reading(py, |engine| match shard {
                Some(shard) => engine.read(shard, &name, 0, into).map(drop),
                None => engine.read_box(&name, &vec![0; shape.len()], &shape, into),
            })?;
        }
        array.call_method1("view", (dtype,))?.call_method1("reshape", (PyTuple::new(py, &shape)?,))
    }

    /// Releases the revision; a second call does nothing.
    fn close(&self, py: Python<'_>) {
        // A call in progress in another thread ends first.
        py.detach(|| drop(self.engine.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _exception_type: Option<&Bound<'_, PyType>>,
        _exception: Option<&Bound<'_, PyBaseException>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!(
            "<mainstay.Reader: revision {} of {}, {}>",
            self.revision,
            self.path,
            count(self.shards.len() as u64, "shard")
        )
    }
}

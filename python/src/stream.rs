//! Files that are open on streams.

use mainstay_engine::Error;
use pyo3::{
    intern,
    prelude::*,
    types::{PyString, PyWeakrefReference},
};

/// The open files of one session.
#[derive(Default)]
pub(crate) struct Files {
    /// Counts the events that make all open files useless.
    moment: u64,
    /// Files that are being written, which have buffers.
    writers: Vec<Py<PyWeakrefReference>>,
}

impl Files {
    pub(crate) fn turn(&mut self) {
        self.moment += 1;
        self.writers.clear();
    }

    pub(crate) fn moment(&self) -> u64 {
        self.moment
    }

    pub(crate) fn add(&mut self, writer: Py<PyWeakrefReference>) {
        self.writers.push(writer);
    }

    pub(crate) fn writers(&mut self) -> Vec<Py<PyWeakrefReference>> {
        std::mem::take(&mut self.writers)
    }
}

/// Opens a file by the package's Python code: files are Python's own, and have its buffers.
pub(crate) fn open<'py>(
    session: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    mode: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let module = session.py().import(intern!(session.py(), "mainstay._stream"))?;
    module.getattr(intern!(session.py(), "open_stream"))?.call1((session, name, mode))
}

/// Flushes the buffers of all files. Returns the first error, and the exception raised.
pub(crate) fn flush(py: Python<'_>, writers: &[Py<PyWeakrefReference>]) -> (Result<(), Error>, Option<PyErr>) {
    let flush_one = |writer: &Bound<'_, PyAny>| {
        let is_closed = writer.getattr(intern!(py, "closed"))?.is_truthy()?;
        if is_closed { Ok(()) } else { writer.call_method0(intern!(py, "flush")).map(drop) }
    };
    let all = writers.iter().filter_map(|writer| writer.bind(py).upgrade());
    let raised = all.map(|writer| flush_one(&writer)).fold(Ok(()), Result::and).err();
    let told = raised.as_ref().map(|error| error.value(py).to_string());
    (told.map_or(Ok(()), |told| Err(Error::argument("a file that is open on a stream", told))), raised)
}

//! Single buffers that are saved and read under a name.

use super::{Session, revisions::number};
use crate::{buffer::Flat, got::Got, open::or_refuse, reader::Item, settings::text};
use mainstay_engine::Error;
use pyo3::prelude::*;

#[pymethods]
impl Session {
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
}

/// The name of a buffer in an error.
fn buffer_of(name: &Result<String, Error>) -> String {
    format!("buffer {:?}", name.as_deref().unwrap_or_default())
}

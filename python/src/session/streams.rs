//! Checkpoints in pieces: the streams that the program writes and reads.

use super::Session;
use crate::{
    buffer::Flat,
    error::raise,
    notes,
    number::{Text, Whole, whole},
    open::or_refuse,
    stream,
};
use mainstay_engine::Session as Engine;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyWeakrefReference},
};

#[pymethods]
impl Session {
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
}

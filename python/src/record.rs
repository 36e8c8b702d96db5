//! Cost of checkpoints.

use pyo3::prelude::*;

/// Cost of one checkpoint on this rank. t1: request; t2: the program goes on; t3: durable here.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "mainstay")]
pub struct Record {
    revision: u64,
    /// t1 in nanoseconds since 1970.
    t1_unix_ns: u64,
    /// Nanoseconds in the all-reduce at t1.
    communication_ns: u64,
    /// Nanoseconds of waiting for a free chunk of the pool.
    buffer_wait_ns: u64,
    /// Nanoseconds of copying into buffers, and of the writes for which the program waited: of pieces that bypass the
    /// buffers, and of a rank's own buffer (stage "direct": all writes).
    copy_ns: u64,
    /// The rest of t2 - t1, without `resume_ns`, in nanoseconds.
    other_ns: u64,
    /// t2 - t1 in nanoseconds.
    perceived_ns: u64,
    /// t3 - t1 in nanoseconds.
    durable_ns: u64,
    /// Bytes of all items: regions and streams.
    bytes: u64,
    /// Bytes written, with padding and metadata.
    written_bytes: u64,
    chunks: u64,
    writes: u64,
    /// Nanoseconds of phase 3, from the last byte staged to t2 (stage "direct": sync and publish).
    resume_ns: u64,
}

#[pymethods]
impl Record {
    fn __repr__(&self) -> String {
        let (perceived, durable) = (self.perceived_ns as f64 / 1e6, self.durable_ns as f64 / 1e6);
        format!(
            "<mainstay.Record of revision {}: {} bytes, perceived {perceived:.3} ms, durable {durable:.3} ms>",
            self.revision, self.bytes
        )
    }
}

impl From<mainstay_engine::Record> for Record {
    fn from(last: mainstay_engine::Record) -> Record {
        let phases = last.phases;
        Record {
            revision: last.revision,
            t1_unix_ns: phases.t1_unix_ns,
            communication_ns: phases.communication_ns,
            buffer_wait_ns: phases.buffer_wait_ns,
            copy_ns: phases.copy_ns,
            other_ns: phases.other_ns(),
            perceived_ns: phases.perceived_ns,
            durable_ns: phases.durable_ns,
            bytes: last.bytes,
            written_bytes: phases.written_bytes,
            chunks: phases.chunks,
            writes: phases.writes,
            resume_ns: phases.resume_ns,
        }
    }
}

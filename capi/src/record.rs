//! Cost of checkpoints.

use crate::{
    argument::null,
    error::{Status, guard},
    session::{Session, session_of},
};

/// Cost of one checkpoint on this rank. t1: request; t2: the program goes on; t3: durable here.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Record {
    /// 0: no checkpoint has become durable yet.
    pub revision: u64,
    /// t1 in nanoseconds since 1970.
    pub t1_unix_ns: u64,
    /// Nanoseconds in the all-reduce at t1.
    pub communication_ns: u64,
    /// Nanoseconds in which the copy waited for a free chunk of the pool.
    pub buffer_wait_ns: u64,
    /// Nanoseconds spent copying into buffers, and in the writes for which the program waited: of pieces that bypass
    /// the buffers, and of a rank's own buffer (stage direct: all writes).
    pub copy_ns: u64,
    /// The rest of t2 - t1, without `resume_ns`.
    pub other_ns: u64,
    /// t2 - t1.
    pub perceived_ns: u64,
    /// t3 - t1.
    pub durable_ns: u64,
    /// Bytes of all items: regions and streams.
    pub bytes: u64,
    /// Bytes written, with padding and metadata.
    pub written_bytes: u64,
    pub chunks: u64,
    pub writes: u64,
    /// Nanoseconds of phase 3, part of t2 - t1: from the last byte staged to t2 (stage direct: sync and publish).
    pub resume_ns: u64,
}

/// Puts the record of the newest checkpoint that is durable on this rank into `*record`. Local, never waits.
///
/// # Safety
/// `session` is open, `record` points to a mainstay_record.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_last_record(session: *mut Session, record: *mut Record) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, record) = unsafe { (session_of(session)?, record.as_mut()) };
        let record = record.ok_or_else(|| null("record"))?;
        *record = session.engine.last_record()?.map_or_else(Record::default, |last| {
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
        });
        Ok(())
    })
}

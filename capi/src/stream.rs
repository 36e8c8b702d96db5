//! Streams: items that are written in pieces.

use crate::{
    argument::{null, or_refuse},
    error::{Status, c_text, guard},
    memory::{given, room},
    region::name_of,
    session::{Session, session_of},
};
use mainstay_engine::Error;
use std::ffi::{c_char, c_void};

/// t1 of a checkpoint that the program writes in pieces: any number of mainstay_write, then
/// mainstay_checkpoint, which adds the protected regions and returns at t2, or mainstay_abandon. Collective;
/// mainstay_write and mainstay_checkpoint are local then. `bytes`: the most that this rank is going to write
/// in pieces, a piece that lies over another counted once more, and what lies in the gaps between them, as each stream is
/// saved from its first byte to its last; the first
/// checkpoint of a space sizes the portions by it. `revision` may be NULL; else it gets
/// the number that the revision will have. Nothing of the revision before can be read any more. Where a rank has left
/// the one before without mainstay_checkpoint or mainstay_abandon, that one is given up, and all ranks are told so here:
/// call it again.
///
/// # Safety
/// `session` is open, `revision` is null or points to a uint64_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_begin(session: *mut Session, bytes: u64, revision: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, revision) = unsafe { (session_of(session)?, revision.as_mut()) };
        // Also a negative number of a front whose numbers have a sign.
        let fits = i64::try_from(bytes).map(|_| bytes);
        let bytes = fits.map_err(|_| Error::argument("begin", format!("{bytes} bytes are more than any file has")));
        let bytes = or_refuse(&mut session.engine, bytes);
        let number = session.engine.begin(bytes)?;
        if let Some(revision) = revision {
            *revision = number;
        }
        Ok(())
    })
}

/// Writes `bytes` bytes at `offset` of the stream `name`, which begins to exist in the revision that was
/// begun, and grows. Any order, any size; what is written twice is what was written last, what was skipped
/// is zero, and counts towards the bytes announced to mainstay_begin. Local; the memory is the program's again when
/// it returns. An error is told by mainstay_checkpoint too, which then saves nothing. Names are those of regions, and
/// no region may have this one.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `data` points to `bytes` bytes, or is null if that is 0.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_write(
    session: *mut Session,
    name: *const c_char,
    offset: u64,
    data: *const c_void,
    bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (piece, session, name) = unsafe { (given(data, bytes)?, session_of(session)?, name_of(name)?) };
        session.engine.write(&name, offset, piece)
    })
}

/// Gives up the checkpoint that was begun, in place of mainstay_checkpoint. Collective: all ranks do, or none.
/// Nothing of it is kept, and the revisions that were complete stay as they were. Its number is used up: the
/// next revision gets the one behind it.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_abandon(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.abandon())
}

/// Reads `bytes` bytes at `offset` of the stream `name` of the revision that the last mainstay_restore
/// brought back, verified. `*got` becomes how many there were: fewer than `bytes` only at the end of the
/// stream; 0 after an error, when `data` is undefined. Local; until the next checkpoint begins.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `data` points to room for `bytes` bytes, which may be
/// null if that is 0, and `got` to a size_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_read(
    session: *mut Session,
    name: *const c_char,
    offset: u64,
    data: *mut c_void,
    bytes: usize,
    got: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let got = unsafe { got.as_mut() }.ok_or_else(|| null("got"))?;
        *got = 0;
        // SAFETY: the caller's promises are passed on.
        let (into, session, name) = unsafe { (room(data, bytes)?, session_of(session)?, name_of(name)?) };
        *got = session.engine.read(&name, offset, into)?;
        Ok(())
    })
}

/// Puts the length of the stream `name` of the revision that the last mainstay_restore brought back into
/// `*bytes`. Local; until the next checkpoint begins.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `bytes` points to a uint64_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_stream_bytes(session: *mut Session, name: *const c_char, bytes: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name, bytes) = unsafe { (session_of(session)?, name_of(name)?, bytes.as_mut()) };
        let bytes = bytes.ok_or_else(|| null("bytes"))?;
        *bytes = session.engine.stream_bytes(&name)?;
        Ok(())
    })
}

/// Puts into `*count` how many streams this rank has in the revision that the last mainstay_restore brought back; 0 if
/// there was nothing to restore. Local; until the next checkpoint begins.
///
/// # Safety
/// `session` is open, `count` points to a size_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_streams(session: *mut Session, count: *mut usize) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, count) = unsafe { (session_of(session)?, count.as_mut()) };
        let count = count.ok_or_else(|| null("count"))?;
        *count = session.engine.streams()?.len();
        Ok(())
    })
}

/// Puts the name and the length of stream `index` of these, from 0 on, into `*name` and `*bytes`. The name is valid until
/// the next call of this function, or the close. `bytes` may be NULL. Local; until the next checkpoint begins.
///
/// # Safety
/// `session` is open, `name` points to room for a pointer, `bytes` is null or points to a uint64_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_stream(
    session: *mut Session,
    index: usize,
    name: *mut *const c_char,
    bytes: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name, bytes) = unsafe { (session_of(session)?, name.as_mut(), bytes.as_mut()) };
        let name = name.ok_or_else(|| null("name"))?;
        let mut streams = session.engine.streams()?;
        if index >= streams.len() {
            // Fortran counts from 1.
            let why = format!("the last restore brought back {}, and none has this number", streams.len());
            return Err(Error::argument("stream", why));
        }
        let (told, length) = streams.swap_remove(index);
        session.stream = c_text(&told);
        *name = session.stream.as_ptr();
        if let Some(bytes) = bytes {
            *bytes = length;
        }
        Ok(())
    })
}

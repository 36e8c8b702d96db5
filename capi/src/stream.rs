//! Streams: items that the program writes in pieces.

use crate::{
    argument::{null, or_refuse},
    error::{Status, c_text, guard},
    memory::{given, room},
    region::name_of,
    session::{Session, session_of},
};
use mainstay_engine::Error;
use std::ffi::{c_char, c_void};

/// Begins a checkpoint that the program writes in pieces: this is t1. Call mainstay_write any number of times. Then
/// call mainstay_checkpoint, which adds the protected regions and returns at t2, or mainstay_abandon. Collective;
/// mainstay_write and mainstay_checkpoint are then local. `bytes` is the most that this rank is going to write in
/// pieces. Count bytes in overlapping pieces twice, and count skipped bytes, because Mainstay saves each stream from
/// its first byte to its last. The first checkpoint of a space sizes the portions by `bytes`. `revision` may be NULL;
/// otherwise it receives the number that the revision will have. From here on the program can no longer read the
/// revision that it restored. If a rank left the checkpoint before without mainstay_checkpoint or mainstay_abandon,
/// this call abandons it and returns an error on all ranks: call it again.
///
/// # Safety
/// `session` is open, `revision` is null or points to a uint64_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_begin(session: *mut Session, bytes: u64, revision: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, revision) = unsafe { (session_of(session)?, revision.as_mut()) };
        // Also refuses a negative number from a language with signed numbers.
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

/// Writes `bytes` bytes at `offset` of the stream `name`. The first write creates the stream in the revision that has
/// begun, and later ones extend it. Pieces may have any order and size. If pieces overlap, the last one counts.
/// Skipped bytes are zero, and count towards the bytes announced to mainstay_begin. Local. The memory is the
/// program's again when the call returns. If a write fails, mainstay_checkpoint fails too and saves nothing. Names
/// follow the rules of regions, and must differ from those of all regions.
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

/// Abandons the checkpoint that has begun, in place of mainstay_checkpoint. Collective: all ranks call it, or none.
/// Mainstay keeps nothing of it, and complete revisions are unchanged. The number is used up: the next revision gets
/// the next one.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_abandon(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.abandon())
}

/// Reads `bytes` bytes at `offset` of the stream `name`, from the revision of the last mainstay_restore, and verifies
/// them. `*got` receives the number of bytes read: fewer than `bytes` only at the end of the stream; 0 after an
/// error, when `data` is undefined. Local; valid until the next checkpoint begins.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `data` points to room for `bytes` bytes, which may be null if
/// that is 0, and `got` to a size_t.
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

/// Puts the length of the stream `name` into `*bytes`, in the revision of the last mainstay_restore. Local; valid
/// until the next checkpoint begins.
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

/// Puts into `*count` the number of this rank's streams in the revision of the last mainstay_restore; 0 if there was
/// nothing to restore. Local; valid until the next checkpoint begins.
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

/// Puts name and length of one of these streams into `*name` and `*bytes`; `index` counts from 0. The name is valid
/// until the next call of this function, or the close. `bytes` may be NULL. Local; valid until the next checkpoint
/// begins.
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

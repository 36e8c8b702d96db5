//! Whole buffers: put saves one as the next revision, get reads it back from any revision that still exists.

use crate::{
    argument::{null, or_refuse},
    error::{Status, c_text, guard},
    item::{Item, Named},
    memory::{given, room},
    region::name_of,
    session::{Session, session_of},
};
use std::ffi::{c_char, c_void};

/// In place of a revision's number, in all calls that take one: the newest revision that can be read whole. For a
/// reader, the newest complete one.
pub const NEWEST: u64 = u64::MAX;

/// The result of mainstay_get.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Got {
    /// The revision's number, 1 or more. 0: nothing was saved yet, and the buffer is unchanged.
    pub revision: u64,
    /// Bytes that this rank saved, and that the call filled in.
    pub bytes: u64,
    /// Number of damaged parts: parts of the space, and newer revisions that the call passed over for damage.
    /// mainstay_report describes them.
    pub skipped: u64,
}

/// Saves `bytes` bytes at `data` under `name` as the next revision, together with the protected regions if there are
/// any. Returns when the revision is complete: durable on all ranks. A restore leaves the buffer to mainstay_get,
/// unless a region has its name. Collective. The number of bytes may differ between ranks and calls. `revision` may
/// be NULL; otherwise it receives the revision's number. If one rank fails, all ranks return the error, and earlier
/// revisions are unchanged.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `data` points to `bytes` bytes, or is null if that is 0, and
/// `revision` is null or points to a uint64_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_put(
    session: *mut Session,
    name: *const c_char,
    data: *const c_void,
    bytes: usize,
    revision: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name, data, revision) =
            unsafe { (session_of(session)?, name_of(name), given(data, bytes), revision.as_mut()) };
        let (name, data) = (or_refuse(&mut session.engine, name), or_refuse(&mut session.engine, data));
        let number = session.engine.put(&name, data)?;
        if let Some(revision) = revision {
            *revision = number;
        }
        Ok(())
    })
}

/// Fills `data`, which has room for `bytes` bytes, with the bytes that this rank saved under `name`. They come from
/// the revision of this number, or from MAINSTAY_NEWEST: the newest that can be read whole on all ranks. Collective.
/// Mainstay verifies every block. `got` may be NULL.
///
/// Nothing else changes: the next checkpoint goes on as if the program had not read. The call fails before it fills
/// anything if the room is too small on any rank, the name was not saved, the revision is missing, or the error is
/// MAINSTAY_RANK_COUNT. After any other error `data` is undefined.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `data` points to room for `bytes` bytes, or is null if that is 0,
/// and `got` is null or points to a mainstay_got.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_get(
    session: *mut Session,
    revision: u64,
    name: *const c_char,
    data: *mut c_void,
    bytes: usize,
    got: *mut Got,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name, into, got) =
            unsafe { (session_of(session)?, name_of(name), room(data, bytes), got.as_mut()) };
        let (name, into) = (or_refuse(&mut session.engine, name), or_refuse(&mut session.engine, into));
        let found = session.engine.get(number(revision), &name, into)?;
        let skipped = found.as_ref().map_or(&[][..], |found| &found.skipped);
        session.report = c_text(&skipped.iter().map(|what| format!("{what}\n")).collect::<String>());
        if let Some(got) = got {
            got.revision = found.as_ref().map_or(0, |found| found.revision);
            got.bytes = found.as_ref().map_or(0, |found| found.bytes);
            got.skipped = skipped.len() as u64;
        }
        Ok(())
    })
}

/// Puts into `*bytes` the number of bytes that mainstay_get would fill in on this rank, if nothing is damaged; 0 if
/// nothing was saved yet. Collective.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `bytes` points to a uint64_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_get_bytes(
    session: *mut Session,
    revision: u64,
    name: *const c_char,
    bytes: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name, bytes) = unsafe { (session_of(session)?, name_of(name), bytes.as_mut()) };
        let name = or_refuse(&mut session.engine, name);
        let bytes = or_refuse(&mut session.engine, bytes.ok_or_else(|| null("bytes")).map(Some));
        let found = session.engine.get_bytes(number(revision), &name)?;
        if let Some(bytes) = bytes {
            *bytes = found.unwrap_or(0);
        }
        Ok(())
    })
}

/// Puts into `*item` the item that this rank saved under `name`, in the revision of this number, or in MAINSTAY_NEWEST: the one
/// that mainstay_restore tries first. Its type, shape and bytes say how much memory you protect before the restore. If nothing
/// was saved under that name, `item->name` is NULL. If another number of ranks saved the revision, the item is that of the first
/// shard which has one. Its pointers are valid until the next mainstay_saved, or the close. Collective: all ranks call it
/// equally often, and each may give another name.
///
/// Only mainstay_restore verifies blocks. If it finds the newest revision damaged, it goes back to an older one, which may have
/// other sizes. Regions of mainstay_follow_resize get the older size; for all others the restore fails.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `item` points to room for one.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_saved(
    session: *mut Session,
    revision: u64,
    name: *const c_char,
    item: *mut Item,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name) = unsafe { (session_of(session)?, name_of(name)) };
        let name = or_refuse(&mut session.engine, name);
        let room = if item.is_null() { Err(null("item")) } else { Ok(()) };
        or_refuse(&mut session.engine, room);
        session.saved = session.engine.saved(number(revision), &name)?.map(Named::of);
        if !item.is_null() {
            // SAFETY: as the caller promised.
            unsafe { item.write(session.saved.as_ref().map_or_else(Item::none, Named::told)) };
        }
        Ok(())
    })
}

fn number(revision: u64) -> Option<u64> {
    (revision != NEWEST).then_some(revision)
}

//! The list of complete revisions.

use crate::{
    argument::{no_session, null},
    error::{Status, guard},
    listed::{Listed, ListedRevision},
    session::{Session, session_of},
};
use mainstay_engine::Error;
use std::ffi::{CStr, c_char};

/// Lists the complete revisions that mainstay_restore_revision and mainstay_choose can go back to, and puts their
/// number into `*count`. The ranks read only the descriptions of their shards: damaged data shows when a revision is
/// restored. Nothing else changes. Collective.
///
/// # Safety
/// `session` is open, `count` points to a size_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_revisions(session: *mut Session, count: *mut usize) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, count) = unsafe { (session_of(session)?, count.as_mut()) };
        session.listed = session.engine.revisions()?.into_iter().map(Listed::of).collect();
        *count.ok_or_else(|| null("count"))? = session.listed.len();
        Ok(())
    })
}

/// Describes revision `index` of the last mainstay_revisions, from 0, the newest, on. Local.
///
/// # Safety
/// `session` is open, `listed` points to room for one.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_revision(session: *mut Session, index: usize, listed: *mut ListedRevision) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, listed) = unsafe { (session_of(session)?, listed.as_mut()) };
        let listed = listed.ok_or_else(|| null("listed"))?;
        let count = session.listed.len();
        let why = || Error::argument("index", format!("{index}, mainstay_revisions has listed {count}"));
        *listed = session.listed.get(index).ok_or_else(why)?.listed;
        Ok(())
    })
}

/// This rank's note `name` in revision `index` of the last mainstay_revisions; NULL if there is none. Valid until the
/// next mainstay_revisions or the close. Local.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_revision_note(
    session: *mut Session,
    index: usize,
    name: *const c_char,
) -> *const c_char {
    let missing = if session.is_null() { Some(no_session()) } else { name.is_null().then(|| null("name")) };
    if let Some(missing) = missing {
        guard(|| Err(missing));
        return std::ptr::null();
    }
    // SAFETY: neither is null; the rest is the caller's promise.
    let (session, name) = unsafe { (&*session, CStr::from_ptr(name)) };
    let noted = session.listed.get(index).and_then(|listed| listed.notes.get(name));
    noted.map_or(std::ptr::null(), |value| value.as_ptr())
}

//! Notes of a program about its revisions.

use crate::{
    argument::{bytes_of, no_session, null},
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::Error;
use std::ffi::{CStr, c_char};

/// Sets a note: every revision from now on carries the text `value` under `name`, such as a step or a version. Local.
/// Names have up to 200 bytes, values up to 64 KiB, both in UTF-8. `mainstay show` prints them. A checkpoint that has
/// begun has its notes already: MAINSTAY_INVALID_ARGUMENT.
///
/// # Safety
/// `session` is open, `name` and `value` end with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_note(session: *mut Session, name: *const c_char, value: *const c_char) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name, value) =
            unsafe { (session_of(session)?, text_of(name, "name")?, text_of(value, "value")?) };
        session.engine.note(name, value)
    })
}

/// This rank's note `name` in the revision of the last mainstay_restore; NULL if there is none. Valid until the next
/// restore or the close.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_restored_note(session: *mut Session, name: *const c_char) -> *const c_char {
    let missing = if session.is_null() { Some(no_session()) } else { name.is_null().then(|| null("name")) };
    if let Some(missing) = missing {
        guard(|| Err(missing));
        return std::ptr::null();
    }
    // SAFETY: neither is null; the rest is the caller's promise.
    let (session, name) = unsafe { (&*session, CStr::from_ptr(name)) };
    session.notes.get(name).map_or(std::ptr::null(), |value| value.as_ptr())
}

/// # Safety
/// `text` is null or ends with a zero byte.
#[allow(unsafe_code)]
unsafe fn text_of<'a>(text: *const c_char, what: &str) -> Result<&'a str, Error> {
    // SAFETY: passed on.
    let bytes = unsafe { bytes_of(text, what) }?;
    str::from_utf8(bytes).map_err(|_| Error::argument(format!("{what} of a note"), "it is not UTF-8"))
}

//! Arguments from C: pointers, which may be null.

use mainstay_engine::{Error, Session};
use std::ffi::{CStr, c_char};

pub(crate) fn null(what: &str) -> Error {
    Error::argument(what, "a null pointer, which this call does not take")
}

pub(crate) fn no_session() -> Error {
    Error::argument(
        "session",
        "a null pointer, which this call does not take; it has not been opened, or has been closed",
    )
}

/// The argument of a collective call. If it is wrong on this rank, tells the other ranks, which are in the call
/// already.
pub(crate) fn or_refuse<T: Default>(session: &mut Session, given: Result<T, Error>) -> T {
    given.unwrap_or_else(|error| {
        session.refuse(error);
        T::default()
    })
}

/// # Safety
/// `text` is null or ends with a zero byte.
#[allow(unsafe_code)]
pub(crate) unsafe fn bytes_of<'a>(text: *const c_char, what: &str) -> Result<&'a [u8], Error> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and the caller promised the rest.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

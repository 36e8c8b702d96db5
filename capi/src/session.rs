//! Opening and closing.

use crate::{
    argument::{bytes_of, no_session},
    error::{Status, c_text, guard},
    group::{CGroup, ContextInUse, GroupTable},
    item::Named,
    listed::Listed,
    options::Options,
};
use mainstay_engine::{
    Error,
    group::{Group, Solo, agree},
};
use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr, c_char},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// One job at work on one space.
pub struct Session {
    pub(crate) engine: mainstay_engine::Session,
    pub(crate) context: ContextInUse,
    /// Damage that the last restore passed over.
    pub(crate) report: CString,
    /// The notes of the restored revision.
    pub(crate) notes: BTreeMap<CString, CString>,
    /// The name that mainstay_stream returned last.
    pub(crate) stream: CString,
    /// The items of the shards that the program has asked for.
    pub(crate) items: BTreeMap<u32, Vec<Named>>,
    /// The last answer of mainstay_saved.
    pub(crate) saved: Option<Named>,
    /// The last answer of mainstay_revisions.
    pub(crate) listed: Vec<Listed>,
}

/// Opens the space in the directory `path` for the ranks of `group`, and puts the session into `*session`. Makes the
/// directory if it is missing. Collective. `options` may be NULL. The environment and the file mainstay.toml give the
/// settings that `options` leave out. The session takes over the group and releases it in any case, unless its `size`
/// is unknown. MPI programs call mainstay_open_mpi instead.
///
/// # Safety
/// `group` is filled in, `path` ends with a zero byte, `options` has as many bytes as it says, `session` points to
/// room for a pointer.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_open(
    group: *const GroupTable,
    path: *const c_char,
    options: *const Options,
    session: *mut *mut Session,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        if let Some(session) = unsafe { session.as_mut() } {
            *session = std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        let group = unsafe { CGroup::new(group) }?;
        let context = group.context_in_use();
        // SAFETY: as the caller promised.
        unsafe { open(Box::new(group), context, path, options, session) }
    })
}

/// Like mainstay_open, for a program of one process and without MPI.
///
/// # Safety
/// As for `mainstay_open`.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_open_solo(
    path: *const c_char,
    options: *const Options,
    session: *mut *mut Session,
) -> Status {
    // SAFETY: the caller's promises are passed on.
    guard(|| unsafe { open(Box::new(Solo), ContextInUse::default(), path, options, session) })
}

/// # Safety
/// As for `mainstay_open`.
#[allow(unsafe_code)]
unsafe fn open(
    group: Box<dyn Group>,
    context: ContextInUse,
    path: *const c_char,
    options: *const Options,
    session: *mut *mut Session,
) -> Result<(), Error> {
    // SAFETY: null or as the caller promised.
    let mut session = unsafe { session.as_mut() };
    if let Some(session) = &mut session {
        **session = std::ptr::null_mut();
    }
    let checked = || {
        let session = session.ok_or_else(no_session)?;
        // SAFETY: as the caller promised.
        let path = Path::new(OsStr::from_bytes(unsafe { bytes_of(path, "path") }?));
        // SAFETY: as the caller promised.
        Ok((session, path, unsafe { Options::config(options) }?))
    };
    let (session, path, config) = match checked() {
        Ok(checked) => checked,
        // The other ranks are opening the space, and must learn of the error.
        Err(error) => return agree(&*group, Err(error)),
    };
    let engine = mainstay_engine::Session::open(group, path, config)?;
    *session = Box::into_raw(Box::new(Session {
        engine,
        context,
        report: c_text(""),
        notes: BTreeMap::new(),
        stream: c_text(""),
        items: BTreeMap::new(),
        saved: None,
        listed: Vec::new(),
    }));
    Ok(())
}

/// Waits for the last revision and ends the session, even if it returns an error: do not use the pointer again.
/// Collective. Call it before MPI_Finalize.
///
/// # Safety
/// `session` came from mainstay_open and was not closed.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_close(session: *mut Session) -> Status {
    guard(|| {
        if session.is_null() {
            return Err(no_session());
        }
        // SAFETY: made by `mainstay_open` from a box, and given up by the caller.
        unsafe { Box::from_raw(session) }.engine.close()
    })
}

/// Ends the session of this rank without the others, for instance after an error of this rank alone. This rank's part
/// of the last revision becomes durable. The session ends even if the call returns an error: do not use the pointer
/// again. The space is not marked as closed. Other ranks wait in their next collective call until the job ends, for
/// instance by MPI_Abort. With one rank it is mainstay_close. Local. In a job with recovery it may take 10 s. Call it
/// before MPI_Finalize.
///
/// # Safety
/// `session` came from mainstay_open and was not closed.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_leave(session: *mut Session) -> Status {
    guard(|| {
        if session.is_null() {
            return Err(no_session());
        }
        // SAFETY: made by `mainstay_open` from a box, and given up by the caller.
        unsafe { Box::from_raw(session) }.engine.leave()
    })
}

/// # Safety
/// `session` is null or came from `mainstay_open` and was not closed.
#[allow(unsafe_code)]
pub(crate) unsafe fn session_of<'a>(session: *mut Session) -> Result<&'a mut Session, Error> {
    // SAFETY: passed on.
    unsafe { session.as_mut() }.ok_or_else(no_session)
}

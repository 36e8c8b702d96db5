//! Named memory.

use crate::{
    error::{Status, guard, null},
    session::{Session, bytes_of, session_of},
};
use mainstay_engine::{
    Error, Region,
    space::format::{DIMENSIONS_MAX, ElementType},
};
use std::ffi::{c_char, c_void};

/// What a region's elements are. Tools show it, and a restore compares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum ElementTypeCode {
    Bytes = 0,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    C64,
    C128,
    Bool,
}

const _: () = assert!(ElementTypeCode::Bool as usize + 1 == ElementType::ALL.len());
const _: () = assert!(ElementTypeCode::F64 as usize == ElementType::F64 as usize);

/// Has `bytes` bytes at `data` saved and restored under `name`. Local. The memory stays valid until it
/// is unprotected or the session is closed. Names are 1 to 200 of A-Z a-z 0-9 _ . - : [ ] /.
///
/// # Safety
/// As said.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_protect(
    session: *mut Session,
    name: *const c_char,
    data: *mut c_void,
    bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        unsafe {
            let session = session_of(session)?;
            let region = Region::new(&name_of(name)?, data.cast(), bytes as u64)?;
            session.engine.protect(region)
        }
    })
}

/// As mainstay_protect, for an array: `shape` holds `dimensions` numbers of elements, slowest first.
/// `type` is a mainstay_type.
///
/// # Safety
/// As said.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_protect_array(
    session: *mut Session,
    name: *const c_char,
    data: *mut c_void,
    r#type: u32,
    dimensions: usize,
    shape: *const u64,
) -> Status {
    guard(|| {
        let unknown = || Error::argument("type", format!("{} is no mainstay_type", r#type));
        let element = ElementType::from_code(r#type).ok_or_else(unknown)?;
        if shape.is_null() && dimensions > 0 {
            return Err(null("shape"));
        }
        // Here already: it bounds how much of `shape` is looked at.
        if dimensions > DIMENSIONS_MAX {
            let why = format!("{dimensions} of them, {DIMENSIONS_MAX} are the most");
            return Err(Error::argument("dimensions", why));
        }
        // SAFETY: the caller's promises are passed on; without dimensions nothing is read.
        unsafe {
            let shape = if dimensions == 0 { &[] } else { std::slice::from_raw_parts(shape, dimensions) };
            let session = session_of(session)?;
            let region = Region::array(&name_of(name)?, data.cast(), element, shape)?;
            session.engine.protect(region)
        }
    })
}

/// Takes a region out again. Local. Revisions that hold it stay as they are.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_unprotect(session: *mut Session, name: *const c_char) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        unsafe { session_of(session)?.engine.unprotect(&name_of(name)?) }
    })
}

/// # Safety
/// `name` is null or ends with a zero byte.
#[allow(unsafe_code)]
pub(crate) unsafe fn name_of(name: *const c_char) -> Result<String, Error> {
    // SAFETY: passed on. What is not text is refused with the other odd characters.
    Ok(String::from_utf8_lossy(unsafe { bytes_of(name, "name") }?).into_owned())
}

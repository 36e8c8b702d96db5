//! Named memory.

use crate::{
    argument::{bytes_of, null},
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::{
    Error, Region,
    space::format::{DIMENSIONS_MAX, ElementType, PlaceInWhole},
};
use std::ffi::{c_char, c_void};

/// Element type of a region. Tools show it, and a restore compares it.
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

/// Protects `bytes` bytes at `data` under `name`: checkpoints save them, and a restore fills them. Local. The memory
/// must stay valid until you unprotect it or close the session. A name has 1 to 200 characters of A-Z a-z 0-9 _ . - :
/// [ ] /, with no empty, "." or ".." part between slashes. A region that shares bytes with another is
/// MAINSTAY_INVALID_ARGUMENT, with both names.
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
    // SAFETY: the caller's promises are passed on.
    guard(|| unsafe { protect(session, name, |name| Region::new(name, data.cast(), bytes as u64)) })
}

/// Like mainstay_protect, for an array: `shape` holds `dimensions` numbers of elements, slowest first. `type` is a
/// mainstay_type.
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
    // SAFETY: the caller's promises are passed on.
    guard(|| unsafe {
        let (element, shape) = (element_of(r#type)?, numbers_of(shape, dimensions, "shape")?);
        protect(session, name, |name| Region::array(name, data.cast(), element, shape))
    })
}

/// Like mainstay_protect_array, for a box of a global array. `global_shape` is the shape of that array. `offset` is
/// the number of elements in front of the box along each dimension. Each has `dimensions` numbers. A job of any
/// number of ranks fills its boxes from the saved ones. A box without elements means that this rank has no part.
///
/// # Safety
/// As said.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_protect_box(
    session: *mut Session,
    name: *const c_char,
    data: *mut c_void,
    r#type: u32,
    dimensions: usize,
    shape: *const u64,
    global_shape: *const u64,
    offset: *const u64,
) -> Status {
    // SAFETY: the caller's promises are passed on.
    guard(|| unsafe {
        let (element, shape) = (element_of(r#type)?, numbers_of(shape, dimensions, "shape")?);
        let place = place_of(global_shape, offset, dimensions)?;
        protect(session, name, |name| Region::placed(name, data.cast(), element, shape, place))
    })
}

/// Like mainstay_protect_box, for a box inside a larger array in memory, such as one with ghost cells. `data` is the
/// beginning of the larger array and `memory_shape` its shape. `memory_offset` is the number of its elements in front
/// of the box along each dimension, like the starts of MPI_Type_create_subarray. Memory around the box is neither
/// saved nor changed. `global_shape` and `offset` may both be NULL if the array is in no global one.
///
/// # Safety
/// As said.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_protect_within(
    session: *mut Session,
    name: *const c_char,
    data: *mut c_void,
    r#type: u32,
    dimensions: usize,
    shape: *const u64,
    memory_shape: *const u64,
    memory_offset: *const u64,
    global_shape: *const u64,
    offset: *const u64,
) -> Status {
    // SAFETY: the caller's promises are passed on.
    guard(|| unsafe {
        let (element, shape) = (element_of(r#type)?, numbers_of(shape, dimensions, "shape")?);
        protect(session, name, |name| {
            let region = placed(name, data, element, shape, global_shape, offset)?;
            within(region, dimensions, memory_shape, memory_offset)
        })
    })
}

/// Finds the changes of a region by hashes instead of written pages: for memory that a network card, a GPU or another
/// process writes past the page tables of this process. Local. It holds while the region is protected, wherever it
/// moves. It has no effect unless `capture` is incremental or incremental-snapshot
/// and `track` uses pages. If no region has the name, the error is MAINSTAY_REGION_MISSING.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_untrack(session: *mut Session, name: *const c_char) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        unsafe { session_of(session)?.engine.untrack(&name_of(name)?) }
    })
}

/// Declares that all ranks have the same bytes in the region of this name, such as a table or parameters. A restore
/// on another number of ranks then fills it on all of them. Without it, such a restore fails with
/// MAINSTAY_RANK_COUNT, because the region is each rank's own. Exceptions are boxes of global arrays, and single
/// elements of at most 16 bytes that are equal on all ranks, such as a step. Local. It holds while the region is
/// protected, and each revision records it. Either the program that saved or the one that restores may call it. The
/// restore compares the bytes of all ranks. MAINSTAY_REGION_MISSING: no region has the name.
/// MAINSTAY_INVALID_ARGUMENT: it is a box of a global array.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_same_on_all_ranks(session: *mut Session, name: *const c_char) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        unsafe { session_of(session)?.engine.same_on_all_ranks(&name_of(name)?) }
    })
}

/// Declares that any number of ranks can take over the shards of this job, because the program divides them anew
/// itself: it saves streams, and reads them by mainstay_bring_shards and mainstay_read_shard. If ranks fail and the
/// setting `recovery` is `shrink`, the job goes on with fewer ranks, although no region is a box. Local. It holds until
/// the session ends. Call it alike on all ranks, also on a rank that comes into a running job. mainstay_restore on
/// another number of ranks still refuses regions of each rank's own with MAINSTAY_RANK_COUNT.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_any_number_of_ranks(session: *mut Session) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        unsafe { session_of(session)?.engine.any_number_of_ranks() }
    })
}

/// Promises that the program will not write `bytes` bytes of a region, from `offset` on, again before its next
/// checkpoint. With the setting `predictor` Mainstay saves them at once, in the background. If the program writes
/// them after all, Mainstay saves them again. Without `predictor`, or if the system does not track the pages of this
/// memory, the call has no effect. The same goes for bytes that a followed region did not have at the last checkpoint
/// or restore. Local, never waits for a write. MAINSTAY_REGION_MISSING: no region has the name.
/// MAINSTAY_INVALID_ARGUMENT: the region has fewer bytes, and is not followed.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_settled(
    session: *mut Session,
    name: *const c_char,
    offset: u64,
    bytes: u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        unsafe { session_of(session)?.engine.settled(&name_of(name)?, offset, bytes) }
    })
}

/// Removes a region. Local. Revisions that hold it stay as they are. MAINSTAY_INVALID_ARGUMENT: a checkpoint has
/// begun and is not finished.
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

/// Removes all regions, as mainstay_unprotect removes one. Local.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_unprotect_all(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.unprotect_all())
}

/// # Safety
/// `session` is null or open, `name` is null or ends with a zero byte.
#[allow(unsafe_code)]
unsafe fn protect(
    session: *mut Session,
    name: *const c_char,
    region: impl FnOnce(&str) -> Result<Region, Error>,
) -> Result<(), Error> {
    // SAFETY: the caller's promises are passed on.
    let (session, name) = unsafe { (session_of(session)?, name_of(name)?) };
    session.engine.protect(region(&name)?)
}

/// A region; `global_shape` and `offset` may both be null.
///
/// # Safety
/// As for mainstay_protect_within.
#[allow(unsafe_code)]
pub(crate) unsafe fn placed(
    name: &str,
    data: *mut c_void,
    element: ElementType,
    shape: &[u64],
    global_shape: *const u64,
    offset: *const u64,
) -> Result<Region, Error> {
    // SAFETY: the caller's promises are passed on.
    unsafe {
        if global_shape.is_null() && offset.is_null() {
            return Region::array(name, data.cast(), element, shape);
        }
        let place = place_of(global_shape, offset, shape.len())?;
        Region::placed(name, data.cast(), element, shape, place)
    }
}

/// The inside of a larger array in memory.
///
/// # Safety
/// As for mainstay_protect_within.
#[allow(unsafe_code)]
pub(crate) unsafe fn within(
    region: Region,
    dimensions: usize,
    memory_shape: *const u64,
    memory_offset: *const u64,
) -> Result<Region, Error> {
    // SAFETY: the caller's promises are passed on.
    unsafe {
        let memory_shape = numbers_of(memory_shape, dimensions, "memory_shape")?;
        region.within(memory_shape, numbers_of(memory_offset, dimensions, "memory_offset")?)
    }
}

pub(crate) fn element_of(code: u32) -> Result<ElementType, Error> {
    ElementType::from_code(code).ok_or_else(|| Error::argument("type", format!("{code} is no mainstay_type")))
}

/// # Safety
/// Both are null or point to so many numbers.
#[allow(unsafe_code)]
unsafe fn place_of(global_shape: *const u64, offset: *const u64, dimensions: usize) -> Result<PlaceInWhole, Error> {
    // SAFETY: the caller's promises are passed on.
    let [global_shape, offset] =
        unsafe { [numbers_of(global_shape, dimensions, "global_shape")?, numbers_of(offset, dimensions, "offset")?] };
    Ok(PlaceInWhole { global_shape: global_shape.to_vec(), offset: offset.to_vec() })
}

/// # Safety
/// `numbers` is null or points to `count` of them, if the count is not too large.
#[allow(unsafe_code)]
pub(crate) unsafe fn numbers_of<'a>(numbers: *const u64, count: usize, what: &str) -> Result<&'a [u64], Error> {
    // This bounds the memory that is read.
    if count > DIMENSIONS_MAX {
        let why = format!("{count} of them, the limit is {DIMENSIONS_MAX}");
        return Err(Error::argument("dimensions", why));
    }
    match (numbers.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(what)),
        // SAFETY: as the caller promised.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(numbers, count) }),
    }
}

/// # Safety
/// `name` is null or ends with a zero byte.
#[allow(unsafe_code)]
pub(crate) unsafe fn name_of(name: *const c_char) -> Result<String, Error> {
    // SAFETY: passed on. A name that is not text is refused together with other forbidden characters.
    Ok(String::from_utf8_lossy(unsafe { bytes_of(name, "name") }?).into_owned())
}

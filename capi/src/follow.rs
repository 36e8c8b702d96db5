//! Regions whose address Mainstay asks for: programs swap pointers, and grow arrays.

use crate::{
    argument::null,
    error::{Status, guard},
    region::{element_of, name_of, numbers_of, placed, within},
    session::{Session, session_of},
};
use mainstay_engine::{Error, Region};
use std::ffi::{c_char, c_int, c_void};

/// Follows a pointer variable of the program to the region protected under `name`: `mainstay_follow(session, "cur",
/// (void **)&cur)`. Use it if your program swaps pointers from step to step: two swapped regions protected by address
/// alone come back exchanged. Mainstay reads `*pointer` here, where it must point to the region; once at each
/// checkpoint, at t1 (with mainstay_begin once more in the mainstay_checkpoint that ends it); and once at each
/// restore, which fills the memory that it points to then. Type, shape and box stay. NULL is an error of the call on
/// all ranks. A restore fails while the region and another one are in the same memory. Local. The variable must stay
/// at its address until you unprotect the region or close the session.
///
/// # Safety
/// As said.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_follow(
    session: *mut Session,
    name: *const c_char,
    pointer: *mut *mut c_void,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name) = unsafe { (session_of(session)?, name_of(name)?) };
        if pointer.is_null() {
            return Err(null("pointer"));
        }
        let variable = Shared(pointer.cast());
        // SAFETY: as the caller promised, for as long as the region is protected.
        session.engine.follow(&name, move |region| unsafe { region.at(variable.read(), None) })
    })
}

/// Like mainstay_follow, if no variable holds the address: Mainstay calls `where` instead, with `context`. `where`
/// returns the address of the memory, and may set `*count` to the present number of elements along the slowest
/// dimension. `*count` holds the last known number on entry (1 if there is no dimension). `where` must not call
/// functions of this session.
///
/// # Safety
/// As said.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_follow_call(
    session: *mut Session,
    name: *const c_char,
    r#where: Option<unsafe extern "C" fn(context: *mut c_void, count: *mut u64) -> *mut c_void>,
    context: *mut c_void,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name) = unsafe { (session_of(session)?, name_of(name)?) };
        let (ask, context) = (r#where.ok_or_else(|| null("where"))?, Shared(context));
        session.engine.follow(&name, move |region| {
            let mut count = region.count();
            // SAFETY: as the caller promised.
            unsafe { region.at(ask(context.get(), &raw mut count).cast(), Some(count)) }
        })
    })
}

/// As mainstay_follow_call, for a region that the program can resize. If it was saved with another shape, a restore calls
/// `resize` with that shape: `dimensions` numbers of elements, slowest first. `resize` makes memory of that size, and returns 0;
/// any other number refuses the restore on all ranks. Then the restore calls `where` again, with the new number of elements in
/// `*count`. The type and the number of dimensions stay. Boxes of global arrays are not resized.
///
/// # Safety
/// As said.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_follow_resize(
    session: *mut Session,
    name: *const c_char,
    r#where: Option<unsafe extern "C" fn(context: *mut c_void, count: *mut u64) -> *mut c_void>,
    resize: Option<unsafe extern "C" fn(context: *mut c_void, dimensions: usize, shape: *const u64) -> c_int>,
    context: *mut c_void,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, name) = unsafe { (session_of(session)?, name_of(name)?) };
        let ask = r#where.ok_or_else(|| null("where"))?;
        let (resize, asked, resized) = (resize.ok_or_else(|| null("resize"))?, Shared(context), Shared(context));
        let look = move |region: &Region| {
            let mut count = region.count();
            // SAFETY: as the caller promised.
            unsafe { region.at(ask(asked.get(), &raw mut count).cast(), Some(count)) }
        };
        let region = name.clone();
        let resize = move |shape: &[u64]| {
            // SAFETY: as the caller promised.
            match unsafe { resize(resized.get(), shape.len(), shape.as_ptr()) } {
                0 => Ok(()),
                told => {
                    let why =
                        format!("resize returned {told} for the shape {shape:?}, which the region was saved with");
                    Err(Error::argument(format!("region {region:?}"), why))
                }
            }
        };
        session.engine.follow_resizing(&name, look, resize)
    })
}

/// Moves the region protected under `name` to `data`, for instance after a realloc. `shape` holds `dimensions`
/// numbers of elements, slowest first (one number of bytes for a region of mainstay_protect); 0 and NULL keep the
/// shape. All other properties of the region stay. If the region follows a pointer, that pointer must already point
/// to `data`. Between two moves a region may overlap another one, for instance during an exchange. A checkpoint saves
/// both as they are. A restore fails with their names until they are apart. MAINSTAY_REGION_MISSING: no region has
/// this name. MAINSTAY_INVALID_ARGUMENT: a checkpoint has begun and is not finished. Local.
///
/// # Safety
/// As for mainstay_protect.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_move(
    session: *mut Session,
    name: *const c_char,
    data: *mut c_void,
    dimensions: usize,
    shape: *const u64,
) -> Status {
    // SAFETY: the caller's promises are passed on.
    guard(|| unsafe {
        let (session, name) = (session_of(session)?, name_of(name)?);
        let given = (dimensions > 0).then(|| numbers_of(shape, dimensions, "shape")).transpose()?;
        session.engine.move_to(&name, data.cast(), given)
    })
}

/// Like mainstay_move, with all arguments of mainstay_protect_within. `memory_shape` and `memory_offset` may both be
/// NULL (the elements are contiguous), and so may `global_shape` and `offset` (the place in the global array stays).
/// The type stays.
///
/// # Safety
/// As for mainstay_protect.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_move_within(
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
        let (session, name) = (session_of(session)?, name_of(name)?);
        let (element, shape) = (element_of(r#type)?, numbers_of(shape, dimensions, "shape")?);
        let mut region = placed(&name, data, element, shape, global_shape, offset)?;
        if !memory_shape.is_null() || !memory_offset.is_null() {
            region = within(region, dimensions, memory_shape, memory_offset)?;
        }
        session.engine.move_region(region)
    })
}

/// An address that the caller keeps while the region is protected.
struct Shared(*mut c_void);

// SAFETY: only the thread that calls the session uses it, inside those calls.
#[allow(unsafe_code)]
unsafe impl Send for Shared {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}

impl Shared {
    /// The pointer stored at the address.
    ///
    /// # Safety
    /// It is the address of a pointer.
    #[allow(unsafe_code)]
    unsafe fn read(&self) -> *mut u8 {
        // SAFETY: as the caller promised. The program may write it between any two calls.
        unsafe { self.0.cast::<*mut u8>().read_volatile() }
    }

    fn get(&self) -> *mut c_void {
        self.0
    }
}

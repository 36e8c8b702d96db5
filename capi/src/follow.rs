//! Regions that are asked where they lie: programs swap pointers, and grow what they point to.

use crate::{
    argument::null,
    error::{Status, guard},
    region::{element_of, name_of, numbers_of, placed, within},
    session::{Session, session_of},
};
use mainstay_engine::{Error, Region};
use std::ffi::{c_char, c_int, c_void};

/// Has the region that is protected under `name` read through a pointer variable of the program:
/// `mainstay_follow(session, "cur", (void **)&cur)`. For programs that swap pointers from step to step: protected by
/// address alone, two that were swapped come back exchanged. `*pointer` is read here, where it points to the region;
/// once at each checkpoint, at t1 (with mainstay_begin once more by the mainstay_checkpoint that ends it); and once at
/// each restore, which fills the memory that it points to then. Type, shape and box stay. NULL is an error of the
/// call on all ranks. A restore is refused while it and another region lie in the same memory. Local. The variable
/// stays where it is until the region is unprotected or the session is closed.
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

/// As mainstay_follow, where no variable holds the address: `where` is called in its place, with `context`. It returns
/// the address of the memory, and may set `*count`, which comes in as the number of elements along the slowest
/// dimension (1 where there is none), to what that is now. It calls nothing of this session.
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

/// Has the region that is protected under `name` lie at `data` from now on, as after a realloc. `shape` holds
/// `dimensions` numbers of elements, slowest first (one number of bytes for a region of mainstay_protect); 0 and NULL:
/// the shape stays. So does all else that was said of the region. A pointer that it follows points to `data` already.
/// Between two moves it may have bytes of another region, as where two are exchanged: a checkpoint saves both as they
/// are, and a restore is refused by their names until they lie apart. MAINSTAY_REGION_MISSING: no region has this name;
/// MAINSTAY_INVALID_ARGUMENT: a checkpoint has been begun, and is not finished. Local.
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

/// As mainstay_move, with all that mainstay_protect_within takes: `memory_shape` and `memory_offset` may both be NULL
/// (the elements follow one another), and so may `global_shape` and `offset` (the place in the global array stays).
/// The type is the one that was protected.
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

/// An address that the caller keeps for as long as the region is protected.
struct Shared(*mut c_void);

// SAFETY: used only inside calls of the session, by the thread that makes them.
#[allow(unsafe_code)]
unsafe impl Send for Shared {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}

impl Shared {
    /// The pointer that lies there.
    ///
    /// # Safety
    /// It is the address of one.
    #[allow(unsafe_code)]
    unsafe fn read(&self) -> *mut u8 {
        // SAFETY: as the caller promised. The program may write it between any two calls.
        unsafe { self.0.cast::<*mut u8>().read_volatile() }
    }

    fn get(&self) -> *mut c_void {
        self.0
    }
}

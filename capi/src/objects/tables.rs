//! The tables, options and results that a program in C passes to the calls, or gets from them.

use std::ffi::{c_char, c_int, c_void};

/// Transport between the ranks of the objects; called only inside calls of mainstay_objects_*. Each function returns
/// 0, or the class of an error, after which the program recovers, or ends. `mainstay_objects_open_mpi` fills it in.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct WireTable {
    /// sizeof(mainstay_wire).
    pub size: usize,
    /// Passed to each function.
    pub context: *mut c_void,
    /// This rank, and the number of ranks; both may change in a recovery.
    pub ranks: Option<unsafe extern "C" fn(context: *mut c_void, rank: *mut u32, ranks: *mut u32) -> c_int>,
    /// Exchanges `words` words with each rank: `to[r * words]` are for rank r, and `from[r * words]` receives those
    /// of rank r.
    pub swap: Option<unsafe extern "C" fn(context: *mut c_void, to: *const u64, from: *mut u64, words: usize) -> c_int>,
    /// Starts receiving `bytes` bytes from a rank.
    pub receive:
        Option<unsafe extern "C" fn(context: *mut c_void, from: u32, data: *mut c_void, bytes: usize) -> c_int>,
    /// Sends `bytes` bytes to a rank, which receives them; may wait for that. A rank sends nothing to itself.
    pub send: Option<unsafe extern "C" fn(context: *mut c_void, to: u32, data: *const c_void, bytes: usize) -> c_int>,
    /// Waits until everything has been received, for `limit_s` seconds at most if that is not negative; `done`
    /// becomes 1 once it has.
    pub finish: Option<unsafe extern "C" fn(context: *mut c_void, limit_s: f64, done: *mut c_int) -> c_int>,
    /// Called once, when the objects are closed, or if opening them fails; may be NULL.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

/// Describes a kind of objects. Each function returns MAINSTAY_OK (0), or the status of a failure; it may set the
/// message of the failure by mainstay_adapter_error.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct KindTable {
    /// sizeof(mainstay_kind).
    pub size: usize,
    /// Name of the kind, in errors and in a revision.
    pub name: *const c_char,
    /// Dimensions of an index, for errors: 1 to 3 as mainstay_object_index makes them; 0: it is just a number.
    pub dimensions: u32,
    /// Passed to each function.
    pub context: *mut c_void,
    /// Makes an object. `unpack` or the program fills it afterwards.
    pub create: Option<unsafe extern "C" fn(context: *mut c_void, index: u64, object: *mut *mut c_void) -> c_int>,
    pub destroy: Option<unsafe extern "C" fn(context: *mut c_void, object: *mut c_void)>,
    /// The number of bytes that `pack` writes.
    pub bytes: Option<unsafe extern "C" fn(context: *mut c_void, object: *mut c_void, bytes: *mut usize) -> c_int>,
    /// Writes the object into `bytes` bytes at `into`. `*written` receives the number of bytes used (or needed).
    pub pack: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            object: *mut c_void,
            into: *mut c_void,
            bytes: usize,
            written: *mut usize,
        ) -> c_int,
    >,
    /// Restores the object from `bytes` packed bytes. `*taken` receives the number of bytes used.
    pub unpack: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            object: *mut c_void,
            from: *const c_void,
            bytes: usize,
            taken: *mut usize,
        ) -> c_int,
    >,
    /// Handles a message. It may call the functions of mainstay_objects_* that say so. NULL: messages are an error.
    pub receive: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            object: *mut c_void,
            method: u32,
            data: *const c_void,
            bytes: usize,
        ) -> c_int,
    >,
}

/// When objects move to balance the load.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ObjectsOptions {
    /// sizeof(mainstay_objects_options); MAINSTAY_OBJECTS_OPTIONS_INIT sets it.
    pub size: usize,
    /// The strategy: "none", "greedy", "refine", "orphans" or "graph"; NULL: "refine".
    pub strategy: *const c_char,
    /// Steps between two balancings; 0: not by steps.
    pub balance_every: u64,
    /// Steps from a failure of ranks to a balancing; 0: not for failures.
    pub balance_after_failure: u64,
}

/// The result of a restore of objects.
#[repr(C)]
pub struct CameBack {
    /// The revision's number, 1 or more. 0: there was nothing to restore, and there are no objects.
    pub revision: u64,
    /// Objects that came to this rank, and to all ranks.
    pub here: u64,
    pub objects: u64,
    /// Those that came to another rank than the one that they were on.
    pub elsewhere: u64,
}

/// The result of moving objects. Loads are nanoseconds of a processor, or the units of mainstay_objects_work.
#[repr(C)]
pub struct BalancedLoad {
    pub moved: u64,
    /// Load of the busiest rank before and after, and the average.
    pub busiest_before: u64,
    pub busiest: u64,
    pub average: u64,
    /// Bytes that objects recently sent to objects on other ranks: by the old places, and by the new ones.
    pub sent_before: u64,
    pub sent: u64,
}

/// Bytes that an object has recently sent to another.
#[repr(C)]
pub struct SentTo {
    pub kind: u32,
    pub index: u64,
    pub bytes: u64,
}

/// How a result combines its parts.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum OpCode {
    /// The sum, rounded once at its end: the same wherever the objects are.
    Sum = 0,
    Min,
    Max,
}

//! Objects that move: `mainstay_objects.h`.

use crate::{
    argument::{bytes_of, null},
    error::{Status, guard, message, set_message},
    memory::given,
    session::{Session, session_of},
};
use mainstay_engine::{Error, ErrorKind, Result};
use mainstay_objects::{
    Arriving, Balanced, Key, Object, Objects as Core, Op, Options, Post, Strategy, Wire, id_of, work_for_a_while,
    worth_waiting_for,
};
use std::{
    any::Any,
    cell::{RefCell, RefMut},
    ffi::{c_char, c_int, c_void},
    mem::forget,
    ptr::null_mut,
};

/// The objects of a job, as one rank has them.
pub struct Objects {
    session: *mut Session,
    core: RefCell<Core>,
    post: Post,
}

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

/// A table that has all its functions.
struct CWire(WireTable);

impl CWire {
    #[allow(unsafe_code)]
    fn place(&self) -> (usize, usize) {
        let (mut rank, mut ranks) = (0, 1);
        // SAFETY: both are ours to be filled.
        let told = self.0.ranks.map(|told| unsafe { told(self.0.context, &mut rank, &mut ranks) });
        // If the ranks are unknown, the next call that needs them fails.
        if told == Some(0) && rank < ranks { (rank as usize, ranks as usize) } else { (0, 1) }
    }
}

fn reached(code: c_int, doing: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::GroupFailed { what: format!("{doing} (class {code}); call mainstay_recover on all ranks") })
}

impl Wire for CWire {
    fn rank(&self) -> usize {
        self.place().0
    }

    fn ranks(&self) -> usize {
        self.place().1
    }

    #[allow(unsafe_code)]
    fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()> {
        let ranks = self.ranks();
        if to.len() != from.len() || !to.len().is_multiple_of(ranks) {
            return Err(Error::GroupFailed { what: "the ranks of the objects are others than before".to_owned() });
        }
        let Some(swap) = self.0.swap else { return Err(null("swap")) };
        // SAFETY: both have so many words for each rank.
        let code = unsafe { swap(self.0.context, to.as_ptr(), from.as_mut_ptr(), to.len() / ranks) };
        reached(code, "objects: telling all ranks")
    }

    #[allow(unsafe_code)]
    fn exchange(
        &self,
        leaving: &[(usize, &[u8])],
        arriving: &mut Vec<Arriving>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let table = &self.0;
        let (Some(receive), Some(send), Some(finish)) = (table.receive, table.send, table.finish) else {
            return Err(null("receive, send or finish"));
        };
        let worth_waiting = worth_waiting_for(arriving);
        let mut all = || {
            for Arriving { from, bytes } in arriving.iter_mut() {
                // SAFETY: pointer and length are those of the buffer, which stays until all messages are finished, or
                // forever.
                let code = unsafe { receive(table.context, *from as u32, bytes.as_mut_ptr().cast(), bytes.len()) };
                reached(code, &format!("objects: receiving from rank {from}"))?;
            }
            for (to, bytes) in leaving {
                // SAFETY: pointer and length are those of the slice.
                let code = unsafe { send(table.context, *to as u32, bytes.as_ptr().cast(), bytes.len()) };
                reached(code, &format!("objects: sending to rank {to}"))?;
            }
            let has_come = |limit_s| {
                let mut done = 0;
                // SAFETY: the flag is ours to be filled.
                let code = unsafe { finish(table.context, limit_s, &mut done) };
                reached(code, "objects: receiving from other ranks").map(|()| done != 0)
            };
            let mut limit_s = worth_waiting.as_secs_f64();
            while !has_come(limit_s)? {
                limit_s = if work_for_a_while(meanwhile) { 0.0 } else { -1.0 };
            }
            while meanwhile() {}
            Ok(())
        };
        let done = all();
        if done.is_err() {
            // Messages in progress may still fill their memory: do not free it.
            forget(std::mem::take(arriving));
        }
        done
    }
}

impl Drop for CWire {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: called once, with the context that came with it.
            unsafe { release(self.0.context) };
        }
    }
}

/// An object of a C program.
struct CObject {
    kind: KindTable,
    object: *mut c_void,
}

/// The result of a function of the program, with its own message if it has set one.
fn called(call: impl FnOnce() -> c_int) -> Result<()> {
    set_message("");
    let status = call();
    if status == 0 {
        return Ok(());
    }
    let said = message();
    if status == Status::GroupFailed as c_int {
        return Err(Error::GroupFailed { what: said });
    }
    let kind = u32::try_from(status).map_or(ErrorKind::Internal, ErrorKind::from);
    let why = if said.is_empty() { format!("it returned {status} ({})", kind.name()) } else { said };
    Err(Error::argument("the program says", why))
}

#[allow(unsafe_code)]
impl Object for CObject {
    fn bytes(&self) -> Result<usize> {
        let (Some(sized), mut bytes) = (self.kind.bytes, 0) else { return Err(null("bytes")) };
        // SAFETY: the object is one that `create` made.
        called(|| unsafe { sized(self.kind.context, self.object, &mut bytes) })?;
        Ok(bytes)
    }

    fn pack(&self, into: &mut [u8]) -> Result<usize> {
        let (Some(pack), mut written) = (self.kind.pack, 0) else { return Err(null("pack")) };
        let (data, bytes) = (into.as_mut_ptr().cast(), into.len());
        // SAFETY: the object is one that `create` made, and there is so much room.
        called(|| unsafe { pack(self.kind.context, self.object, data, bytes, &mut written) })?;
        Ok(written)
    }

    fn unpack(&mut self, from: &[u8]) -> Result<usize> {
        let (Some(unpack), mut taken) = (self.kind.unpack, 0) else { return Err(null("unpack")) };
        let (data, bytes) = (from.as_ptr().cast(), from.len());
        // SAFETY: the object is one that `create` made, and so many bytes are there.
        called(|| unsafe { unpack(self.kind.context, self.object, data, bytes, &mut taken) })?;
        Ok(taken)
    }

    fn receive(&mut self, method: u32, bytes: &[u8], _: &Post) -> Result<()> {
        let Some(receive) = self.kind.receive else {
            return Err(Error::argument("receive", "its kind takes no messages"));
        };
        // SAFETY: the object is one that `create` made, and so many bytes are there.
        called(|| unsafe { receive(self.kind.context, self.object, method, bytes.as_ptr().cast(), bytes.len()) })
    }
}

impl Drop for CObject {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if let Some(destroy) = self.kind.destroy {
            // SAFETY: the object is one that `create` made, and is destroyed once.
            unsafe { destroy(self.kind.context, self.object) };
        }
    }
}

/// # Safety
/// `objects` is null or came from `mainstay_objects_open` and was not closed.
#[allow(unsafe_code)]
unsafe fn objects_of<'a>(objects: *mut Objects) -> Result<&'a Objects> {
    // SAFETY: passed on. Mutable data is in cells, because handlers call back here.
    unsafe { objects.as_ref() }.ok_or_else(|| null("objects"))
}

impl Objects {
    fn core(&self, call: &str) -> Result<RefMut<'_, Core>> {
        self.core.try_borrow_mut().map_err(|_| {
            Error::argument(call, "it was called by a function of an object, which may send and contribute only")
        })
    }

    /// Works on the objects and on their session.
    #[allow(unsafe_code)]
    fn with_session<T>(
        &self,
        call: &str,
        work: impl FnOnce(&mut Core, &mut mainstay_engine::Session) -> Result<T>,
    ) -> Result<T> {
        let mut core = self.core(call)?;
        // SAFETY: the caller of `mainstay_objects_open` promised that the session exists until the objects are
        // closed; the cell of the core lets one call in at a time.
        work(&mut core, &mut unsafe { session_of(self.session) }?.engine)
    }
}

/// Opens the objects of a job, on the ranks of `session`, and puts them into `*objects`. Local. `options`
/// may be NULL. First call mainstay_objects_restore; if it finds nothing, make objects with mainstay_objects_create.
/// Save with mainstay_objects_checkpoint. While the objects are open, mainstay_checkpoint, mainstay_begin and
/// mainstay_put fail on the session (MAINSTAY_INVALID_ARGUMENT), because the revision would lack the objects. A
/// second opening of objects fails too. The call takes over the table, and releases it in any case. MPI programs call
/// mainstay_objects_open_mpi instead.
///
/// # Safety
/// `session` is open, and stays so until the objects are closed; the tables are filled in; `objects` points to room
/// for a pointer.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_open(
    session: *mut Session,
    wire: *const WireTable,
    options: *const ObjectsOptions,
    objects: *mut *mut Objects,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (wire, options, opened) = unsafe { (wire.as_ref(), options.as_ref(), objects.as_mut()) };
        let opened = opened.ok_or_else(|| null("objects"))?;
        *opened = null_mut();
        let wire = wire.ok_or_else(|| null("wire"))?;
        if wire.size != size_of::<WireTable>() {
            return Err(other_header("wire", wire.size, size_of::<WireTable>()));
        }
        let wire = CWire(*wire);
        if wire.0.ranks.is_none() {
            return Err(null("a function of the wire"));
        }
        // SAFETY: as the caller promised.
        let engine = &mut unsafe { session_of(session) }?.engine;
        let options = match options {
            None => Options::default(),
            Some(given) if given.size != size_of::<ObjectsOptions>() => {
                return Err(other_header("options", given.size, size_of::<ObjectsOptions>()));
            }
            Some(given) => Options {
                // SAFETY: as the caller promised.
                strategy: unsafe { strategy_of(given.strategy) }?,
                every: given.balance_every,
                after_failure: given.balance_after_failure,
            },
        };
        let mut core = Core::new(Box::new(wire), options);
        core.attach(engine)?;
        let post = core.post();
        *opened = Box::into_raw(Box::new(Objects { session, core: RefCell::new(core), post }));
        Ok(())
    })
}

fn other_header(what: &str, given: usize, known: usize) -> Error {
    Error::argument(what, format!("{given} bytes instead of {known}; compile with this version's headers"))
}

/// # Safety
/// `name` is null or ends with a zero byte.
#[allow(unsafe_code)]
unsafe fn strategy_of(name: *const c_char) -> Result<Strategy> {
    if name.is_null() {
        return Ok(Strategy::default());
    }
    // SAFETY: not null, and as the caller promised.
    String::from_utf8_lossy(unsafe { bytes_of(name, "strategy") }?).parse()
}

/// Destroys all objects of this rank, and closes them. Call it before mainstay_close, and not within a function of an
/// object. Local. NULL does nothing.
///
/// # Safety
/// `objects` came from mainstay_objects_open and was not closed.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_close(objects: *mut Objects) -> Status {
    guard(|| {
        if objects.is_null() {
            return Ok(());
        }
        // A session that a failed recovery has ended has nothing to forget. A call within a function of an object is
        // refused. SAFETY: as the caller promised.
        unsafe { objects_of(objects) }?.with_session("close", |core, session| {
            let _ = core.forget(session);
            Ok(())
        })?;
        // SAFETY: made by `mainstay_objects_open` from a box, and given up by the caller.
        drop(unsafe { Box::from_raw(objects) });
        Ok(())
    })
}

/// Registers a kind of objects, and puts its number into `*number`: 0, 1 and so on. `number` may be NULL. Local; all
/// ranks register the same kinds in the same order, before they make or restore any object. The table is copied.
///
/// # Safety
/// `objects` is open, `kind` is filled in, and its functions stay valid until the objects are closed.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_register(
    objects: *mut Objects,
    kind: *const KindTable,
    number: *mut u32,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, kind, number) = unsafe { (objects_of(objects)?, kind.as_ref(), number.as_mut()) };
        let kind = *kind.ok_or_else(|| null("kind"))?;
        if kind.size != size_of::<KindTable>() {
            return Err(other_header("kind", kind.size, size_of::<KindTable>()));
        }
        let functions = [kind.bytes.is_none(), kind.pack.is_none(), kind.unpack.is_none(), kind.create.is_none()];
        if functions.contains(&true) {
            return Err(null("a function of the kind"));
        }
        // SAFETY: as the caller promised.
        let name = String::from_utf8_lossy(unsafe { bytes_of(kind.name, "name") }?).into_owned();
        let make = move |id: u64| -> Result<Box<dyn Object>> {
            let (Some(create), mut object) = (kind.create, null_mut()) else { return Err(null("create")) };
            // SAFETY: a function of the program's, with the context that came with it.
            called(|| unsafe { create(kind.context, id, &mut object) })?;
            Ok(Box::new(CObject { kind, object }))
        };
        let registered = objects.core("register")?.register(&name, kind.dimensions as usize, Box::new(make))?;
        if let Some(number) = number {
            *number = registered;
        }
        Ok(())
    })
}

/// The index of the object at these coordinates: `dimensions` numbers, one below 2^64, two below 2^32 or three below
/// 2^21. UINT64_MAX: they are too many or too large.
///
/// # Safety
/// `at` points to so many numbers.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_object_index(dimensions: usize, at: *const u64) -> u64 {
    if at.is_null() || dimensions > 3 {
        return u64::MAX;
    }
    // SAFETY: not null, and as the caller promised.
    id_of(unsafe { std::slice::from_raw_parts(at, dimensions) }).unwrap_or(u64::MAX)
}

/// Makes an object on this rank, and puts the result of the kind's `create` into `*object`, which may be NULL. Local:
/// the other ranks learn of it in the next mainstay_objects_step. Make each object on one rank.
///
/// # Safety
/// `objects` is open, `object` is null or points to a pointer.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_create(
    objects: *mut Objects,
    kind: u32,
    index: u64,
    object: *mut *mut c_void,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, into) = unsafe { (objects_of(objects)?, object.as_mut()) };
        let mut core = objects.core("create")?;
        let made = core.create(Key { kind, id: index })?;
        if let Some(into) = into {
            *into = handle(made);
        }
        Ok(())
    })
}

/// The program's handle of an object.
fn handle(object: &mut dyn Object) -> *mut c_void {
    let object: &dyn Any = object;
    object.downcast_ref::<CObject>().map_or(null_mut(), |made| made.object)
}

/// Puts an object of this rank into `*object`; NULL: it is on another one, or does not exist. Local.
///
/// # Safety
/// `objects` is open, `object` points to a pointer.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_get(
    objects: *mut Objects,
    kind: u32,
    index: u64,
    object: *mut *mut c_void,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, into) = unsafe { (objects_of(objects)?, object.as_mut()) };
        let into = into.ok_or_else(|| null("object"))?;
        *into = objects.core("get")?.get(Key { kind, id: index }).map_or(null_mut(), handle);
        Ok(())
    })
}

/// Puts the indices of this rank's objects of a kind into `indices`, up to `room` of them, in order, and their number
/// into `*count`. Local.
///
/// # Safety
/// `objects` is open, `indices` points to room for so many or is null if that is 0, `count` to a size_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_here(
    objects: *mut Objects,
    kind: u32,
    indices: *mut u64,
    room: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, count) = unsafe { (objects_of(objects)?, count.as_mut()) };
        let count = count.ok_or_else(|| null("count"))?;
        if indices.is_null() && room > 0 {
            return Err(null("indices"));
        }
        let here = objects.core("here")?.here();
        *count = 0;
        for key in here.into_iter().filter(|key| key.kind == kind) {
            if *count < room {
                // SAFETY: there is room for it.
                unsafe { indices.add(*count).write(key.id) };
            }
            *count += 1;
        }
        Ok(())
    })
}

/// Puts the rank of an object into `*rank`. Local. MAINSTAY_INVALID_ARGUMENT: no rank has announced the object yet.
///
/// # Safety
/// `objects` is open, `rank` points to a uint32_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_rank(objects: *mut Objects, kind: u32, index: u64, rank: *mut u32) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, rank) = unsafe { (objects_of(objects)?, rank.as_mut()) };
        let (rank, core) = (rank.ok_or_else(|| null("rank"))?, objects.core("rank")?);
        let key = Key { kind, id: index };
        let found = core.rank_of(key);
        let nowhere =
            || Error::argument(format!("object {}", core.name(key)), "no rank has made it, as far as this one knows");
        *rank = found.ok_or_else(nowhere)? as u32;
        Ok(())
    })
}

/// Sends a message: calls method number `method` of an object with `bytes` bytes at `data`, on whichever rank it is,
/// before the step ends. Local; also from a kind's `receive`. The memory is the program's again when the call
/// returns. If there is no such object, mainstay_objects_step reports it.
///
/// # Safety
/// `objects` is open, `data` points to `bytes` bytes, or is null if that is 0.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_send(
    objects: *mut Objects,
    kind: u32,
    index: u64,
    method: u32,
    data: *const c_void,
    bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (objects, bytes) = unsafe { (objects_of(objects)?, given(data, bytes)?) };
        objects.post.send(Key { kind, id: index }, method, bytes);
        Ok(())
    })
}

/// Sends a message to all objects of a kind.
///
/// # Safety
/// As for `mainstay_objects_send`.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_broadcast(
    objects: *mut Objects,
    kind: u32,
    method: u32,
    data: *const c_void,
    bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (objects, bytes) = unsafe { (objects_of(objects)?, given(data, bytes)?) };
        objects.post.broadcast(kind, method, bytes);
        Ok(())
    })
}

/// Adds `count` values to the result of this number, by a mainstay_op. All contributions in a step use the same
/// operation and count. Local; also from a kind's `receive`.
///
/// # Safety
/// `objects` is open, `values` points to so many.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_contribute(
    objects: *mut Objects,
    result: u32,
    op: u32,
    values: *const f64,
    count: usize,
) -> Status {
    guard(|| {
        let op = match op {
            op if op == OpCode::Sum as u32 => Op::Sum,
            op if op == OpCode::Min as u32 => Op::Min,
            op if op == OpCode::Max as u32 => Op::Max,
            other => return Err(Error::argument("op", format!("{other} is no mainstay_op"))),
        };
        if values.is_null() && count > 0 {
            return Err(null("values"));
        }
        // SAFETY: the caller's promises are passed on.
        let objects = unsafe { objects_of(objects) }?;
        // SAFETY: not null, and as the caller promised.
        let values = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(values, count) } };
        if objects.post.contribute(result, op, values) {
            return Ok(());
        }
        let why = "another object contributes by another operation, or not as many values; let all do it alike";
        Err(Error::argument(format!("result {result} over objects"), why))
    })
}

/// Puts the result of this number of the last step into `values`: `count` values, the same on all ranks. Local.
/// MAINSTAY_INVALID_ARGUMENT: no object has contributed to it, or the number of values differs.
///
/// # Safety
/// `objects` is open, `values` points to room for so many.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_result(
    objects: *mut Objects,
    result: u32,
    values: *mut f64,
    count: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promise is passed on.
        let objects = unsafe { objects_of(objects) }?;
        let found = objects.post.result(result).unwrap_or_default();
        if values.is_null() {
            return Err(null("values"));
        }
        if found.len() != count || count == 0 {
            let why = format!("the last step has {} values of it, and not {count}", found.len());
            return Err(Error::argument(format!("result {result} over objects"), why));
        }
        // SAFETY: not null, and there is room for so many.
        unsafe { values.copy_from_nonoverlapping(found.as_ptr(), count) };
        Ok(())
    })
}

/// From a kind's `receive`: adds units of work to its object, in place of the time that it takes. All objects do so,
/// or none.
///
/// # Safety
/// `objects` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_work(objects: *mut Objects, units: u64) -> Status {
    guard(|| {
        // SAFETY: the caller's promise is passed on.
        unsafe { objects_of(objects) }?.post.work(units);
        Ok(())
    })
}

/// Reports the recent work of an object of this rank, which balancing uses and then halves. `*load` receives its
/// load: nanoseconds of a processor, or the units of mainstay_objects_work. `sent` receives up to `room` receivers of
/// its messages with the number of bytes for each, and `*count` the number of these receivers. Local.
/// MAINSTAY_INVALID_ARGUMENT: the object is not on this rank.
///
/// # Safety
/// `objects` is open, `load` points to a uint64_t, `sent` to room for so many or is null if that is 0, `count` to a
/// size_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_measured(
    objects: *mut Objects,
    kind: u32,
    index: u64,
    load: *mut u64,
    sent: *mut SentTo,
    room: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, load, count) = unsafe { (objects_of(objects)?, load.as_mut(), count.as_mut()) };
        let (load, count) = (load.ok_or_else(|| null("load"))?, count.ok_or_else(|| null("count"))?);
        if sent.is_null() && room > 0 {
            return Err(null("sent"));
        }
        let (core, key) = (objects.core("measured")?, Key { kind, id: index });
        let elsewhere = || {
            let on = core.rank_of(key).map_or_else(|| "on no rank".to_owned(), |rank| format!("on rank {rank}"));
            Error::argument(format!("object {}", core.name(key)), format!("it is {on}, which alone knows; ask there"))
        };
        let measured = core.measured(key).ok_or_else(elsewhere)?;
        *load = measured.load;
        *count = measured.sent.len();
        for (at, (to, bytes)) in measured.sent.iter().take(room).enumerate() {
            // SAFETY: there is room for it.
            unsafe { sent.add(at).write(SentTo { kind: to.kind, index: to.id, bytes: *bytes }) };
        }
        Ok(())
    })
}

/// Ends a step. It delivers all messages, and those that the objects send meanwhile, until there are none. Then it
/// combines the results, and balances the load if it is time. If an object fails, all ranks get the error, with its
/// name and rank: MAINSTAY_INVALID_ARGUMENT. After that only mainstay_objects_restore works, and nothing can be
/// saved. Collective.
///
/// # Safety
/// `objects` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_step(objects: *mut Objects) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { objects_of(objects) }?.core("step")?.step())
}

/// Puts the number of ended steps into `*steps`; it comes back with the objects. Local.
///
/// # Safety
/// `objects` is open, `steps` points to a uint64_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_steps(objects: *mut Objects, steps: *mut u64) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, steps) = unsafe { (objects_of(objects)?, steps.as_mut()) };
        *steps.ok_or_else(|| null("steps"))? = objects.core("steps")?.steps();
        Ok(())
    })
}

/// Delivers the messages in flight and saves all objects, with the protected regions of the session, as
/// mainstay_checkpoint does. `revision` may be NULL. If an object cannot be packed, nothing is saved. If somebody has
/// asked to evacuate a node (`mainstay evacuate`), all objects leave it first. Collective.
///
/// # Safety
/// `objects` is open, `revision` is null or points to a uint64_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_checkpoint(objects: *mut Objects, revision: *mut u64) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, revision) = unsafe { (objects_of(objects)?, revision.as_mut()) };
        let number = objects.with_session("checkpoint", Core::checkpoint)?;
        if let Some(revision) = revision {
            *revision = number;
        }
        Ok(())
    })
}

/// Destroys all objects and restores the newest complete revision, by mainstay_restore: every object of it is made
/// again, on one of the present ranks. Call it at the start, and after mainstay_recover. If all copies of an object
/// are damaged, it takes the same revision from a farther level, or an older one. `came` may be NULL. Collective.
///
/// # Safety
/// `objects` is open, `came` is null or points to a mainstay_objects_came.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_restore(objects: *mut Objects, came: *mut CameBack) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, into) = unsafe { (objects_of(objects)?, came.as_mut()) };
        let came = objects.with_session("restore", Core::restore)?;
        // SAFETY: as the caller of `mainstay_objects_open` promised.
        unsafe { session_of(objects.session) }?.keep(came.as_ref().map(|came| &came.restored));
        if let Some(into) = into {
            *into = came.map_or(CameBack { revision: 0, here: 0, objects: 0, elsewhere: 0 }, |came| CameBack {
                revision: came.restored.revision,
                here: came.here as u64,
                objects: came.objects as u64,
                elsewhere: came.elsewhere as u64,
            });
        }
        Ok(())
    })
}

/// Moves objects by the strategy of this name, NULL: "refine", according to their work. `balanced` may be NULL. Call
/// it between two steps. Collective.
///
/// # Safety
/// `objects` is open, `strategy` is null or ends with a zero byte, `balanced` is null or points to a
/// mainstay_balanced.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_balance(
    objects: *mut Objects,
    strategy: *const c_char,
    balanced: *mut BalancedLoad,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (objects, strategy, into) = unsafe { (objects_of(objects)?, strategy_of(strategy), balanced.as_mut()) };
        let came = objects.core("balance")?.balance_by(strategy)?;
        tell(into, came);
        Ok(())
    })
}

/// Moves all objects off these ranks, which any rank may name, and shares them out among the others: for a node that
/// is about to fail. From then on these ranks have no objects, until a later call no longer names them. With no rank
/// named, all ranks may have objects again. Save afterwards, because copies then leave the node, too. If an object
/// cannot be packed or unpacked, all stay on their ranks. Collective.
///
/// # Safety
/// `objects` is open, `ranks` points to `count` numbers or is null if that is 0, `balanced` is null or points to a
/// mainstay_balanced.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_objects_evacuate(
    objects: *mut Objects,
    ranks: *const u32,
    count: usize,
    balanced: *mut BalancedLoad,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (objects, into) = unsafe { (objects_of(objects)?, balanced.as_mut()) };
        if ranks.is_null() && count > 0 {
            return Err(null("ranks"));
        }
        // SAFETY: not null, and as the caller promised.
        let ranks = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(ranks, count) } };
        let ranks: Vec<usize> = ranks.iter().map(|rank| *rank as usize).collect();
        let came = objects.core("evacuate")?.evacuate(&ranks)?;
        tell(into, came);
        Ok(())
    })
}

fn tell(into: Option<&mut BalancedLoad>, came: Balanced) {
    if let Some(into) = into {
        let Balanced { moved, busiest_before, busiest, average, sent_before, sent } = came;
        *into = BalancedLoad { moved, busiest_before, busiest, average, sent_before, sent };
    }
}

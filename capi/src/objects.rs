//! Objects that move: `mainstay_objects.h`. This file opens and closes them, and registers their kinds.

mod messages;
mod object;
mod places;
mod steps;
mod tables;
mod wire;

use crate::{
    argument::{bytes_of, null},
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::{Error, Result};
use mainstay_objects::{Object, Objects as Core, Options, Post, Strategy};
use object::{CObject, called};
use std::{
    cell::{RefCell, RefMut},
    ffi::c_char,
    ptr::null_mut,
};
use tables::{KindTable, ObjectsOptions, WireTable};
use wire::CWire;

/// The objects of a job, as one rank has them.
pub struct Objects {
    session: *mut Session,
    core: RefCell<Core>,
    post: Post,
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

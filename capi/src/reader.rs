//! Reading a revision from outside a job.

use crate::{
    argument::{bytes_of, null},
    buffer::NEWEST,
    error::{Status, guard},
    item::{Item, Named, told},
    memory::room,
    region::{name_of, numbers_of},
    shards::read,
};
use mainstay_engine::Error;
use std::{
    ffi::{OsStr, c_char, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// One revision of a space, opened for reading.
pub struct Reader {
    engine: mainstay_engine::Reader,
    /// The items of each shard, as C sees them.
    items: Vec<Vec<Named>>,
}

/// Opens a complete revision of the space in the directory `path`, and puts the reader into `*reader`. `revision` is
/// a number, or MAINSTAY_NEWEST; 0 is the newest, too. Local: any process may call it, without MPI, on any machine
/// that sees the space. While a job is running, the reader holds the revision until you close it, or for an hour
/// after its last use. If you open the newest and the space is damaged, Mainstay prints a line on standard error,
/// once a process: a newer revision may have been lost.
///
/// # Safety
/// `path` ends with a zero byte, `reader` points to room for a pointer.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_reader_open(path: *const c_char, revision: u64, reader: *mut *mut Reader) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let into = unsafe { reader.as_mut() }.ok_or_else(|| null("reader"))?;
        *into = std::ptr::null_mut();
        // SAFETY: as the caller promised.
        let path = Path::new(OsStr::from_bytes(unsafe { bytes_of(path, "path") }?));
        let engine = mainstay_engine::Reader::open(
            path,
            Some(revision).filter(|revision| ![0, NEWEST].contains(revision)),
            "mainstay_reader",
        )?;
        let items = (0..engine.shard_count()).map(|shard| Ok(Named::all(engine.items(shard)?)));
        let items = items.collect::<Result<_, Error>>()?;
        *into = Box::into_raw(Box::new(Reader { engine, items }));
        Ok(())
    })
}

/// The number of the revision; 0: `reader` is NULL.
///
/// # Safety
/// `reader` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_reader_revision(reader: *const Reader) -> u64 {
    // SAFETY: the caller's promise is passed on.
    unsafe { reader.as_ref() }.map_or(0, |reader| reader.engine.key().number)
}

/// The number of shards: shard r is the one that rank r saved. 0: `reader` is NULL.
///
/// # Safety
/// `reader` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_reader_shards(reader: *const Reader) -> u32 {
    // SAFETY: the caller's promise is passed on.
    unsafe { reader.as_ref() }.map_or(0, |reader| reader.engine.shard_count())
}

/// The number of items of a shard; 0 if there is no such shard.
///
/// # Safety
/// `reader` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_reader_items(reader: *const Reader, shard: u32) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe { reader.as_ref() }.and_then(|reader| reader.items.get(shard as usize)).map_or(0, Vec::len)
}

/// Describes item `index` of a shard.
///
/// # Safety
/// `reader` is open, `item` points to room for one.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_reader_item(
    reader: *const Reader,
    shard: u32,
    index: usize,
    item: *mut Item,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (reader, into) = unsafe { (reader.as_ref(), item.as_mut()) };
        let (reader, into) = (reader.ok_or_else(|| null("reader"))?, into.ok_or_else(|| null("item"))?);
        reader.engine.items(shard)?;
        *into = told(&reader.items[shard as usize], shard, index)?;
        Ok(())
    })
}

/// Reads up to `bytes` bytes of the item `name` of a shard, from byte `offset` on, into `data`. `got` may be NULL;
/// otherwise `*got` receives the number of bytes read: fewer only at the item's end; 0 after an error, when `data` is
/// undefined. Mainstay verifies every block first.
///
/// # Safety
/// `reader` is open, `name` ends with a zero byte, `data` has room for `bytes`.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_reader_read(
    reader: *mut Reader,
    shard: u32,
    name: *const c_char,
    offset: u64,
    data: *mut c_void,
    bytes: usize,
    got: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        unsafe {
            let reader = reader.as_mut().map(|reader| &mut reader.engine).ok_or_else(|| null("reader"));
            read(reader, shard, name, offset, data, bytes, got)
        }
    })
}

/// Fills `data`, which has `bytes` bytes, with a box of the global array `name`, from all shards that hold part of
/// it. `offset` is the box's beginning and `shape` its shape: `dimensions` numbers of elements each, slowest first.
///
/// # Safety
/// `reader` is open, `name` ends with a zero byte, the rest is as large as said.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_reader_read_box(
    reader: *mut Reader,
    name: *const c_char,
    dimensions: usize,
    shape: *const u64,
    offset: *const u64,
    data: *mut c_void,
    bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        unsafe {
            let (reader, name) = (reader.as_mut().ok_or_else(|| null("reader"))?, name_of(name)?);
            let (shape, offset) = (numbers_of(shape, dimensions, "shape")?, numbers_of(offset, dimensions, "offset")?);
            reader.engine.read_box(&name, offset, shape, room(data, bytes)?)
        }
    })
}

/// Closes a reader and releases the revision that it holds. NULL does nothing.
///
/// # Safety
/// `reader` came from mainstay_reader_open and was not closed.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_reader_close(reader: *mut Reader) -> Status {
    guard(|| {
        if !reader.is_null() {
            // SAFETY: made by `mainstay_reader_open` from a box, and given up by the caller.
            drop(unsafe { Box::from_raw(reader) });
        }
        Ok(())
    })
}

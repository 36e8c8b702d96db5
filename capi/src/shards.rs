//! Shards of the restored revision, which a job of any number of ranks can read.

use crate::{
    argument::{null, or_refuse},
    error::{Status, guard},
    item::{Item, Named, told},
    memory::room,
    region::name_of,
    session::{Session, session_of},
};
use mainstay_engine::{Error, Reader};
use std::ffi::{c_char, c_void};

/// Puts into `*count` the number of shards of the revision that the last mainstay_restore brought back. Shard r is
/// the one that rank r saved, whatever the number of ranks now. 0: nothing was restored, or a checkpoint has begun
/// since. Local.
///
/// # Safety
/// `session` is open, `count` points to a uint32_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_shards(session: *mut Session, count: *mut u32) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, count) = unsafe { (session_of(session)?, count.as_mut()) };
        *count.ok_or_else(|| null("count"))? = session.engine.shards()?.shard_count();
        Ok(())
    })
}

/// Lets this rank read the `count` shards with the numbers at `shards`, with mainstay_read_shard. Shards that only
/// other nodes have are sent into memory of this rank. If a level has copies, Mainstay takes an undamaged one. After
/// this call mainstay_shard_items lists the items of all shards; a `count` of 0 does only that. Collective; each rank
/// passes the shards that it wants. Valid until the next checkpoint begins. MAINSTAY_INVALID_ARGUMENT: nothing was
/// restored, a checkpoint has begun since, or there is no such shard. MAINSTAY_DAMAGED: every copy of a shard is
/// damaged.
///
/// # Safety
/// `session` is open, `shards` points to `count` numbers, or is null if that is 0.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_bring_shards(session: *mut Session, shards: *const u32, count: usize) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let session = unsafe { session_of(session) }?;
        // SAFETY: the caller's promise is passed on.
        let wanted = unsafe { numbers_at(shards, count) };
        session.items.clear();
        let wanted = or_refuse(&mut session.engine, wanted);
        session.engine.bring_shards(wanted)
    })
}

/// Puts into `*count` the number of items of a shard: one that this rank can read, or, after mainstay_bring_shards,
/// any. Local; valid until the next checkpoint begins.
///
/// # Safety
/// `session` is open, `count` points to a size_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_shard_items(session: *mut Session, shard: u32, count: *mut usize) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, count) = unsafe { (session_of(session)?, count.as_mut()) };
        let count = count.ok_or_else(|| null("count"))?;
        *count = items_of(session, shard)?.len();
        Ok(())
    })
}

/// Describes item `index` of a shard, from 0 on. Local; valid until the next checkpoint begins.
///
/// # Safety
/// `session` is open, `item` points to room for one.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_shard_item(
    session: *mut Session,
    shard: u32,
    index: usize,
    item: *mut Item,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, item) = unsafe { (session_of(session)?, item.as_mut()) };
        let item = item.ok_or_else(|| null("item"))?;
        *item = told(items_of(session, shard)?, shard, index)?;
        Ok(())
    })
}

/// Reads up to `bytes` bytes of the item `name` of a shard, from byte `offset` on, into `data`, and verifies them.
/// `got` may be NULL; otherwise `*got` receives the number of bytes read: fewer only at the item's end; 0 after an
/// error, when `data` is undefined. MAINSTAY_INVALID_ARGUMENT: this rank cannot read the shard; call
/// mainstay_bring_shards first. Local; valid until the next checkpoint begins.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `data` has room for `bytes`, `got` is null or points to a size_t.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_read_shard(
    session: *mut Session,
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
            let reader = session_of(session).and_then(|session| session.engine.shards());
            read(reader, shard, name, offset, data, bytes, got)
        }
    })
}

/// # Safety
/// `shards` is null or points to `count` numbers.
#[allow(unsafe_code)]
unsafe fn numbers_at<'a>(shards: *const u32, count: usize) -> Result<&'a [u32], Error> {
    match count {
        0 => Ok(&[]),
        _ if shards.is_null() => Err(null("shards")),
        // A negative count would seem so.
        _ if count > isize::MAX as usize / size_of::<u32>() => {
            Err(Error::argument("count", format!("{count} shards, more than any memory has numbers of")))
        }
        // SAFETY: as the caller promised, and not null.
        _ => Ok(unsafe { std::slice::from_raw_parts(shards, count) }),
    }
}

fn items_of(session: &mut Session, shard: u32) -> Result<&[Named], Error> {
    // The engine knows whether the shard can still be read.
    let items = session.engine.shards()?.items(shard)?;
    Ok(session.items.entry(shard).or_insert_with(|| Named::all(items)))
}

/// Reads bytes of an item with `reader`, for mainstay_reader_read and mainstay_read_shard.
///
/// # Safety
/// `name` ends with a zero byte, `data` has room for `bytes`, `got` is null or points to a size_t.
#[allow(unsafe_code)]
pub(crate) unsafe fn read(
    reader: Result<&mut Reader, Error>,
    shard: u32,
    name: *const c_char,
    offset: u64,
    data: *mut c_void,
    bytes: usize,
    got: *mut usize,
) -> Result<(), Error> {
    let mut nobody = 0;
    // SAFETY: null or as the caller promised.
    let got = unsafe { got.as_mut() }.unwrap_or(&mut nobody);
    *got = 0;
    // SAFETY: the caller's promises are passed on.
    let (name, into) = unsafe { (name_of(name)?, room(data, bytes)?) };
    *got = reader?.read(shard, &name, offset, into)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A count of -1 read past the numbers.
    #[test]
    #[allow(unsafe_code)]
    fn a_count_that_no_memory_has_is_refused() {
        let shards = [0, 2];
        // SAFETY: it is refused before anyone reads the numbers; the other has as many.
        let (refused, read) = unsafe { (numbers_at(shards.as_ptr(), usize::MAX), numbers_at(shards.as_ptr(), 2)) };
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with("count: 18446744073709551615 shards"), "{refused}");
        assert_eq!(read.unwrap(), [0, 2]);
    }
}

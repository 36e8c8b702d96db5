//! Makes objects on this rank, and finds them here and on other ranks.

use super::{Objects, object::handle, objects_of};
use crate::{
    argument::null,
    error::{Status, guard},
};
use mainstay_engine::Error;
use mainstay_objects::{Key, id_of};
use std::{ffi::c_void, ptr::null_mut};

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

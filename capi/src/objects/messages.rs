//! Messages to objects, results over all objects, and the work of one.

use super::{
    Objects, objects_of,
    tables::{OpCode, SentTo},
};
use crate::{
    argument::null,
    error::{Status, guard},
    memory::given,
};
use mainstay_engine::Error;
use mainstay_objects::{Key, Op};
use std::ffi::c_void;

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

//! Ends steps, saves and restores all objects, and moves them.

use super::{
    Objects, objects_of, strategy_of,
    tables::{BalancedLoad, CameBack},
};
use crate::{
    argument::null,
    error::{Status, guard},
    session::session_of,
};
use mainstay_objects::{Balanced, Objects as Core};
use std::ffi::c_char;

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

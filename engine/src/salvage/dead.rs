//! What ranks of a job leave behind that have died while others live on.

use super::complete;
use crate::{
    device::{Device, LockOutcome},
    pool::Pool,
    space::Locks,
};

/// Completes the sealed shards of members that have died, and frees their chunks: no other rank waits for
/// them. What cannot be completed is freed all the same.
pub(crate) fn complete_dead(device: &dyn Device, pool: &Pool) {
    for member in pool.dead() {
        // Held until its chunks are free.
        let locks = Locks::open(device);
        if let Some(sealed) = pool.sealed(member) {
            match locks.as_ref().map(|locks| locks.try_lock(sealed.plan.portion.into())) {
                // Another survivor is at it.
                Ok(Ok(LockOutcome::Busy)) => continue,
                Ok(Ok(LockOutcome::Held)) => drop(complete(device, &sealed, pool.contents())),
                _ => {}
            }
        }
        pool.free_of(member);
    }
}

//! Completing the data of dead ranks while other ranks of their job are alive.

use super::complete;
use crate::{
    device::{Device, LockOutcome},
    ground::sleep,
    pool::{Pool, Sealed},
    space::Locks,
};
use std::time::Duration;

/// The kernel releases the locks of a dead process one by one, its membership lock perhaps before the lock of its
/// portion. Giving up loses a staged shard, so the limit is far beyond that gap. It counts tries, not time: on a
/// machine that stalls, the kernel's release stalls too.
const TRIES: u32 = 500;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Completes the sealed shards of dead members on `devices`, and frees their chunks, because no other rank waits for
/// them. If a shard cannot be completed, its chunks are freed all the same, and the pool notes the loss.
pub(crate) fn complete_dead(devices: &[&dyn Device], pool: &Pool) {
    // Another survivor may be doing this already.
    pool.look_after_dead(|| {
        for member in pool.dead() {
            // Without files or memory the member's state is unknown: retry later.
            let sealed = match pool.read_sealed(member) {
                Err(error) if error.is_of_process() => continue,
                read => read.unwrap_or_default(),
            };
            let mut lost = 0;
            for owed in sealed.iter().flat_map(Sealed::owed) {
                for device in devices {
                    // The locks are held until the shard is complete.
                    let locks = Locks::open(*device);
                    if locks.as_ref().is_ok_and(|locks| is_locked(locks, owed.shard.plan.shard.into())) {
                        lost += u32::from(complete(*device, owed, pool.contents()).is_err());
                    }
                }
            }
            pool.free_of(member, lost);
        }
    });
}

/// Locks the byte of a portion after the death of its writer. Returns false if a living process has it, or no lock is
/// available.
fn is_locked(locks: &Locks, portion: u64) -> bool {
    for _ in 0..TRIES {
        match locks.try_lock(portion) {
            Ok(LockOutcome::Busy | LockOutcome::Read(_)) => sleep(BETWEEN_TRIES),
            outcome => return matches!(outcome, Ok(LockOutcome::Done)),
        }
    }
    false
}

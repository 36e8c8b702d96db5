//! What ranks that have died leave behind, while other ranks of their job live on.

use super::complete;
use crate::{
    device::{Device, LockOutcome},
    ground::sleep,
    pool::{Pool, Sealed},
    space::Locks,
};
use std::time::Duration;

/// The kernel releases the locks of a dead process one by one: its membership lock, which tells of the death, perhaps before
/// the lock of its portion. Giving up loses a staged shard, so the bound is far beyond that gap. It counts tries and no
/// time: on a machine that stalls, the kernel's release stalls too.
const TRIES: u32 = 500;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Completes on `devices` the sealed shards of members that have died, and frees their chunks: no other rank waits for
/// them. Chunks of a shard that cannot be completed are freed all the same, and the pool keeps a note of the loss; so are chunks that an aggregator had of a
/// rank that lives, whose portion nobody else may write to.
pub(crate) fn complete_dead(devices: &[&dyn Device], pool: &Pool) {
    // Another survivor may be doing this already.
    pool.look_after_dead(|| {
        for member in pool.dead() {
            // Without files or memory nothing is known of the member: it is tried another time.
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

/// Locks the byte of a portion whose writer has died; false if a living process has it, or no lock can be had.
fn is_locked(locks: &Locks, portion: u64) -> bool {
    for _ in 0..TRIES {
        match locks.try_lock(portion) {
            Ok(LockOutcome::Busy) => sleep(BETWEEN_TRIES),
            outcome => return matches!(outcome, Ok(LockOutcome::Held)),
        }
    }
    false
}

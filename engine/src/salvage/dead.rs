//! What ranks that have died leave behind, while other ranks of their job live on.

use super::complete;
use crate::{
    device::{Device, LockOutcome},
    pool::{Pool, Sealed},
    space::Locks,
};

/// Completes on `devices` the sealed shards of members that have died, and frees their chunks: no other rank waits for
/// them. Chunks of a shard that cannot be completed are freed all the same; so are chunks that an aggregator had of a
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
            for owed in sealed.iter().flat_map(Sealed::owed) {
                for device in devices {
                    // The locks are held until the shard is complete.
                    let locks = Locks::open(*device);
                    let locked = locks.as_ref().map(|locks| locks.try_lock(owed.shard.plan.shard.into()));
                    if matches!(locked, Ok(Ok(LockOutcome::Held))) {
                        let _ = complete(*device, owed, pool.contents());
                    }
                }
            }
            pool.free_of(member);
        }
    });
}

//! The facts that ranks exchange in the first all-reduce of a call. Its shape is the same for every call.

use super::{
    flag::{EqualOnAllRanks, Flag},
    schedule::Facts,
};
use crate::{
    error::Result,
    group::Group,
    mutant::{self, Mutant},
};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// The most levels of a session: memory, disk and space; memory and disk with three further copies each.
pub(super) const LEVELS_MAX: usize = 9;

/// A call fills in the fields that it needs. The all-reduce takes the maximum over all ranks, field by field: a flag
/// set on one rank is set for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Agreement {
    /// The call that this rank makes; filled in by every call.
    pub(super) call: EqualOnAllRanks,
    /// One entry for each level, the nearest first.
    pub(super) levels: [LevelFacts; LEVELS_MAX],
    /// The step that `due` was last called with.
    pub(super) step: EqualOnAllRanks,
    /// The level that `wait_for` waits for, from 1; 0 in other calls.
    pub(super) level: EqualOnAllRanks,
    /// The program on this rank does not know yet that the last checkpoint failed, if it did; filled in by every call.
    pub(super) untold: Flag,
    /// This rank could not prepare the call.
    pub(super) not_ready: Flag,
    /// This rank has output files that the ranks have not compared yet.
    pub(super) new_outputs: Flag,
    /// This rank has something to save.
    pub(super) anything: Flag,
    /// The result of `Pool::chunk_facts`.
    pub(super) chunk: [u64; 2],
    /// Time for one batch of early saving; 0 if nothing was saved early.
    pub(super) early_batch_us: u64,
    pub(super) had_begun: Flag,
    pub(super) had_not_begun: Flag,
    pub(super) meeting: Facts,
    /// This rank cannot wait eagerly; filled in by every call.
    pub(super) waits_asleep: Flag,
}

/// A rank's facts about one level. Every call fills in the first three fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct LevelFacts {
    /// The number of the revision under way; 0 if there is none.
    pub(super) under_way: EqualOnAllRanks,
    /// The revision under way has failed.
    pub(super) failed: Flag,
    /// The revision under way has not ended, and this call does not wait for it.
    pub(super) busy: Flag,
    /// The next revision goes to this level, and there is no room for a shard.
    pub(super) no_room: Flag,
    /// The next revision goes to this level, and there is no layout yet.
    pub(super) no_layout: Flag,
    /// The next revision goes to this level, and its holds differ from the known ones.
    pub(super) holds_changed: Flag,
}

impl Agreement {
    /// Exchanges the facts, and returns the maximum over all ranks. Collective.
    pub(super) fn reach(self, group: &dyn Group) -> Result<Agreement> {
        let mut numbers: [u64; size_of::<Agreement>() / 8] = transmute!(self);
        if !mutant::is(Mutant::AgreementLeftOut) {
            group.all_max(&mut numbers)?;
        }
        Ok(transmute!(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::ThreadGroup;
    use std::thread;

    #[test]
    fn the_highest_counts_and_what_differs_is_known() {
        let group = ThreadGroup::new(3);
        let agreement_of = |rank| Agreement {
            call: EqualOnAllRanks::of(2),
            step: EqualOnAllRanks::of(rank),
            not_ready: Flag::from(rank == 1),
            chunk: [0, 9 - rank],
            ..Agreement::default()
        };
        thread::scope(|scope| {
            for (group, rank) in group.iter().zip(0..) {
                scope.spawn(move || {
                    let all = agreement_of(rank).reach(group).unwrap();
                    assert!(all.call.is_so() && !all.step.is_so() && all.not_ready.is_set() && !all.anything.is_set());
                    assert_eq!((all.step.lowest(), all.step.highest(), all.chunk), (0, 2, [0, 9]));
                });
            }
        });
    }
}

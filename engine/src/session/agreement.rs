//! What the ranks tell each other in the first all-reduce of a call: of one shape, whatever the call is.

use super::{
    flag::{Alike, Flag},
    schedule::Facts,
};
use crate::{error::Result, group::Group};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Levels that a session can have.
pub(super) const LEVELS_MAX: usize = 4;

/// A call fills in what it has to tell. Of each field the highest of all ranks counts: what is true on one is true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Agreement {
    /// Which call it is; filled in for every call.
    pub(super) call: Alike,
    /// Of each level, the nearest first.
    pub(super) levels: [LevelFacts; LEVELS_MAX],
    /// What `due` was last called with.
    pub(super) step: Alike,
    /// What the call needs of the program failed.
    pub(super) not_ready: Flag,
    /// There is something to save.
    pub(super) anything: Flag,
    /// As `Pool::chunk_facts` has it.
    pub(super) chunk: [u64; 2],
    pub(super) had_begun: Flag,
    pub(super) had_not_begun: Flag,
    pub(super) meeting: Facts,
}

/// What is told of one level. The first three are filled in for every call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct LevelFacts {
    /// The number of the revision under way; 0: none is.
    pub(super) under_way: Alike,
    /// It has failed.
    pub(super) failed: Flag,
    /// It has not come to its end, and this call does not wait for that.
    pub(super) busy: Flag,
    /// What follows is of a level that the next revision goes to: it has no room for a shard,
    pub(super) no_room: Flag,
    /// or no layout yet,
    pub(super) no_layout: Flag,
    /// or there are other holds than those known.
    pub(super) holds_changed: Flag,
}

impl Agreement {
    /// What all ranks have told. Collective.
    pub(super) fn reach(self, group: &dyn Group) -> Result<Agreement> {
        let mut numbers: [u64; size_of::<Agreement>() / 8] = transmute!(self);
        group.all_max(&mut numbers)?;
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
        let told = |rank| Agreement {
            call: Alike::of(2),
            step: Alike::of(rank),
            not_ready: Flag::from(rank == 1),
            chunk: [0, 9 - rank],
            ..Agreement::default()
        };
        thread::scope(|scope| {
            for (group, rank) in group.iter().zip(0..) {
                scope.spawn(move || {
                    let all = told(rank).reach(group).unwrap();
                    assert!(all.call.is_so() && !all.step.is_so() && all.not_ready.is_set() && !all.anything.is_set());
                    assert_eq!((all.step.lowest(), all.step.highest(), all.chunk), (0, 2, [0, 9]));
                });
            }
        });
    }
}

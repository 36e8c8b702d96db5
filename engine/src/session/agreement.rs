//! What the ranks tell each other in the first all-reduce of a call: of one shape, whatever the call is.

use super::{
    flag::{Alike, Flag},
    schedule::Facts,
};
use crate::{error::Result, group::Group};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// A call fills in what it has to tell. Of each field the highest of all ranks counts: what is true on one is true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Agreement {
    /// Which call it is. This and the two that follow are filled in for every call.
    pub(super) call: Alike,
    /// The last revision has failed.
    pub(super) failed: Flag,
    /// The number of the revision under way; 0: none is.
    pub(super) under_way: Alike,
    /// What `due` was last called with.
    pub(super) step: Alike,
    /// What the call needs of the program failed.
    pub(super) not_ready: Flag,
    pub(super) no_room: Flag,
    pub(super) no_layout: Flag,
    /// There is something to save.
    pub(super) anything: Flag,
    pub(super) holds_changed: Flag,
    /// As `Pool::chunk_facts` has it.
    pub(super) chunk: [u64; 2],
    pub(super) had_begun: Flag,
    pub(super) had_not_begun: Flag,
    pub(super) meeting: Facts,
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
            no_room: Flag::from(rank == 1),
            chunk: [0, 9 - rank],
            ..Agreement::default()
        };
        thread::scope(|scope| {
            for (group, rank) in group.iter().zip(0..) {
                scope.spawn(move || {
                    let all = told(rank).reach(group).unwrap();
                    assert!(all.call.is_so() && !all.step.is_so() && all.no_room.is_set() && !all.no_layout.is_set());
                    assert_eq!((all.step.lowest(), all.step.highest(), all.chunk), (0, 2, [0, 9]));
                });
            }
        });
    }
}

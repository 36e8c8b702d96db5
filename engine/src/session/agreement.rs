//! What the ranks tell each other in the first all-reduce of a call: of one shape, whatever the call is.

use super::schedule::Facts;
use crate::{error::Result, group::Group};
use std::time::Duration;

/// A call fills in what it has to tell. Of each field the highest of all ranks counts: what is true on one is true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Agreement {
    /// Which call it is. This and the two that follow are filled in for every call.
    pub(super) call: Alike,
    /// The last revision has failed.
    pub(super) failed: bool,
    /// The number of the revision under way; 0: none is.
    pub(super) under_way: Alike,
    /// What `due` was last called with.
    pub(super) step: Alike,
    /// What the call needs of the program failed.
    pub(super) not_ready: bool,
    pub(super) no_room: bool,
    pub(super) no_layout: bool,
    /// There is something to save.
    pub(super) anything: bool,
    pub(super) holds_changed: bool,
    /// As `Pool::chunk_facts` has it.
    pub(super) chunk: [u64; 2],
    pub(super) had_begun: bool,
    pub(super) had_not_begun: bool,
    pub(super) meeting: Facts,
}

/// A value of each rank: whether it is the same on all follows from the highest and the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alike {
    pub(super) highest: u64,
    pub(super) lowest: u64,
}

impl Alike {
    /// Of this rank alone.
    pub(super) fn of(value: u64) -> Alike {
        Alike { highest: value, lowest: value }
    }

    pub(super) fn is_so(&self) -> bool {
        self.highest == self.lowest
    }

    /// The highest complement is the lowest value's.
    fn numbers(self) -> [u64; 2] {
        [self.highest, !self.lowest]
    }
}

impl Default for Alike {
    fn default() -> Alike {
        Alike::of(0)
    }
}

const NUMBERS: usize = 21;

impl Agreement {
    /// What all ranks have told. Collective.
    pub(super) fn reach(self, group: &dyn Group) -> Result<Agreement> {
        let mut numbers = self.numbers();
        group.all_max(&mut numbers)?;
        Ok(Agreement::of(numbers))
    }

    fn numbers(self) -> [u64; NUMBERS] {
        let Agreement { not_ready, no_room, no_layout, anything, holds_changed, had_begun, had_not_begun, .. } = self;
        let Facts { asked, since_checkpoint, since_meeting, cost: (perceived, durable) } = self.meeting;
        let flags =
            [self.failed, not_ready, no_room, no_layout, anything, holds_changed, had_begun, had_not_begun, asked];
        let times = [since_checkpoint, since_meeting, perceived, durable].map(|time| time.as_nanos() as u64);
        let alike = [self.call, self.under_way, self.step].map(Alike::numbers);
        let all = alike.as_flattened().iter().copied().chain(flags.map(u64::from)).chain(times).chain(self.chunk);
        let mut numbers = [0; NUMBERS];
        numbers.iter_mut().zip(all).for_each(|(number, told)| *number = told);
        numbers
    }

    fn of(numbers: [u64; NUMBERS]) -> Agreement {
        let [a, b, c, d, e, f, flags @ .., since_checkpoint, since_meeting, perceived, durable, shard, chunk] = numbers;
        let [call, under_way, step] = [[a, b], [c, d], [e, f]].map(|[highest, rest]| Alike { highest, lowest: !rest });
        let [failed, not_ready, no_room, no_layout, anything, holds_changed, had_begun, had_not_begun, asked] =
            flags.map(|flag| flag != 0);
        let [since_checkpoint, since_meeting, perceived, durable] =
            [since_checkpoint, since_meeting, perceived, durable].map(Duration::from_nanos);
        Agreement {
            call,
            failed,
            under_way,
            step,
            not_ready,
            no_room,
            no_layout,
            anything,
            holds_changed,
            chunk: [shard, chunk],
            had_begun,
            had_not_begun,
            meeting: Facts { asked, since_checkpoint, since_meeting, cost: (perceived, durable) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::ThreadGroup;
    use std::thread;

    /// Each field of its own: one that took another's place would be found.
    #[test]
    fn what_is_told_comes_back() {
        for field in 0..NUMBERS {
            let mut numbers = Agreement::default().numbers();
            numbers[field] = 1 - numbers[field].min(1);
            let told = Agreement::of(numbers);
            assert_eq!(told.numbers(), numbers, "{told:?}");
        }
        let told = Agreement { under_way: Alike::of(7), no_room: true, chunk: [3, 4], ..Agreement::default() };
        assert_eq!(Agreement::of(told.numbers()), told);
    }

    #[test]
    fn the_highest_counts_and_what_differs_is_known() {
        let told = |rank: u64| Agreement {
            call: Alike::of(2),
            step: Alike::of(rank),
            no_room: rank == 1,
            ..Agreement::default()
        };
        let (group, reached) = (ThreadGroup::new(3), told(1));
        thread::scope(|scope| {
            for (group, rank) in group.iter().zip(0..) {
                scope.spawn(move || {
                    let all = told(rank).reach(group).unwrap();
                    assert_eq!(all, Agreement { step: Alike { highest: 2, lowest: 0 }, ..reached });
                    assert!(all.call.is_so() && !all.step.is_so());
                });
            }
        });
    }
}

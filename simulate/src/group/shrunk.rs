//! The group that goes on after a failure.

use super::{Meeting, SimulatedGroup, locked};
use crate::cluster::ProcessId;
use mainstay_engine::group::Divided;
use std::sync::{Arc, Mutex};

impl SimulatedGroup {
    /// Makes the group of the ranks that go on, and of new processes in place of lost ranks if the job refills them.
    pub(super) fn make_shrunk(&self) {
        let meeting = &self.meeting;
        let mut state = locked(&meeting.state);
        let refill = meeting.refill.clone().filter(|refill| refill.always || state.divided == Some(Divided::ByRanks));
        let goes_on = |rank: &usize| state.shrinking.contains(rank) && meeting.members[*rank].death.time().is_none();
        let all = 0..meeting.members.len();
        let survivors: Vec<Option<usize>> = all
            .filter_map(|rank| if goes_on(&rank) { Some(Some(rank)) } else { refill.as_ref().map(|_| None) })
            .collect();
        // The threads that start run only after this.
        let mut new = Vec::new();
        let processes: Vec<(ProcessId, usize)> = survivors
            .iter()
            .enumerate()
            .map(|(rank, old)| match (old, &refill) {
                (None, Some(refill)) => {
                    let (slot, node) = (Arc::new(Mutex::new(None)), meeting.members[rank].node);
                    let process = (refill.start)(rank, node, slot.clone());
                    new.push((rank, slot));
                    (process, node)
                }
                (old, _) => {
                    let member = &meeting.members[old.unwrap_or(rank)];
                    (member.process, member.node)
                }
            })
            .collect();
        let shrunk = Meeting::new(&meeting.cluster, &processes, meeting.refill.clone(), meeting.generation + 1);
        for (rank, slot) in new {
            *locked(&slot) = Some(SimulatedGroup::at(rank, &shrunk));
        }
        state.shrunk = Some((survivors, shrunk));
    }
}

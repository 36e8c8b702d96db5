//! Collectives: each rank gives its part, and gets the result at a time of its own.

use super::{Collective, Kind, SimulatedGroup, failed, locked};
use mainstay_engine::{Result, current_world};
use std::time::Duration;

impl SimulatedGroup {
    /// The result of a collective: the bytes of all ranks, or of the root.
    pub(super) fn meet(&self, kind: Kind, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let meeting = &*self.meeting;
        current_world().expect("a thread of the cluster").step();
        let number = self.give(kind, mine)?;
        let mut outcome = None;
        self.wait("the other ranks", |state| {
            let (state, now) = (&*state, meeting.cluster.clock());
            let traffic = &state.channels[self.channel as usize];
            let one = &traffic.collectives[(number - traffic.first) as usize];
            let is_ready = one.ready[self.rank].is_some_and(|ready| ready <= now);
            // After a death, some ranks have the result, and others do not.
            let is_lost =
                (number ^ self.rank as u64) & 1 == 0 && meeting.members.iter().any(|member| member.is_known_dead(now));
            outcome = if is_ready && !is_lost {
                Some(Ok(one.given.iter().map(|given| given.clone().unwrap_or_default()).collect()))
            } else if !state.shrinking.is_empty() {
                Some(Err(failed("some rank goes on without the failed ones")))
            } else {
                let is_missing = |rank: usize| match kind {
                    Kind::Broadcast(root) => rank == root && one.given[rank].is_none(),
                    _ => one.given[rank].is_none(),
                };
                let is_missing = |rank: usize| is_missing(rank) || is_lost;
                let gone = (0..one.given.len()).find(|rank| is_missing(*rank) && meeting.knows_death(state, *rank));
                gone.map(|rank| Err(failed(format!("rank {rank} is gone"))))
            };
            outcome.is_some()
        });
        let mut state = locked(&meeting.state);
        let traffic = state.traffic(self.channel);
        traffic.collective(number).returned += 1;
        while traffic.collectives.front().is_some_and(|one| one.returned == meeting.members.len()) {
            traffic.collectives.pop_front();
            traffic.first += 1;
        }
        drop(state);
        meeting.cluster.has_happened();
        outcome.unwrap_or_else(|| Err(failed("the wait was given up")))
    }

    /// Gives this rank's part of the next collective, and returns its number.
    fn give(&self, kind: Kind, mine: Vec<u8>) -> Result<u64> {
        let meeting = &*self.meeting;
        let mut state = locked(&meeting.state);
        if !state.shrinking.is_empty() {
            return Err(failed("some rank goes on without the failed ones"));
        }
        let (next, now) = (state.traffic(self.channel).next.clone(), meeting.cluster.clock());
        let number = next[self.rank];
        // A rank that has left in order has done its part in earlier collectives.
        let has_left = |rank: usize| state.left.contains(&rank) && next[rank] <= number;
        let is_gone = |rank: &usize| meeting.members[*rank].is_known_dead(now) || has_left(*rank);
        if let Some(rank) = (0..meeting.members.len()).find(is_gone) {
            return Err(failed(format!("rank {rank} is gone")));
        }
        let traffic = state.traffic(self.channel);
        traffic.next[self.rank] += 1;
        if number == traffic.first + traffic.collectives.len() as u64 {
            let ranks = meeting.members.len();
            let (given, ready) = (vec![None; ranks], vec![None; ranks]);
            traffic.collectives.push_back(Collective { kind, given, ready, returned: 0 });
        }
        let one = traffic.collective(number);
        if one.kind != kind {
            let why = format!("rank {} calls {kind:?} where another called {:?}", self.rank, one.kind);
            drop(state);
            meeting.cluster.has_failed(why.clone());
            return Err(failed(why));
        }
        one.given[self.rank] = Some(mine);
        let ready: Vec<usize> = match kind {
            // The root waits for no other rank.
            Kind::Broadcast(root) if root == self.rank => {
                (0..one.given.len()).filter(|rank| one.given[*rank].is_some()).collect()
            }
            Kind::Broadcast(root) if one.given[root].is_some() => vec![self.rank],
            Kind::Broadcast(_) => vec![],
            _ if one.given.iter().all(Option::is_some) => (0..one.given.len()).collect(),
            _ => vec![],
        };
        drop(state);
        for rank in ready {
            let time = meeting.cluster.draw(|random| if random.bool() { 0 } else { random.u64(0..200) });
            let at = meeting.cluster.in_time(Duration::from_micros(time));
            locked(&meeting.state).traffic(self.channel).collective(number).ready[rank] = Some(at);
        }
        Ok(number)
    }
}

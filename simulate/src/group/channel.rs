//! The program's own messages and collectives, apart from the engine's.

use super::{Channel, Newest, SimulatedGroup, Started, failed, locked};
use mainstay_engine::{FileOperation, Result, current_world, group::Group};
use std::{collections::VecDeque, path::Path};

/// Makes the groups for the program's own messages.
#[derive(Clone)]
pub struct ProgramChannel(Newest);

impl ProgramChannel {
    /// The ranks of the session, as they are now. The group fails with them, and is not the engine's.
    pub fn group(&self) -> SimulatedGroup {
        let (rank, meeting) = locked(&self.0).clone();
        SimulatedGroup::new(rank, &meeting, Channel::Program, self.0.clone())
    }
}

/// Counts a message among the operations of its process: the process may die in it. Other faults do not touch messages.
pub fn count_message() {
    let world = current_world().expect("a thread of the cluster");
    let _ = world.before(FileOperation::Make { path: Path::new("a message") });
}

impl SimulatedGroup {
    /// The channel for the program's own messages.
    pub fn program_channel(&self) -> ProgramChannel {
        ProgramChannel(self.newest.clone())
    }

    /// Waits until a message of this rank is complete, or can no longer be.
    pub fn wait_for_some(&self) {
        // The other rank of a message that is not complete, and whether it is the receiver.
        let peer = |one: &Started| match one {
            Started::Send { to, .. } => Some((*to, true)),
            Started::Receive { from, .. } => Some((*from, false)),
            Started::Received(_) => None,
        };
        let started: Vec<_> = locked(&self.started).iter().map(|(message, one)| (*message, peer(one))).collect();
        self.wait("messages", |state| {
            started.iter().any(|(message, of)| match *of {
                None => true,
                Some((to, true)) => !self.is_held(state, to, *message) || self.is_cut_off(state, to),
                Some((from, false)) => self.has_arrived(state, from) || self.is_cut_off(state, from),
            })
        });
    }

    /// Sends a copy of `bytes`, and does not wait.
    pub fn send_copy(&self, to: usize, bytes: Vec<u8>) -> Result<()> {
        let message = self.start_send(to, Box::new(bytes))?;
        let mut state = locked(&self.meeting.state);
        let queue = state.traffic(self.channel).under_way.entry((self.rank, to)).or_default();
        queue.iter_mut().filter(|sent| sent.message == message).for_each(|sent| sent.is_eager = true);
        locked(&self.started).remove(&message);
        Ok(())
    }

    /// Takes a message that has arrived, with its sender. Fails if there is none and a rank has failed.
    pub fn take_any(&self) -> Result<Option<(usize, Vec<u8>)>> {
        let mut state = locked(&self.meeting.state);
        if let Some(from) = (0..self.size()).find(|from| self.has_arrived(&state, *from)) {
            let queue = state.traffic(self.channel).under_way.get_mut(&(from, self.rank));
            return Ok(queue.and_then(VecDeque::pop_front).map(|sent| (from, sent.bytes)));
        }
        match self.has_lost() {
            Some(rank) => Err(failed(format!("rank {rank} is gone"))),
            None => Ok(None),
        }
    }

    /// Waits until there is a message to take, or a rank has failed.
    pub fn wait_for_any(&self) {
        self.wait("any message", |state| {
            self.has_lost().is_some() || (0..self.size()).any(|from| self.has_arrived(state, from))
        });
    }

    /// A rank that is known to be dead.
    fn has_lost(&self) -> Option<usize> {
        let now = self.meeting.cluster.clock();
        self.meeting.members.iter().position(|member| member.is_known_dead(now))
    }

    /// Takes the messages to this rank that it has not received, each with its sender.
    pub fn unreceived(&self) -> Vec<(usize, Vec<u8>)> {
        let mut state = locked(&self.meeting.state);
        let queues = state.traffic(self.channel).under_way.iter_mut().filter(|((_, to), _)| *to == self.rank);
        queues.flat_map(|((from, _), queue)| queue.drain(..).map(|sent| (*from, sent.bytes))).collect()
    }
}

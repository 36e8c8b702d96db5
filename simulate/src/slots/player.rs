//! Plays a rank: makes its calls, and compares the messages that it gets with the plan.

use super::plan::{Call, Plan};
use mainstay_ranks::{
    Error,
    played::{Envelope, Host, Received},
};
use std::collections::BTreeMap;

/// Why a rank does not go on.
pub enum Trouble {
    Failed(Error),
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Failed(error)
    }
}

/// A rank between two calls.
#[derive(Debug, Clone, Default)]
pub struct Player {
    rank: u32,
    phase: usize,
    /// The next call of the phase.
    next: usize,
    /// The calls that are not complete.
    open: Vec<usize>,
    /// The calls whose message was taken by a probe and is not received yet.
    taken: Vec<usize>,
    /// The receives of this phase, by call, each with its place in their order.
    receives: BTreeMap<usize, (usize, Envelope)>,
    /// The messages of this phase that came, each with the place of its receive.
    got: BTreeMap<usize, usize>,
    /// Host 0 knows that it has ended.
    pub is_told: bool,
}

impl Player {
    pub fn new(rank: u32) -> Player {
        Player { rank, ..Player::default() }
    }

    pub fn has_ended(&self, plan: &Plan) -> bool {
        self.phase == plan.phases.len()
    }

    /// Makes `calls` calls at most. False: it waits for messages.
    pub fn play(&mut self, plan: &Plan, host: &mut Host, calls: usize) -> Result<bool, Trouble> {
        for _ in 0..calls {
            if self.has_ended(plan) {
                return Ok(false);
            }
            let all = plan.calls(self.phase, self.rank);
            if let Some(at) = self.taken.pop() {
                host.receive_taken(self.rank, at)?;
                self.open.push(at);
            } else if let Some(call) = all.get(self.next) {
                self.call(plan, host, *call)?;
                self.next += 1;
            } else {
                self.complete(plan, host)?;
                if !self.open.is_empty() {
                    return Ok(false);
                }
                self.check_order(plan).map_err(Trouble::Wrong)?;
                *self = Player { rank: self.rank, phase: self.phase + 1, ..Player::default() };
            }
        }
        Ok(true)
    }

    fn call(&mut self, plan: &Plan, host: &mut Host, call: Call) -> Result<(), Trouble> {
        let (rank, phase, at) = (self.rank, self.phase, self.next);
        match call {
            Call::Send(index) => {
                let planned = plan.phases[phase].messages[index];
                let to = Envelope { peer: Some(planned.to), tag: Some(planned.tag), context: phase as u32 };
                host.send(rank, at, to, planned.is_synchronous, &plan.bytes(phase, index))?;
                self.open.push(at);
            }
            Call::Receive { of, room, probes } => {
                let envelope = plan.envelope(phase, of);
                self.receives.insert(at, (self.receives.len(), envelope));
                if probes && host.take(rank, at, envelope, room)? {
                    self.taken.push(at);
                } else {
                    host.receive(rank, at, envelope, room)?;
                    self.open.push(at);
                }
            }
            Call::Withdraw => {
                let nobody = Envelope { peer: None, tag: Some(99), context: phase as u32 };
                host.receive(rank, at, nobody, 8)?;
                if !host.withdraw(rank, at) {
                    return Err(Trouble::Wrong(format!("rank {rank} gets a message that nobody has sent")));
                }
            }
        }
        Ok(())
    }

    /// Looks at the calls that may be complete.
    fn complete(&mut self, plan: &Plan, host: &Host) -> Result<(), Trouble> {
        for at in std::mem::take(&mut self.open) {
            match host.done(self.rank, at)? {
                None => self.open.push(at),
                Some(received) => self.check(plan, at, &received).map_err(Trouble::Wrong)?,
            }
        }
        Ok(())
    }

    /// Fails if a received message is not one of the plan, bit for bit, does not fit, or comes twice.
    fn check(&mut self, plan: &Plan, at: usize, received: &Received) -> Result<(), String> {
        let (rank, phase) = (self.rank, self.phase);
        let Some((order, envelope)) = self.receives.get(&at).copied() else { return Ok(()) };
        let Call::Receive { room, .. } = plan.calls(phase, rank)[at] else { return Ok(()) };
        let word = |at: usize| received.bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        let index = word(4).map_or(usize::MAX, |bytes| u32::from_le_bytes(bytes) as usize);
        let wrong =
            |what: &str| Err(format!("rank {rank}, call {at} of phase {phase}, {envelope:?}: {what}: {received:?}"));
        let Some(planned) = plan.phases[phase].messages.get(index) else {
            return wrong("it is no message of the plan");
        };
        let right = plan.bytes(phase, index);
        let label = (planned.from, planned.tag, planned.bytes as u64);
        if (received.source, received.tag, received.sent_bytes) != label {
            return wrong("its label is wrong");
        }
        if received.bytes != right[..right.len().min(room)] {
            return wrong("its bytes are wrong");
        }
        if planned.to != rank || !plan.fits(envelope, phase, index) {
            return wrong("it does not fit");
        }
        match self.got.insert(index, order) {
            Some(_) => wrong("it came twice"),
            None => Ok(()),
        }
    }

    /// Fails if a message has overtaken an earlier one of its sender that fits the same receive.
    fn check_order(&self, plan: &Plan) -> Result<(), String> {
        let (rank, phase) = (self.rank, self.phase);
        let envelopes: BTreeMap<usize, Envelope> = self.receives.values().copied().collect();
        for (index, order) in &self.got {
            let from = plan.phases[phase].messages[*index].from;
            let sent = plan.calls(phase, from).into_iter().filter_map(|call| match call {
                Call::Send(other) => Some(other),
                _ => None,
            });
            let before = sent.take_while(|other| other != index);
            let overtaken = before
                .filter(|other| plan.phases[phase].messages[*other].to == rank)
                .filter(|other| plan.fits(envelopes[order], phase, *other))
                .find(|other| self.got.get(other).is_none_or(|other| other > order));
            if let Some(other) = overtaken {
                return Err(format!("rank {rank}, phase {phase}: message {index} has overtaken {other}"));
            }
        }
        Ok(())
    }
}

//! One rank of this process: its registers, and its state.

use crate::{
    Error, Result,
    address::Slot,
    memory,
    message::Mailbox,
    slot::{self, Contents, Program, Started},
    system::{SavedSystem, System},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    Ready,
    /// It runs again once there is news for it.
    Waiting,
    /// It has ended, with this exit code.
    Ended(i32),
}

/// Where a rank stands in a call of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registers {
    pub stack: u64,
    pub thread_pointer: u64,
    /// The result of its call.
    pub result: i64,
}

#[derive(Debug)]
pub(crate) struct Rank {
    pub number: u32,
    pub state: State,
    pub registers: Registers,
    pub system: System,
    /// It has called `MPI_Init`, and `MPI_Finalize`.
    pub has_begun: bool,
    pub has_left: bool,
    pub node: Node,
    /// The time that it has run in this process.
    pub busy: Duration,
}

/// The node on which a rank began: its MPI calls name this one for as long as the job lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub number: u32,
    pub name: String,
}

/// A rank, as it is saved beside the areas of its slot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedRank {
    pub number: u32,
    pub state: State,
    pub registers: Registers,
    pub system: SavedSystem,
    pub has_begun: bool,
    pub has_left: bool,
    node: Node,
}

impl Rank {
    /// A rank at the beginning of its program.
    pub fn new(slot: Slot, number: u32, program: &Program, node: Node, with_libraries: bool) -> Result<Rank> {
        let mut system = System::new(slot, number as usize)?;
        system.with_libraries = with_libraries;
        let contents = Contents { slot, areas: &mut system.areas, mapped: &mut system.mapped, with_libraries };
        let Started { stack, ahead_at } = slot::start(contents, program)?;
        system.clocks.ahead_at = ahead_at;
        Ok(Rank {
            number,
            state: State::Ready,
            registers: Registers { stack, thread_pointer: 0, result: 0 },
            system,
            has_begun: false,
            has_left: false,
            node,
            busy: Duration::ZERO,
        })
    }

    /// The rank has ended. Its memory and its files go.
    pub fn end(&mut self, code: i32) -> Result<()> {
        self.state = State::Ended(code);
        self.system.end(code == 0);
        memory::clear(self.system.slot).map_err(|error| Error::system("the slot of a rank that has ended", error))
    }

    pub fn save(&mut self) -> Result<SavedRank> {
        Ok(SavedRank {
            number: self.number,
            state: self.state,
            registers: self.registers,
            system: self.system.save()?,
            has_begun: self.has_begun,
            has_left: self.has_left,
            node: self.node.clone(),
        })
    }

    /// The rank again. Its memory is brought back by others.
    pub fn bring_back(slot: Slot, saved: SavedRank) -> Result<Rank> {
        Ok(Rank {
            number: saved.number,
            state: saved.state,
            registers: saved.registers,
            system: System::bring_back(slot, saved.number as usize, saved.system)?,
            has_begun: saved.has_begun,
            has_left: saved.has_left,
            node: saved.node,
            busy: Duration::ZERO,
        })
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// The exit code with which the job must end, because the others would wait for this rank for ever.
    pub fn is_missed(&self, code: i32) -> Option<i32> {
        (self.has_begun && !self.has_left).then_some(if code == 0 { 1 } else { code })
    }
}

/// A rank and its mailbox, which are saved together.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedPair {
    pub rank: SavedRank,
    pub mailbox: crate::message::SavedMailbox,
}

pub(crate) fn saved_pair(rank: &mut Rank, mailbox: &Mailbox) -> Result<SavedPair> {
    Ok(SavedPair { rank: rank.save()?, mailbox: mailbox.save() })
}

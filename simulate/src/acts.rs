//! The settings of a program with objects, and its acts.

use mainstay_objects::Strategy;

/// The settings of the objects, for all jobs.
#[derive(Debug, Clone, Copy)]
pub struct ObjectSetting {
    /// Objects at first.
    pub count: u64,
    pub strategy: Strategy,
    /// Balances every so many steps; 0: never.
    pub every: u64,
    /// Balances so many steps after a failure; 0: never.
    pub after_failure: u64,
}

/// An act of the objects of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Sends messages, which the next call delivers.
    Send,
    /// Sends messages, and ends a step.
    Step,
    Create {
        count: u64,
    },
    Balance(Strategy),
    /// The ranks with a bit in `given_up` have no objects from now on.
    Evacuate {
        given_up: u64,
    },
}

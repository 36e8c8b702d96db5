//! The settings of a program with objects, and its acts.

use mainstay_objects::Strategy;

/// The settings of the objects, for all jobs.
#[derive(Debug, Clone, Copy)]
pub struct ObjectSetting {
    /// The number of objects at the start.
    pub count: u64,
    pub strategy: Strategy,
    /// Steps between two balances; 0: never balances.
    pub every: u64,
    /// Steps from a failure to a balance; 0: none.
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

//! The holds of a space as one who only looks sees them.

use crate::{
    commit::RevisionKey,
    space::format::{Answer, Hold},
};

/// A hold, and what it is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldSurvey {
    pub hold: Hold,
    pub state: HoldState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldState {
    /// The revision stays.
    Counts,
    /// The job that has the space open has not read it yet: it does at its next checkpoint.
    Pending,
    /// The revision is not there any more.
    Gone,
    /// The job has no room for it beside its next revision.
    NoRoom,
    Expired,
}

impl HoldSurvey {
    pub fn key(&self) -> RevisionKey {
        RevisionKey::new(self.hold.lineage, self.hold.number)
    }
}

impl HoldState {
    /// What `hold` is worth where `complete` says whether its revision was found, `at_work` whether a job
    /// may have the space open, and `answer` is that job's.
    pub(super) fn of(hold: &Hold, now_unix_ns: u64, complete: bool, at_work: bool, answer: Option<Answer>) -> Self {
        match answer.filter(|_| at_work) {
            _ if hold.has_expired(now_unix_ns) => Self::Expired,
            Some(Answer::NoRoom) => Self::NoRoom,
            _ if !complete => Self::Gone,
            Some(Answer::Counts) => Self::Counts,
            Some(Answer::Gone) => Self::Gone,
            None if at_work => Self::Pending,
            // The next job reads it before it lets go of anything.
            None => Self::Counts,
        }
    }
}

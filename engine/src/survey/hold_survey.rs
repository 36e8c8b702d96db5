//! The holds of a space, as seen by those who only look.

use super::RevisionSurvey;
use crate::{
    commit::RevisionKey,
    space::format::{Hold, HoldAnswer},
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
    /// A job has yet to take the hold on: the job at work does so at its next checkpoint, or at the one after if only
    /// the older roots lead to the revision.
    Pending,
    /// The revision is not there any more.
    Gone,
    /// The job has no room for the held revision beside its next one.
    NoRoom,
    Expired,
}

impl HoldSurvey {
    pub fn key(&self) -> RevisionKey {
        RevisionKey::new(self.hold.lineage, self.hold.number)
    }
}

impl HoldState {
    /// What `hold` is worth if `found` is its complete revision. `at_work`: whether a job may have the space open.
    /// `answer`: the answer that counts of those that jobs gave.
    pub(super) fn of(
        hold: &Hold,
        now_unix_ns: u64,
        found: Option<&RevisionSurvey>,
        at_work: bool,
        answer: Option<HoldAnswer>,
    ) -> Self {
        match answer {
            _ if hold.has_expired(now_unix_ns) => Self::Expired,
            Some(HoldAnswer::NoRoom) => Self::NoRoom,
            _ if found.is_none() => Self::Gone,
            Some(HoldAnswer::Counts) => Self::Counts,
            Some(HoldAnswer::Gone) => Self::Gone,
            None if at_work => Self::Pending,
            // The next job reads the hold before it lets go of anything, but its first root goes over the older one,
            // and may tear.
            None if found.is_some_and(RevisionSurvey::is_in_newest_roots) => Self::Counts,
            None => Self::Pending,
        }
    }
}

//! The holds of a space, as a survey sees them.

use super::RevisionSurvey;
use crate::{
    commit::RevisionKey,
    space::format::{Hold, HoldAnswer},
};

/// A hold, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldSurvey {
    pub hold: Hold,
    pub state: HoldState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldState {
    /// The revision stays.
    Counts,
    /// A job has yet to accept the hold. A running job does so at its next checkpoint, or at the one after if only the
    /// older roots refer to the revision.
    Pending,
    /// The revision no longer exists.
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
    /// The state of `hold` if `found` is its complete revision. `at_work`: whether a job may have the space open.
    /// `answer`: the valid answer of a job.
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
            // The next job reads the hold before it removes any revision. But its first root overwrites the older one,
            // and may tear.
            None if found.is_some_and(RevisionSurvey::is_in_newest_roots) => Self::Counts,
            None => Self::Pending,
        }
    }
}

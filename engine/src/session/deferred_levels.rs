//! Levels that are opened later. If a job goes on from the memory of its nodes after a failure, the farther levels wait
//! until a call needs one.

use super::{carryover::Carryover, level::LevelKind, level_plan::LevelPlan, places::NoteFile};

pub(super) struct LaterLevels {
    /// The plans of all levels of the session, the nearest first.
    pub(super) plans: Vec<LevelPlan>,
    /// The index of the first level that is opened later.
    pub(super) from: usize,
    pub(super) note: Option<NoteFile>,
    /// The state of these levels on this rank from before the failure.
    pub(super) carryover: Carryover,
}

impl LaterLevels {
    pub(super) fn has(&self, kind: LevelKind) -> bool {
        self.plans[self.from..].iter().any(|plan| plan.kind == kind)
    }
}

//! Levels that are opened later: where a job goes on from the memory of its nodes after ranks have failed, the farther
//! levels wait until one is needed.

use super::{level::LevelKind, places::NoteFile, plan::LevelPlan, remains::Remains};

pub(super) struct LaterLevels {
    /// Of all levels of the session, the nearest first.
    pub(super) plans: Vec<LevelPlan>,
    /// The first that is opened later.
    pub(super) from: usize,
    pub(super) note: Option<NoteFile>,
    /// What this rank has of these levels from before.
    pub(super) remains: Remains,
}

impl LaterLevels {
    /// Whether one of these levels is of this kind.
    pub(super) fn has(&self, kind: LevelKind) -> bool {
        self.plans[self.from..].iter().any(|plan| plan.kind == kind)
    }
}

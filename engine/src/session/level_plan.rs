//! The plan for a session before it is open: its levels, or the path from which they follow.

use crate::{device::Device, space::LevelKind};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A level for a session to open.
#[derive(Debug, Clone)]
pub struct LevelPlan {
    pub kind: LevelKind,
    pub device: Arc<dyn Device>,
    /// Every revision with a number divisible by this goes to the level; 0: none.
    pub every: u32,
    /// Complete revisions kept on the level, at least 1.
    pub keep: u32,
    /// Places on this rank's node for copies of other ranks' shards, one device for each copy. The shard in its owner's
    /// place does not count.
    pub copies: Vec<Arc<dyn Device>>,
    /// Places of copies that earlier jobs made. They are read, but get no new copies. They are removed once a newer
    /// revision is there.
    pub former: Vec<Arc<dyn Device>>,
}

impl LevelPlan {
    /// The number of places, including copies.
    pub(super) fn places(&self) -> usize {
        1 + self.copies.len() + self.former.len()
    }
}

/// The source of a session's levels. A recovery opens the session from it again.
#[derive(Clone)]
pub(super) enum Origin {
    /// The directory of the farthest level; the settings give the others.
    Path(PathBuf),
    /// The nearest level first.
    Levels(Vec<LevelPlan>),
}

impl Origin {
    /// The path, if the session was opened by one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Origin::Path(path) => Some(path),
            Origin::Levels(_) => None,
        }
    }
}

//! What a session is to have before it is open: its levels, and where they come from.

use crate::{device::Device, space::LevelKind};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A level that a session is to have.
#[derive(Debug, Clone)]
pub struct LevelPlan {
    pub kind: LevelKind,
    pub device: Arc<dyn Device>,
    /// Revisions whose number is a multiple of this go to the level; 0: none does.
    pub every: u32,
    /// How many complete revisions are kept on the level, at least 1.
    pub keep: u32,
    /// Where this rank keeps the copies of other ranks' shards, one device for each copy beside the one of the shard's own
    /// rank: each a place on this rank's node.
    pub copies: Vec<Arc<dyn Device>>,
    /// Where copies of earlier jobs lie, and none are made any more: they are read, and go once there is something newer.
    pub former: Vec<Arc<dyn Device>>,
}

impl LevelPlan {
    /// How many places it has, its copies included.
    pub(super) fn places(&self) -> usize {
        1 + self.copies.len() + self.former.len()
    }
}

/// What a session was opened by, and is opened by again when it goes on without ranks that have failed.
#[derive(Clone)]
pub(super) enum Whence {
    /// The directory of the farthest level; the settings say where the others lie.
    Path(PathBuf),
    /// The nearest level first.
    Levels(Vec<LevelPlan>),
}

impl Whence {
    /// Where the session was opened by a path.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Whence::Path(path) => Some(path),
            Whence::Levels(_) => None,
        }
    }
}

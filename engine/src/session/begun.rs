//! A checkpoint that was begun, and is not finished.

use super::changed::Compared;
use crate::{
    capture::Size,
    error::{Error, Result},
    place::Site,
    stage::Staging,
};

/// A revision between t1 and t2.
pub(super) struct Begun {
    pub(super) number: u64,
    /// The shard as it is staged, or why nothing can be saved on this rank.
    pub(super) staging: Result<Staging>,
    /// The farther levels that the revision goes to once it is complete on the nearest: the level's index, and the sites
    /// there, with how large the shards are.
    pub(super) feeds: Vec<(usize, Vec<(Site, Size)>)>,
    /// What its bytes are compared with as they come.
    pub(super) compared: Option<Compared>,
}

impl Begun {
    /// Why the checkpoint cannot become a revision any more; `None` while it can.
    pub(super) fn failure(&self) -> Option<Error> {
        match &self.staging {
            Ok(staging) => staging.shard().failure().cloned(),
            Err(error) => Some(error.clone()),
        }
    }
}

//! A checkpoint between its begin and its end.

use super::changed::LateBase;
use crate::{
    capture::Size,
    error::{Error, Result},
    place::Site,
    stage::Staging,
};

/// The farther levels that get a revision once the nearest one has it: the index of each level, and the site and size of
/// each shard there.
pub(super) type Feeds = Vec<(usize, Vec<(Site, Size)>)>;

/// A revision between t1 and t2.
pub(super) struct OpenCheckpoint {
    pub(super) number: u64,
    /// The staged shard, or the reason why this rank cannot save.
    pub(super) staging: Result<Staging>,
    pub(super) feeds: Feeds,
    /// With incremental capture of pieces: the revision that each piece is compared with as it comes.
    pub(super) compared: Option<LateBase>,
}

impl OpenCheckpoint {
    /// The reason why the checkpoint cannot become a revision any more; `None` while it can.
    pub(super) fn failure(&self) -> Option<Error> {
        match &self.staging {
            Ok(staging) => staging.shard().failure().cloned(),
            Err(error) => Some(error.clone()),
        }
    }
}

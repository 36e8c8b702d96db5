//! A level, or a copy of one, to open.

use super::super::level::{LevelKind, Writers};
use crate::{
    config::Config,
    device::Device,
    space::{GoneBack, Per},
};
use std::sync::Arc;

/// The plan for one level or copy.
pub(in crate::session) struct Wanted {
    pub(in crate::session) kind: LevelKind,
    pub(super) writers: Writers,
    pub(super) every: u32,
    /// The session has further levels, which may have the revisions that are damaged here.
    pub(super) has_others: bool,
    pub(super) feeds: u32,
    pub(in crate::session) device: Arc<dyn Device>,
    /// The revisions that rollbacks discarded.
    pub(super) back: Arc<[GoneBack]>,
}

impl Wanted {
    /// Whether lost portions of a layout can be made again: in memory, if each file has one writer.
    pub(super) fn can_mend(&self, config: &Config) -> bool {
        let one_writer = match self.writers {
            Writers::Owners => config.per == Per::Rank,
            Writers::Holders(_) => true,
            Writers::Nobody => false,
        };
        self.kind == LevelKind::Memory && one_writer
    }
}

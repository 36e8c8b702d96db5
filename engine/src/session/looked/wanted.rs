//! A level that is to be opened, or a copy of one.

use super::super::level::{LevelKind, Writers};
use crate::{
    config::Config,
    device::Device,
    space::{GoneBack, Per},
};
use std::sync::Arc;

/// A level, or a copy of one, as it is to be opened.
pub(in crate::session) struct Wanted {
    pub(in crate::session) kind: LevelKind,
    pub(super) writers: Writers,
    pub(super) every: u32,
    /// The session has further levels, which may have what is damaged here.
    pub(super) has_others: bool,
    pub(super) feeds: u32,
    pub(in crate::session) device: Arc<dyn Device>,
    /// What rollbacks have left out.
    pub(super) back: Arc<[GoneBack]>,
}

impl Wanted {
    /// Whether a layout can go on where portions of it went with their nodes: in memory, where each file has one writer.
    pub(super) fn can_mend(&self, config: &Config) -> bool {
        let one_writer = match self.writers {
            Writers::Owners => config.per == Per::Rank,
            Writers::Holders(_) => true,
            Writers::Nobody => false,
        };
        self.kind == LevelKind::Memory && one_writer
    }
}

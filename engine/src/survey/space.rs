//! A space as it was found.

use super::{HoldSurvey, PortionSurvey, RevisionSurvey};
use crate::{
    commit::RevisionKey,
    error::numbered,
    restore::{ShardSet, one},
    space::{files_of_layout, format::Header},
};
use std::collections::BTreeMap;

/// The visible contents of a space.
#[derive(Debug)]
pub struct SpaceSurvey {
    /// The unchanged path: make it `printable` before printing it.
    pub path: String,
    /// Files of layouts, the oldest layout first.
    pub layouts: Vec<LayoutSurvey>,
    /// Revisions, the newest first.
    pub revisions: Vec<RevisionSurvey>,
    /// By layout, file and rank; unreadable portions are missing.
    pub portions: Vec<PortionSurvey>,
    /// In the order in which the holds were taken.
    pub holds: Vec<HoldSurvey>,
    /// Whether a job has the space open; `None` if unknown.
    pub in_use: Option<bool>,
    /// Whether the last job closed the space in order.
    pub clean: bool,
    /// Damaged or unreadable parts; only `verify` reads block data.
    pub damage: Vec<String>,
}

/// One file of a layout.
#[derive(Debug)]
pub struct LayoutSurvey {
    pub file: String,
    pub header: Header,
    /// Whether nothing in the file is damaged; only `verify` reads block data.
    pub whole: bool,
    /// Whether the last job of the file closed each of its portions in order.
    pub clean: bool,
}

impl SpaceSurvey {
    /// The complete revision of this key.
    pub fn complete(&self, key: RevisionKey) -> Option<&RevisionSurvey> {
        self.revisions.iter().find(|revision| revision.key == key && revision.complete)
    }

    /// Whether a job may be writing: it has the space open, or this is unknown.
    pub fn is_at_work(&self) -> bool {
        self.in_use.unwrap_or(!self.clean)
    }

    /// The layouts with missing files here. If nodes have directories of their own, the files may be on other nodes.
    pub fn not_here(&self) -> Vec<String> {
        let mut ranks: BTreeMap<(u64, [u8; 16], u32), ShardSet> = BTreeMap::new();
        for LayoutSurvey { header, .. } in &self.layouts {
            let here = ranks.entry((header.layout_number, header.layout_id, header.ranks)).or_default();
            here.extend(header.portions.iter().map(|place| one(place.rank)));
        }
        let missing = |((_, id, count), here): ((u64, [u8; 16], u32), ShardSet)| {
            let gaps = here.gaps(count);
            let said = || format!("no {} here has the portion of {}", files_of_layout(id), numbered("rank", &gaps));
            (!gaps.is_empty()).then(said)
        };
        ranks.into_iter().filter_map(missing).collect()
    }

    /// The newest complete revision.
    pub fn newest(&self) -> Option<&RevisionSurvey> {
        self.revisions.iter().find(|revision| revision.complete)
    }

    /// The revision of this number, a complete one if there is any: numbers only grow, but a run may have left an
    /// incomplete one.
    pub fn revision(&self, number: u64) -> Option<&RevisionSurvey> {
        let of_number = || self.revisions.iter().filter(|revision| revision.key.number == number);
        of_number().find(|revision| revision.complete).or_else(|| of_number().next())
    }
}

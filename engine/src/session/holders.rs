//! Chooses new holders of copies during a session, before a node that is about to fail is left.
//!
//! Invariants: no copy is under way when its holders change; the copies of the former holders stay readable until the
//! next revision is complete on the level and all its copies.

use super::{
    copies,
    entry::Call,
    level::{Level, Writers},
    looked::Looked,
    ranks::Entered,
    state::SessionState,
};
use crate::{
    error::{ErrorKind, Result},
    group::gather,
};

/// The result for the copies on ranks that should hold none from now on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandoverCounts {
    /// Number of shard copies that other ranks hold from the next revision on.
    pub left: u64,
    /// Number of shard copies that stay, because the other ranks are on fewer nodes than a shard has copies.
    pub stay: u64,
}

impl SessionState {
    pub(super) fn hold_copies(&mut self, holds: bool) -> Result<HandoverCounts> {
        let call = Call::HoldCopies;
        let entry = self.wait_in(call)?;
        self.copy_passed_over(&entry, call)?;
        self.unsaved(&entry)?;
        self.open_later(&entry)?;
        self.program.holds_copies = holds;
        let handed = self.choose_holders(&entry);
        if let Err(error) = &handed
            && error.kind() != ErrorKind::GroupFailed
        {
            // The error may have left a level without its copy.
            self.epoch.over = Some(error.clone());
        }
        self.tell();
        handed
    }

    /// Collective.
    fn choose_holders(&mut self, entry: &Entered) -> Result<HandoverCounts> {
        let (group, lineage) = (self.epoch.group.with(entry), self.epoch.lineage);
        let holds = self.program.holds_copies;
        let hold = gather(group, &holds)?;
        let (mut handed, mut has_changed) = (HandoverCounts::default(), false);
        for family in self.levels.families() {
            let (first, level) = (family.start, self.levels.at(family.start));
            let before: Vec<Vec<usize>> =
                family.skip(1).map_while(|copy| self.levels.at(copy).location.writers.held()).collect();
            let held: Vec<&[usize]> = before.iter().map(Vec::as_slice).collect();
            let now =
                copies::holders(group, level.location.kind, &level.location.domain, before.len() + 1, holds, &held)?;
            for (number, (before, now)) in before.into_iter().zip(now).enumerate() {
                for (old, new) in before.iter().zip(&now) {
                    handed.left += u64::from(!hold[*old] && hold[*new]);
                    handed.stay += u64::from(!hold[*new]);
                }
                if before != now {
                    has_changed = true;
                    let copy = self.levels.at(first + 1 + number);
                    debug_assert_eq!(copy.feeding.under_feed, None, "a copy is under way to its former holders");
                    let open = |old: Level| Looked::with_holders(group, old, now, lineage);
                    self.levels.replace(first + 1 + number, open)?;
                }
            }
        }
        if has_changed {
            self.announcer.tell_holders(&self.levels);
        }
        Ok(handed)
    }
}

impl Writers {
    /// The holders in the order of the shards; `None` unless ranks make this copy.
    fn held(&self) -> Option<Vec<usize>> {
        match self {
            Writers::Holders(holders) => Some(holders.clone()),
            Writers::Owners | Writers::Nobody => None,
        }
    }
}

//! Who holds copies, chosen anew in a session at work: before a node is left that is about to fail.
//!
//! What must hold: nothing is under way when a copy gets other holders; what the former ones hold is read until the next
//! revision is complete on all that there are.

use super::{
    copies,
    entry::Call,
    inner::Inner,
    level::{Level, Writers},
    looked::Looked,
    ranks::Entered,
};
use crate::{
    error::{ErrorKind, Result},
    group::gather,
};

/// What became of the copies that ranks held which are to hold none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handed {
    /// So many shards' copies lie on other ranks from the next revision on,
    pub left: u64,
    /// and so many stay: the other ranks are on fewer nodes than a shard has copies.
    pub stay: u64,
}

impl Inner {
    pub(super) fn hold_copies(&mut self, holds: bool) -> Result<Handed> {
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
            // A level may be without its copy.
            self.epoch.over = Some(error.clone());
        }
        self.tell();
        handed
    }

    /// Collective.
    fn choose_holders(&mut self, entry: &Entered) -> Result<Handed> {
        let (group, lineage) = (self.epoch.group.with(entry), self.epoch.lineage);
        let holds = self.program.holds_copies;
        let hold = gather(group, &holds)?;
        let (mut handed, mut has_changed) = (Handed::default(), false);
        for family in self.levels.families() {
            let (first, level) = (family.start, self.levels.at(family.start));
            let before: Vec<Vec<usize>> =
                family.skip(1).map_while(|copy| self.levels.at(copy).writers.held()).collect();
            let held: Vec<&[usize]> = before.iter().map(Vec::as_slice).collect();
            let now = copies::holders(group, level.kind, &level.domain, before.len() + 1, holds, &held)?;
            for (number, (before, now)) in before.into_iter().zip(now).enumerate() {
                for (old, new) in before.iter().zip(&now) {
                    handed.left += u64::from(!hold[*old] && hold[*new]);
                    handed.stay += u64::from(!hold[*new]);
                }
                if before != now {
                    has_changed = true;
                    let open = |old: Level| Looked::with_holders(group, old, now, lineage);
                    self.levels.replace(first + 1 + number, open)?;
                }
            }
        }
        if has_changed {
            self.outward.tell_holders(&self.levels);
        }
        Ok(handed)
    }
}

impl Writers {
    /// The holders, in the order of the shards; of a copy alone that is made.
    fn held(&self) -> Option<Vec<usize>> {
        match self {
            Writers::Holders(holders) => Some(holders.clone()),
            Writers::Owners | Writers::Nobody => None,
        }
    }
}

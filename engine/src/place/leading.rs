//! A shard that is saved once more, and may lead to what its target has of an older revision.

use super::{Shard, Site};
use crate::{
    capture::Led,
    commit::{Kept, RevisionKey},
    error::Result,
    ground::lock,
    space::Portion,
};
use std::sync::Arc;

impl Shard {
    /// The newest revision that stays in the only target until this one is complete, if the shard may share blocks with it;
    /// `key`: only that one.
    pub(crate) fn older(&self, key: Option<RevisionKey>) -> Option<(Portion, Arc<Kept>)> {
        let [target] = &self.targets[..] else { return None };
        let Site { portion, ledger, retained, keep, .. } = &target.site;
        (*keep)?;
        let ledger = lock(ledger);
        let stays = |kept: &&Arc<Kept>| {
            retained.contains(&kept.key()) && key.is_none_or(|key| kept.key() == key) && kept.key() != self.key()
        };
        ledger.kept().iter().filter(stays).max_by_key(|kept| kept.key()).map(|kept| (portion.clone(), kept.clone()))
    }

    /// Has the shard saved as `led` says; before anything of it is written. Returns whether it can be. `lasts`: only if a
    /// whole one finds room after it.
    pub(crate) fn lead(&self, led: &Led, lasts: bool) -> Result<bool> {
        let [target] = &self.targets[..] else { return Ok(false) };
        let Site { ledger, allocation, retained, keep, .. } = &target.site;
        let frames = lock(ledger).frames_of(&led.shared);
        let Some(leading) = allocation.leading(&led.contents, &led.shared, frames) else { return Ok(false) };
        let has_room = {
            let ledger = lock(ledger);
            ledger.keeps(&led.shared, &[])
                && (!lasts || ledger.lasts_sharing(&leading, allocation, retained, keep.unwrap_or(1)))
        };
        if has_room {
            target.lead(leading);
        }
        Ok(has_room)
    }
}

//! A shard that may refer to blocks of an older revision in its target, if that is found out after t1: because it is
//! saved once more, or because its bytes came only then.

use super::{Shard, Site, target::Target};
use crate::{
    capture::{Contents, Delta},
    commit::{Kept, RevisionKey},
    error::{Error, Result},
    ground::lock,
    restore::{HashRows, pour_blocks},
    space::{
        Portion,
        format::{BLOCK_BYTES, Manifest, Run},
    },
};
use std::sync::{Arc, Mutex};

/// Number of blocks of an older revision in one read.
const PART_BLOCKS: u64 = 256;

impl Shard {
    /// The newest revision that stays in the only target until this one is complete, if the shard may share blocks with
    /// it; with `key`, only that revision.
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

    /// Saves the shard with the references in `delta`; call it before any of it is written. Returns whether that is
    /// possible. `lasts`: only if there will be room for a whole shard after it.
    pub(crate) fn lead(&self, delta: &Delta, lasts: bool) -> Result<bool> {
        let [target] = &self.targets[..] else { return Ok(false) };
        let Site { ledger, allocation, retained, keep, .. } = &target.site;
        let frames = lock(ledger).frames_of(&delta.shared);
        let Some(delta_allocation) = allocation.delta_allocation(&delta.contents, &delta.shared, frames) else {
            return Ok(false);
        };
        let has_room = {
            let ledger = lock(ledger);
            ledger.keeps(&delta.shared, &[])
                && (!lasts || ledger.lasts_sharing(&delta_allocation, allocation, retained, keep.unwrap_or(1)))
        };
        if has_room {
            target.lead(delta_allocation);
        }
        Ok(has_room)
    }

    /// Makes the shard, staged as `contents`, refer to these runs. Returns whether that is possible: whether there is
    /// room for the list of its items, and for a whole shard after it. On failure nothing has changed. Does not wait
    /// for threads that write roots.
    pub(crate) fn lead_late(&self, contents: &Contents, shared: &[Run]) -> bool {
        let Site { found, allocation, retained, keep, .. } = self.nearest();
        let delta_allocation = keep.and_then(|keep| {
            let delta_allocation = found.delta_late(allocation, contents, shared, retained)?;
            found.lasts_sharing(&delta_allocation, allocation, retained, keep).then_some(delta_allocation)
        });
        let (Some(delta_allocation), [target]) = (delta_allocation, &self.targets[..]) else { return false };
        target.lead(delta_allocation);
        true
    }

    /// The full contents, if the shard was staged with an outline: includes the parts that are unchanged since the
    /// previous revision. `target` refers to them then.
    pub(super) fn filled(&self, target: &Target) -> Result<Option<Contents>> {
        let outline = self.contents()?;
        if !outline.is_outline {
            return Ok(None);
        }
        let lost = |what: &str| Error::Internal { what: format!("an outline {what}") };
        let base = self.before().ok_or_else(|| lost("has no older revision"))?;
        let (contents, shared) = outline.filled(&base).ok_or_else(|| lost("refers to blocks that its base lacks"))?;
        let Site { found, allocation, retained, .. } = &target.site;
        let delta_allocation = found.delta_late(allocation, &contents, &shared, retained);
        target.lead(delta_allocation.ok_or_else(|| lost("has no room, or its base is not kept"))?);
        Ok(Some(contents))
    }

    /// Gives `each` these runs of older revisions, verified, in parts of whole blocks, in order.
    pub(crate) fn read_older(&self, shared: &[Run], each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Site { portion, found, retained, .. } = self.nearest();
        read_runs(portion, &portion.read_manifest(&found.newest_of(retained).ok_or_else(gone)?.entry)?, shared, each)
    }
}

/// Calls `each` with these runs of the shard with this `manifest`, verified, in parts of whole blocks, in order.
pub(crate) fn read_runs(
    portion: &Portion,
    manifest: &Manifest,
    wanted: &[Run],
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let rows = &mut HashRows::new(manifest.runs.len());
    for run in wanted {
        let end = run.stretch().end();
        for first in (run.first_block..end).step_by(PART_BLOCKS as usize) {
            let blocks = first..end.min(first + PART_BLOCKS);
            let at = first * BLOCK_BYTES;
            let read = Mutex::new((vec![0; ((blocks.end - first) * BLOCK_BYTES) as usize], 0));
            pour_blocks(portion, manifest, rows, std::slice::from_ref(&blocks), &|from, bytes| {
                let (into, done) = &mut *lock(&read);
                into[(from - at) as usize..][..bytes.len()].copy_from_slice(bytes);
                *done += bytes.len();
            })?;
            let (bytes, done) = &*lock(&read);
            if *done != bytes.len() {
                return Err(gone());
            }
            each(bytes)?;
        }
    }
    Ok(())
}

fn gone() -> Error {
    Error::Internal { what: "no revision keeps the blocks that a shard refers to".to_owned() }
}

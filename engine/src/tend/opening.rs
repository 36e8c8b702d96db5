//! Opening a space for writing outside a job: the same locks, the same first root.

use crate::{
    commit::{Ledger, RevisionKey},
    device::{Access, Device},
    error::Result,
    restore::SpaceSurvey,
    space::{LayoutFile, Locks, clear_away, draw_id, format::Lineage, layouts},
};
use std::time::Duration;

/// Puts a new lineage into every portion of `files`, by a root that leads to `stay` besides what the newest
/// one led to. `others` are files that are only looked at for their lineages.
pub(super) fn take_over(files: &[LayoutFile], others: &[LayoutFile], stay: &[RevisionKey]) -> Result<Vec<Ledger>> {
    let (mut ledgers, mut before) = (Vec::new(), 0);
    for (file, writable) in files.iter().map(|file| (file, true)).chain(others.iter().map(|file| (file, false))) {
        for portion in file.portions() {
            let opened = Ledger::open(portion)?;
            let of_shards = opened.ledger.found().iter().map(|kept| kept.entry.lineage.number).max();
            before = before.max(of_shards.unwrap_or(0)).max(opened.lineage.map_or(0, |lineage| lineage.number));
            // One without a valid slot is damaged, and left as it is.
            ledgers.extend((writable && opened.usable).then_some(opened.ledger));
        }
    }
    let lineage = Lineage { number: before + 1, id: draw_id()? };
    // All of them first: a job thought dead that still writes finds the lineage and stops.
    for ledger in &mut ledgers {
        ledger.set_held(stay.to_vec());
        ledger.begin(lineage)?;
    }
    Ok(ledgers)
}

/// Takes the locks of a job whose ranks are all those that have a portion here, and clears away what a job
/// that was killed left, as at any opening.
pub(super) fn lock(device: &dyn Device) -> Result<Locks> {
    let locks = Locks::open(device)?;
    locks.wait_for_others(Duration::ZERO)?;
    let files = layouts(device, Access::Read)?;
    let ranks = files.iter().flat_map(|file| file.header.portions.iter().map(|portion| u64::from(portion.rank)));
    let mut bytes: Vec<u64> = ranks.chain([0]).collect();
    bytes.sort_unstable();
    bytes.dedup();
    for byte in bytes {
        if locks.lock_rank(byte)? {
            continue;
        }
        // Without locks only the end of a job in order says that nobody writes.
        if SpaceSurvey::open_on(device)?.clean {
            break;
        }
        return Err(locks.in_use());
    }
    clear_away(device)?;
    Ok(locks)
}

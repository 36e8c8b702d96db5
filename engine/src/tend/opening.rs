//! Opening a space for writing outside a job: with the same locks, and the same first root.

use crate::{
    commit::{Ledger, OpenedLedger, RevisionKey},
    device::{Access, Device, Disk},
    error::{Error, Result},
    group::host_name,
    space::{LayoutFile, Locks, clear_away, draw_id, format::Lineage, layouts, note_opener, with_opener},
    status::was_closed,
    survey::SpaceSurvey,
};
use std::{collections::BTreeSet, time::Duration};

/// Opens the portions of `files` as a job does, with the lineage that a job would draw. The revisions in `stay` are
/// kept in addition to those that the newest roots refer to. `others`: files that are only read for their lineages.
/// Writes nothing.
pub(super) fn open_usable(
    files: &[LayoutFile],
    others: &[LayoutFile],
    stay: &[RevisionKey],
) -> Result<(Vec<Ledger>, Lineage)> {
    let (writable, others) = (open_all(files)?, open_all(others)?);
    let lineage = lineage_after(writable.iter().chain(&others))?;
    // A portion without a valid slot is damaged, and stays unchanged.
    let usable = writable.into_iter().filter(|opened| opened.usable);
    let mut ledgers: Vec<Ledger> = usable.map(|opened| opened.ledger).collect();
    ledgers.iter_mut().for_each(|ledger| ledger.set_held(stay.to_vec()));
    Ok((ledgers, lineage))
}

/// Writes `lineage` to every portion, before anything else: a job thought dead that still writes finds the lineage and
/// stops. If this process is interrupted after that, the roots do not look like those of a job that may have staged
/// data.
pub(crate) fn begin_all(ledgers: &mut [Ledger], lineage: Lineage) -> Result<()> {
    ledgers.iter_mut().try_for_each(|ledger| ledger.begin_tended(lineage))
}

/// Opens the ledgers of all portions of `files`.
pub(crate) fn open_all(files: &[LayoutFile]) -> Result<Vec<OpenedLedger>> {
    files.iter().flat_map(LayoutFile::portions).map(Ledger::open).collect()
}

/// A lineage that is newer than every one found.
pub(crate) fn lineage_after<'a>(opened: impl IntoIterator<Item = &'a OpenedLedger>) -> Result<Lineage> {
    let newest = |opened: &OpenedLedger| {
        let of_shards = opened.ledger.found().iter().map(|kept| kept.entry.lineage.number).max();
        of_shards.max(opened.lineage.map(|lineage| lineage.number)).unwrap_or(0)
    };
    let before = opened.into_iter().map(newest).max().unwrap_or(0);
    Ok(Lineage { number: before + 1, id: draw_id()? })
}

/// Takes the locks of a job with all ranks that have a portion here, and removes the leftovers of a killed job, as
/// every opening does.
pub(crate) fn lock(device: &dyn Device) -> Result<Locks> {
    let locks = Locks::open(device)?;
    let in_use = |error| with_opener(error, device);
    locks.wait_for_others(Duration::ZERO, &BTreeSet::new()).map_err(in_use)?;
    let files = layouts(device, Access::Read)?;
    let ranks = files.iter().flat_map(|file| file.header.portions.iter().map(|portion| u64::from(portion.rank)));
    let mut bytes: Vec<u64> = ranks.chain([0]).collect();
    bytes.sort_unstable();
    bytes.dedup();
    for byte in bytes {
        if locks.lock_rank(byte).map_err(in_use)? {
            continue;
        }
        // Without locks, only a job's normal end shows that no job writes.
        if was_closed(device.directory(), &SpaceSurvey::open_on(device)?) {
            break;
        }
        return Err(in_use(locks.in_use()));
    }
    note_opener(device, host_name());
    clear_away(device)?;
    Ok(locks)
}

/// Replaces `lock` in a dry run: fails if a job has the space open.
pub(super) fn see_free(device: &Disk) -> Result<()> {
    match SpaceSurvey::is_in_use(device.directory())? {
        Some(true) => {
            Err(with_opener(Error::InUse { path: device.directory().printable(), holder: String::new() }, device))
        }
        _ => Ok(()),
    }
}

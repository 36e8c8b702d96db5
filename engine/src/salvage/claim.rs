//! Whether a shard that a record describes can still be completed.

use crate::{
    capture::{Contents, first_blocks, sync_output},
    commit::{Allocation, FoundLedger, Ledger, RevisionKey},
    device::{Access, Device},
    error::{Error, Result},
    pool::{Owed, SealedPlan},
    restore::base_of,
    space::{
        LayoutFile, Portion,
        format::{BLOCK_BYTES, HASH_BYTES, blocks_for},
        holds_in, layouts,
    },
};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// The relation of a recorded shard to a space.
pub(super) enum Standing {
    /// The shard's layout is not in this space.
    Elsewhere,
    /// Some files of its layout are in this space, but not the one with its portion: that one may come back.
    OutOfSight,
    /// The shard was published before.
    Published,
    /// The shard can never be completed: why.
    Over(String),
    Open(Box<Claim>),
}

/// A shard that can be completed by the process that holds the lock of its portion.
pub(super) struct Claim {
    pub(super) ledger: Ledger,
    pub(super) portion: Portion,
    /// The shard's allocation, with only those freeing roots that are not written yet.
    pub(super) allocation: Allocation,
    pub(super) contents: Contents,
}

const WENT_ON: &str = "the job went on without it, or another did";
const SHARED_IS_GONE: &str = "the blocks that it shares with older revisions are gone";
const CONTRADICTS: &str = "its record contradicts itself";

/// Determines the relation of `owed` to the space on `device`. Changes nothing.
pub(super) fn examine(device: &dyn Device, owed: Owed<'_>, access: Access) -> Result<Standing> {
    let (plan, target) = (&owed.shard.plan, owed.target);
    let over = |why: &str| Ok(Standing::Over(why.to_owned()));
    let layouts = layouts(device, access)?;
    let its: Vec<&LayoutFile> = layouts.iter().filter(|file| file.header.layout_id == target.layout_id).collect();
    let Some(first) = its.first() else { return Ok(Standing::Elsewhere) };
    if plan.shard >= first.header.ranks {
        return over("its layout has no portion for it");
    }
    // A layout has several files; the portion is in one of them.
    let Some(portion) = its.iter().flat_map(|file| file.portions()).find(|portion| portion.rank() == plan.shard) else {
        return if has_newer(&layouts, plan.key)? { over(WENT_ON) } else { Ok(Standing::OutOfSight) };
    };
    let mut ledger = Ledger::open(portion.clone())?.ledger;
    if ledger.found().iter().any(|kept| kept.key() == plan.key) {
        return Ok(Standing::Published);
    }
    // Only the job that drew a lineage writes under it, and nothing after this revision. So a root of any other lineage
    // belongs to a newer job, and a root of this lineage was written for this revision.
    let (sequence, lineage) = ledger.position();
    let freed = if lineage == plan.key.lineage { sequence.checked_sub(target.sequence) } else { None };
    let Some(left) = freed.and_then(|freed| target.allocation.freeing.get(usize::try_from(freed).ok()?..)) else {
        return over(WENT_ON);
    };
    // Revisions that were held since t1 are spared too.
    let since = holds_in(&layouts)?.into_values().map(|hold| RevisionKey::new(hold.lineage, hold.number));
    ledger.set_held(target.held.iter().copied().chain(since).collect());
    if !target.allocation.is_inside(&portion) || !ledger.spares(&target.allocation, &target.retained) {
        return over("held revisions need its place");
    }
    let Some(contents) = Contents::decode_outline(&plan.contents) else { return over(CONTRADICTS) };
    let announced = &target.allocation;
    if contents.is_outline != announced.is_outline {
        return over(CONTRADICTS);
    }
    let (delta, contents) = match contents.is_outline {
        false => (announced.clone(), contents),
        true => {
            if contents.blocks > announced.log_blocks() || !announced.shared.is_empty() {
                return over(CONTRADICTS);
            }
            let Some(filled) = filled(&ledger, &portion, owed, &contents)? else { return over(SHARED_IS_GONE) };
            filled
        }
    };
    if !ledger.keeps(&delta.shared, &delta.early) || ledger.frames_of(&delta.shared) != delta.frames {
        return over(SHARED_IS_GONE);
    }
    if !is_sound(owed, &delta, &contents, &portion) {
        return over(CONTRADICTS);
    }
    let allocation = Allocation { freeing: left.to_vec(), ..delta };
    Ok(Standing::Open(Box::new(Claim { ledger, portion, allocation, contents })))
}

/// Fills an outline from the newest retained revision; also returns the allocation with the references to it. `None` if
/// that revision is gone, or lacks some of the blocks.
fn filled(
    ledger: &Ledger,
    portion: &Portion,
    owed: Owed<'_>,
    outline: &Contents,
) -> Result<Option<(Allocation, Contents)>> {
    let retained = &owed.target.retained;
    let newest = retained.iter().max().and_then(|newest| ledger.kept_of(*newest));
    let Some(newest) = newest else { return Ok(None) };
    let base = match base_of(portion, &newest.entry) {
        Err(Error::Damaged { .. }) => None,
        base => base?,
    };
    let Some(base) = base else { return Ok(None) };
    let Some((contents, shared)) = outline.filled(&base) else { return Ok(None) };
    let allocation = FoundLedger::of(ledger).delta_late(&owed.target.allocation, &contents, &shared, retained);
    Ok(allocation.map(|allocation| (allocation, contents)))
}

/// Whether a job newer than the one that saved `key` has begun in any of the portions.
fn has_newer(layouts: &[LayoutFile], key: RevisionKey) -> Result<bool> {
    for portion in layouts.iter().flat_map(LayoutFile::portions) {
        if Ledger::open(portion)?.lineage.is_some_and(|lineage| lineage.number > key.lineage.number) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the record is consistent: the log fits its runs, the rows fit the metadata, the segments fit the log.
fn is_sound(owed: Owed<'_>, allocation: &Allocation, contents: &Contents, portion: &Portion) -> bool {
    let (sealed, blocks) = (owed.shard, contents.blocks);
    // Block numbers in `allocation` are relative to the portion.
    let room = first_blocks(&allocation.data, blocks).iter().map(|run| run.count).sum::<u64>();
    let in_log = |segment: &crate::pool::SealedSegment| {
        let end = segment.offset.checked_add(segment.bytes);
        let whole = segment.offset.is_multiple_of(BLOCK_BYTES) && segment.bytes.is_multiple_of(BLOCK_BYTES);
        whole && end.is_some_and(|end| end <= blocks * BLOCK_BYTES)
    };
    let meta_bytes = allocation.meta.count.checked_mul(BLOCK_BYTES);
    let fits = blocks.max(contents.shared.end) <= allocation.log_blocks()
        && room == blocks
        && allocation.fits(contents)
        && blocks_for(blocks * HASH_BYTES as u64) * BLOCK_BYTES <= sealed.rows_bytes
        && sealed.rows_bytes.is_multiple_of(BLOCK_BYTES)
        && meta_bytes.is_some_and(|bytes| sealed.rows_bytes <= bytes)
        && sealed.segments.iter().all(in_log)
        && sealed.plan.outputs.len() == contents.annex.outputs.len();
    // The manifest to be published must fit in its room and be readable.
    let is_readable = || {
        let laid = allocation.manifest(contents, |_| [0; HASH_BYTES]).build();
        let meta_bytes = meta_bytes.and_then(|bytes| bytes.checked_sub(sealed.rows_bytes));
        meta_bytes.is_some_and(|bytes| laid.len() as u64 <= bytes)
            && portion.parse_manifest(&laid, "a shard beside the pool").is_ok()
    };
    fits && is_readable()
}

/// Makes the output files durable, up to the lengths in the revision.
pub(super) fn sync_outputs(plan: &SealedPlan, contents: &Contents, space: &Path) -> Result<()> {
    for (path, output) in plan.outputs.iter().zip(&contents.annex.outputs) {
        sync_output(Path::new(OsStr::from_bytes(path)), output, space)?;
    }
    Ok(())
}

/// Whether the error means that the space does not exist any more.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::NotASpace { .. })
}

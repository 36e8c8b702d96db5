//! Completing one shard from its record, in one of its targets: the portions to which its process would have written it.

use super::{
    claim::{Claim, Standing, examine, sync_outputs},
    frames::frames_of,
};
use crate::{
    capture::Contents,
    commit::Publication,
    device::{Access, Device},
    error::{Error, Result},
    mutant::{self, Mutant},
    pool::{self, Owed},
    space::{
        files_of_layout,
        format::{BLOCK, BLOCK_BYTES, HASH_BYTES, Histogram, PhaseRecord, hash, hash_blocks},
    },
};
use std::ops::Range;

/// Result for one target of a sealed shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SalvageOutcome {
    Completed,
    /// The shard had been published before.
    WasComplete,
    /// The shard's layout is not in this space.
    Elsewhere,
    /// The shard can never be completed: why.
    Lost(String),
    /// The same, because an output file was cut. A restore that fails for that file too does not report the shard
    /// again.
    Cut(String),
}

/// Completes the shard of `owed` in the space on `device`, with the chunks in `chunks`, as the shard's own process
/// would have done, and notes that in the shard's record. The caller holds the lock of the portion. After an error
/// nothing is published, and the shard can be tried again.
pub(crate) fn complete(device: &dyn Device, owed: Owed<'_>, chunks: pool::StagedBytes<'_>) -> Result<SalvageOutcome> {
    let outcome = publish(device, owed, chunks)?;
    if matches!(outcome, SalvageOutcome::Completed | SalvageOutcome::WasComplete) {
        // The pool may stay for another target until the job has removed the revision here.
        owed.end();
    }
    Ok(outcome)
}

fn publish(device: &dyn Device, owed: Owed<'_>, chunks: pool::StagedBytes<'_>) -> Result<SalvageOutcome> {
    let Claim { mut ledger, portion, allocation, contents } = match examine(device, owed, Access::Write)? {
        Standing::Elsewhere => return Ok(SalvageOutcome::Elsewhere),
        Standing::OutOfSight => return Err(out_of_sight(device, owed)),
        Standing::Published => return Ok(SalvageOutcome::WasComplete),
        Standing::Over(why) => return Ok(SalvageOutcome::Lost(why)),
        Standing::Open(claim) => *claim,
    };
    // Check before a root drops anything: a shard that cannot be completed leaves the space unchanged.
    if let Some(lost) = lacks(device, owed, &contents, chunks)? {
        return Ok(lost);
    }
    let (sealed, retained) = (owed.shard, &owed.target.retained);
    let (plan, mut rows) = (&sealed.plan, sealed.read_rows()?);
    ledger.resume(plan.key.lineage)?;
    ledger.free(&allocation, retained)?;
    let mut written = Histogram::default();
    for segment in owed.left() {
        let found = &sealed.segments[segment as usize];
        let offset = found.offset;
        let bytes = match found.is_in_target() {
            true => Some(allocation.read(&portion, offset, found.bytes)?),
            false => sealed.chunk_of(chunks, segment)?,
        };
        let Some(mut bytes) = bytes else {
            return Err(Error::Internal { what: "a chunk of a pool that nobody is in has changed".to_owned() });
        };
        if mutant::is(Mutant::SalvageWithoutChunks) {
            bytes.fill(0);
        }
        let row = (offset / BLOCK_BYTES) as usize * HASH_BYTES;
        hash_blocks(&bytes, &mut rows[row..row + bytes.len() / BLOCK * HASH_BYTES]);
        if !found.is_in_target() {
            allocation.write(&portion, offset, &bytes, |bytes, took| written.note(bytes, took))?;
        }
    }

    let mut manifest = allocation.manifest(&contents, |row| hash(&rows[row]));
    if allocation.packing.is_some() {
        manifest.frames.extend(frames_of(&portion, &allocation, &rows, &done(owed, contents.blocks))?);
        manifest.frames.sort_unstable_by_key(|frame| frame.first_block);
    }
    let writes = written.total();
    let in_place: u64 = sealed.segments.iter().filter(|of| of.is_in_target()).map(|of| of.bytes).sum();
    let publication = Publication {
        key: plan.key,
        shards: plan.shards,
        manifest,
        allocation: &allocation,
        retained,
        phases: PhaseRecord { writes: writes.count, written_bytes: writes.bytes + in_place, ..plan.phases },
    };
    let mut described = publication.describe(&rows, &portion)?;
    described.write(&portion)?;
    described.publish(&mut ledger)?;
    Ok(SalvageOutcome::Completed)
}

/// The stretches of a log of so many blocks that its own process has written, ascending.
fn done(owed: Owed<'_>, blocks: u64) -> Vec<Range<u64>> {
    let left = owed.left().map(|segment| &owed.shard.segments[segment as usize]);
    let mut left: Vec<_> = left.map(|of| of.offset / BLOCK_BYTES..(of.offset + of.bytes) / BLOCK_BYTES).collect();
    left.sort_unstable_by_key(|range| range.start);
    let (mut from, mut done) = (0, Vec::new());
    for range in left {
        if from < range.start {
            done.push(from..range.start);
        }
        from = from.max(range.end);
    }
    if from < blocks {
        done.push(from..blocks);
    }
    done
}

/// The result that `complete` would have now, `Completed` included. Changes nothing.
pub(crate) fn prospect(device: &dyn Device, owed: Owed<'_>, chunks: pool::StagedBytes<'_>) -> Result<SalvageOutcome> {
    Ok(match examine(device, owed, Access::Read)? {
        Standing::Elsewhere => SalvageOutcome::Elsewhere,
        Standing::OutOfSight => return Err(out_of_sight(device, owed)),
        Standing::Published => SalvageOutcome::WasComplete,
        Standing::Over(why) => SalvageOutcome::Lost(why),
        Standing::Open(claim) => lacks(device, owed, &claim.contents, chunks)?.unwrap_or(SalvageOutcome::Completed),
    })
}

fn out_of_sight(device: &dyn Device, owed: Owed<'_>) -> Error {
    let (path, rank) = (device.path(), owed.shard.plan.shard);
    Error::PortionOutOfSight { path, rank, files: files_of_layout(owed.target.layout_id) }
}

/// The reason that the shard can never be completed: a chunk is missing, or an output file is too short. `None` if
/// nothing is missing. Makes the output files durable.
fn lacks(
    device: &dyn Device,
    owed: Owed<'_>,
    contents: &Contents,
    chunks: pool::StagedBytes<'_>,
) -> Result<Option<SalvageOutcome>> {
    for segment in owed.left() {
        let in_target = owed.shard.segments[segment as usize].is_in_target();
        if !in_target && owed.shard.chunk_of(chunks, segment)?.is_none() {
            return Ok(Some(SalvageOutcome::Lost("some of its bytes are not in the pool any more".to_owned())));
        }
    }
    match sync_outputs(&owed.shard.plan, contents, device.directory()) {
        Err(Error::OutputShort { path, saved, now }) => Ok(Some(SalvageOutcome::Cut(format!(
            "the output file {path} has {now} of the {saved} bytes that belong to it: it was cut, or is another file"
        )))),
        synced => synced.map(|()| None),
    }
}

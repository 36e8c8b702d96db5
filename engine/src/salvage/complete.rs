//! Completing one shard from its record.

use super::claim::{Claim, Standing, examine, sync_outputs};
use crate::{
    capture::{Piece, pieces},
    commit::Publication,
    device::{Access, Device},
    error::{Error, Result},
    pool::{Contents, Sealed},
    space::{
        files_of_layout,
        format::{BLOCK, BLOCK_BYTES, HASH_BYTES, Histogram, Manifest, hash, hash_blocks},
    },
};
use std::time::Instant;

/// What became of a sealed shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    /// It had been published before.
    WasComplete,
    /// Its layout is not in this space.
    Elsewhere,
    /// It can never be: why.
    Lost(String),
}

/// Completes the shard of `sealed`, whose chunks are in `chunks`, in the space on `device`, as its own process
/// would have done. The caller holds the lock of its portion. After an error nothing is published, and it can
/// be tried again.
pub(crate) fn complete(device: &dyn Device, sealed: &Sealed, chunks: Contents<'_>) -> Result<Outcome> {
    let Claim { mut ledger, portion, allocation, manifest } = match examine(device, sealed, Access::Write)? {
        Standing::Elsewhere => return Ok(Outcome::Elsewhere),
        Standing::OutOfSight => return Err(out_of_sight(device, sealed)),
        Standing::Published => return Ok(Outcome::WasComplete),
        Standing::Over(why) => return Ok(Outcome::Lost(why)),
        Standing::Open(claim) => *claim,
    };
    // Before a root lets go of anything: what cannot be completed leaves the space as it is.
    if let Some(why) = lacks(sealed, &manifest, chunks)? {
        return Ok(Outcome::Lost(why));
    }
    let left = left(sealed);
    let (plan, mut rows) = (&sealed.plan, sealed.read_rows()?);
    ledger.resume(plan.key.lineage)?;
    ledger.free(&allocation, &plan.retained)?;
    let mut written = Histogram::default();
    for &segment in &left {
        let Some(bytes) = sealed.chunk_of(chunks, segment)? else {
            return Err(Error::Internal { what: "a chunk of a pool that nobody is in has changed".to_owned() });
        };
        let (offset, length) = (sealed.segments[segment as usize].offset, sealed.segments[segment as usize].bytes);
        let row = (offset / BLOCK_BYTES) as usize * HASH_BYTES;
        hash_blocks(&bytes, &mut rows[row..row + length as usize / BLOCK * HASH_BYTES]);
        for Piece { offset: from, bytes: count, at } in pieces(&allocation.data, offset, length) {
            let begun = Instant::now();
            portion.write(at, &bytes[(from - offset) as usize..][..count as usize])?;
            written.note(count, begun.elapsed());
        }
    }

    let blocks = manifest.runs.iter().map(|run| run.blocks).sum();
    let manifest = Manifest { runs: allocation.runs(blocks, |row| hash(&rows[row])), ..manifest };
    let (mut phases, writes) = (plan.phases, written.total());
    (phases.writes, phases.written_bytes) = (writes.count, writes.bytes);
    let publication = Publication {
        key: plan.key,
        shards: plan.shards,
        manifest,
        manifest_in_meta: plan.manifest_in_meta,
        allocation: &allocation,
        retained: &plan.retained,
        phases,
    };
    let manifest = publication.manifest_bytes()?;
    let meta = publication.meta(&rows, &manifest).ok_or_else(|| portion.out_of_memory(rows.len() as u64))?;
    let writes = portion.write(allocation.meta.first * BLOCK_BYTES, &meta)?;
    publication.publish(&mut ledger, &manifest, writes)?;
    Ok(Outcome::Completed)
}

/// What `complete` would make of it now, `Completed` included. Changes nothing.
pub(crate) fn prospect(device: &dyn Device, sealed: &Sealed, chunks: Contents<'_>) -> Result<Outcome> {
    Ok(match examine(device, sealed, Access::Read)? {
        Standing::Elsewhere => Outcome::Elsewhere,
        Standing::OutOfSight => return Err(out_of_sight(device, sealed)),
        Standing::Published => Outcome::WasComplete,
        Standing::Over(why) => Outcome::Lost(why),
        Standing::Open(claim) => lacks(sealed, &claim.manifest, chunks)?.map_or(Outcome::Completed, Outcome::Lost),
    })
}

fn out_of_sight(device: &dyn Device, sealed: &Sealed) -> Error {
    let (path, rank) = (device.path(), sealed.plan.portion);
    Error::PortionOutOfSight { path, rank, files: files_of_layout(sealed.plan.layout_id) }
}

/// The segments that are not in the space yet.
fn left(sealed: &Sealed) -> Vec<u32> {
    (0..).zip(&sealed.segments).filter(|(_, segment)| !segment.done).map(|(index, _)| index).collect()
}

/// Why it can never be completed, if something is missing: a chunk, or bytes of an output file, which it makes
/// durable.
fn lacks(sealed: &Sealed, manifest: &Manifest, chunks: Contents<'_>) -> Result<Option<String>> {
    for segment in left(sealed) {
        if sealed.chunk_of(chunks, segment)?.is_none() {
            return Ok(Some("some of its bytes are in the pool no longer".to_owned()));
        }
    }
    match sync_outputs(&sealed.plan, manifest) {
        Err(error @ Error::OutputShort { .. }) => Ok(Some(error.to_string())),
        synced => synced.map(|()| None),
    }
}

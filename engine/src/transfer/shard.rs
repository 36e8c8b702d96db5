//! Copies a revision shard by shard. Each is read in the nearest place possible.

use super::target::Layout;
use crate::{
    device::Device,
    error::{Error, ErrorKind},
    feed::{copy_published, size_of},
    ground::Instant,
    place::{Shard, ShardSpec, TakenOver},
    reader::Reader,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The reason why a revision was not copied.
pub(super) enum Stopped {
    /// It cannot be read; the others may be readable.
    Lost(String),
    /// The job that has the space open removed it.
    Gone(String),
    Failed(Error),
}

impl Stopped {
    /// The reason after an `error` of reading.
    pub(super) fn by_source(error: Error) -> Stopped {
        match error {
            Error::RevisionMissing { why, .. } => Stopped::Gone(why),
            Error::Unreadable { what } | Error::Damaged { what } => Stopped::Lost(what.join("; ")),
            Error::Io { .. } if !error.is_of_process() => Stopped::Lost(error.to_string()),
            other => Stopped::Failed(other),
        }
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Failed(error)
    }
}

/// Copies the shards that `layout` lacks of the revision in `reader`.
pub(super) fn take_over(
    device: &dyn Device,
    layout: &Layout,
    reader: &mut Reader,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Stopped> {
    for shard in 0..reader.shard_count() {
        reader.renew();
        match layout.has(reader.key(), shard) {
            true => progress(reader.survey(shard)?.block_bytes()),
            false => copy_shard(device, layout, reader, shard, progress)?,
        }
    }
    Ok(())
}

/// Copies the shard `shard` from the nearest place in which it can be read.
fn copy_shard(
    device: &dyn Device,
    layout: &Layout,
    reader: &mut Reader,
    shard: u32,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Stopped> {
    debug_assert!(!layout.has(reader.key(), shard), "an existing shard is written again");
    let (mut shares, is_sure) = (true, layout.is_sure(shard));
    loop {
        let copy = empty_copy(device, layout, reader, shard, shares)?;
        let (survey, manifest) = (reader.survey(shard)?, reader.shard(shard)?);
        let carried = AtomicU64::new(0);
        let copied = copy_published(survey.portion(), manifest, &copy, false, &|bytes| {
            carried.fetch_add(bytes, Ordering::Relaxed);
            progress(bytes);
        });
        if let Some(error) = copy.failure() {
            return Err(error.clone().into());
        }
        if let Err(error) = copied {
            reader.read_elsewhere(shard, error).map_err(Stopped::by_source)?;
            continue;
        }
        copy.commit(0);
        match copy.wait() {
            Ok(_) => {
                layout.note_read(shard, reader.key());
                // Blocks shared with an older revision were not carried.
                progress(survey.block_bytes().saturating_sub(carried.into_inner()));
                return Ok(());
            }
            // The blocks of an older revision there may have been damaged since: this one is written whole.
            Err(error) if error.kind() == ErrorKind::Damaged && shares && !is_sure => shares = false,
            Err(error) => return Err(error.into()),
        }
    }
}

fn empty_copy(
    device: &dyn Device,
    layout: &Layout,
    reader: &Reader,
    shard: u32,
    shares: bool,
) -> Result<Arc<Shard>, Error> {
    let (key, shards) = (reader.key(), reader.shard_count());
    let (survey, manifest) = (reader.survey(shard)?, reader.shard(shard)?);
    let (size, phases) = (size_of(manifest.clone()), survey.entry().phases);
    let taken_over = TakenOver { phases, reads_shared: !layout.is_sure(shard) };
    let site = layout.site(device, shard, &size, shares)?.taking_over(taken_over);
    let intent = ShardSpec { key, shards, shard, size, outputs: Vec::new(), started: Instant::now() };
    Shard::new(intent, vec![site], None, phases)
}

//! A revision, taken over shard by shard. Each is read in the nearest place where that can be done.

use super::target::Layout;
use crate::{
    commit::RevisionKey,
    device::Device,
    error::Error,
    feed::{copy_published, size_of},
    ground::Instant,
    place::{Intent, Shard, Writer},
    reader::Reader,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Why a revision was not taken over.
pub(super) enum Stopped {
    /// It cannot be read: the others may be.
    Lost(String),
    /// The job that has the space open let it go.
    Gone(String),
    Failed(Error),
}

impl Stopped {
    /// After an `error` of reading.
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

/// Copies what `layout` does not have of the revision that `reader` has open.
pub(super) fn take_over(
    device: &dyn Device,
    layout: &Layout,
    reader: &mut Reader,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Stopped> {
    for shard in 0..reader.shard_count() {
        reader.renew();
        match layout.has(reader.key(), shard) {
            true => progress(reader.lying(shard).0.block_bytes()),
            false => copy_shard(device, layout, reader, shard, progress)?,
        }
    }
    Ok(())
}

/// Copies the shard `shard` from the nearest place where it can be read.
fn copy_shard(
    device: &dyn Device,
    layout: &Layout,
    reader: &mut Reader,
    shard: u32,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Stopped> {
    loop {
        let (key, shards) = (reader.key(), reader.shard_count());
        let copy = empty_copy(device, layout, reader, (key, shards, shard))?;
        let (survey, manifest) = reader.lying(shard);
        let carried = AtomicU64::new(0);
        let copied = copy_published(survey.portion(), manifest, &copy, false, &|bytes| {
            carried.fetch_add(bytes, Ordering::Relaxed);
            progress(bytes);
        });
        if let Some(error) = copy.failure() {
            return Err(error.clone().into());
        }
        match copied {
            Ok(()) => {
                copy.commit(0);
                copy.wait()?;
                // What is shared with an older revision was not carried.
                progress(survey.block_bytes().saturating_sub(carried.into_inner()));
                return Ok(());
            }
            Err(error) => reader.read_elsewhere(shard, error).map_err(Stopped::by_source)?,
        }
    }
}

fn empty_copy(
    device: &dyn Device,
    layout: &Layout,
    reader: &Reader,
    (key, shards, shard): (RevisionKey, u32, u32),
) -> Result<Arc<Shard>, Error> {
    let (survey, manifest) = reader.lying(shard);
    let (size, phases) = (size_of(manifest.clone()), survey.entry().phases);
    let site = layout.site(device, shard, &size)?.taking_over(phases);
    let intent = Intent { key, shards, shard, size, outputs: Vec::new(), started: Instant::now() };
    Shard::new(intent, vec![(Writer::Here, site)], None, phases)
}

//! The files of a new layout: the shards that share one, and the order in which it is made.
//!
//! Invariant: a file has its name only once its header and the first slots of all its portions are durable.

use crate::{
    device::Device,
    error::Result,
    group::{Group, agree},
    space::{LayoutFile, format::Slot, name_layout, open_unnamed, remove_unnamed, write_first_slots},
};
use std::collections::BTreeMap;

/// The shards that share a file of a layout.
pub(super) enum FilesOfShards {
    /// All shards have one file.
    One,
    /// Each shard has a file of its own.
    Apart,
    /// Several shards have a file. For each shard, the lowest shard in its file.
    Listed(Vec<usize>),
    /// The same, and each file has one writer.
    OfHolders(Vec<usize>),
}

impl FilesOfShards {
    /// Whether several ranks may write to one file.
    pub(super) fn are_shared(&self) -> bool {
        !matches!(self, FilesOfShards::Apart | FilesOfShards::OfHolders(_))
    }

    /// The lowest shard in the same file.
    pub(super) fn lowest(&self, shard: usize) -> usize {
        match self {
            FilesOfShards::One => 0,
            FilesOfShards::Apart => shard,
            FilesOfShards::Listed(lowest) | FilesOfShards::OfHolders(lowest) => lowest[shard],
        }
    }
}

/// Writes the first slots of a new layout, each by the rank that writes the portion, so that no rank writes for all. Then
/// its maker names the file. `made`: the file that this rank makes, if any. `name`: the name of the file with this rank's
/// portions. `own`: the first slots of this rank. Collective if files are `shared` by several writers.
pub(super) fn with_first_slots(
    group: &dyn Group,
    device: &dyn Device,
    made: Result<Option<LayoutFile>>,
    (name, shared): (Option<&str>, bool),
    own: impl Fn(u32) -> Option<Slot>,
) -> Result<Option<LayoutFile>> {
    let maker = made.as_ref().ok().cloned().flatten();
    let is_made = if shared { agree(group, made.map(drop)) } else { made.map(drop) };
    let written = is_made.and_then(|()| match (&maker, name) {
        (Some(layout), _) => write_first_slots(layout, own),
        (None, Some(name)) if shared => write_first_slots(&open_unnamed(device, name)?, own),
        _ => Ok(()),
    });
    let written = if shared { agree(group, written) } else { written };
    let named = written.and_then(|()| maker.iter().try_for_each(|layout| name_layout(device, layout)));
    named.inspect_err(|_| maker.iter().for_each(|layout| remove_unnamed(device, layout)))?;
    Ok(maker)
}

/// For each element, the index of the first equal one.
pub(super) fn lowest_alike<T: Ord>(all: &[T]) -> Vec<usize> {
    let mut first = BTreeMap::new();
    all.iter().enumerate().map(|(index, one)| *first.entry(one).or_insert(index)).collect()
}

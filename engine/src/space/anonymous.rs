//! A portion in a nameless file, for a shard that came from another rank.

use super::{Arrangement, LayoutFile, Portion};
use crate::{
    device::Anonymous,
    error::{Error, Result},
};
use std::sync::Arc;

/// An empty portion for `shard`, one of `shards`, with room for `blocks` blocks. The caller verifies each block before
/// a root refers to it. Up to `threads` threads allocate its memory.
pub(crate) fn anonymous_portion(shard: u32, shards: u32, blocks: u64, threads: usize) -> Result<Portion> {
    let mut all = vec![0; shards as usize];
    if let Some(own) = all.get_mut(shard as usize) {
        *own = blocks;
    }
    let arrangement =
        Arrangement { layout_id: [0; 16], layout_number: 0, stripe_bytes: 0, is_sized: false, blocks: all };
    let header = arrangement.header(&[shard as usize], false);
    let bytes = header.file_bytes;
    let made = Anonymous::with_memory(bytes, threads);
    let file = made.map_err(|e| Error::io("making a file in memory for", format!("shard {shard}"), e))?;
    let path = format!("shard {shard} as another rank sent it");
    let (name, path) = (path.clone(), path.into());
    let layout = LayoutFile {
        name,
        path,
        header,
        directory: None,
        file: Arc::new(file),
        is_mapping_awaited: Arc::default(),
        bytes,
    };
    layout
        .portions()
        .next()
        .map(Portion::verified)
        .ok_or_else(|| Error::Internal { what: "a layout without a portion".to_owned() })
}

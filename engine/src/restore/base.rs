//! Reads the blocks of an older revision and their hashes, for revisions that share blocks with it.

use super::rows_of;
use crate::{
    capture::Base,
    error::Result,
    space::{
        Portion,
        format::{Entry, Manifest},
    },
};

/// The contents of the shard of `entry`, with its rows of hashes verified. `None` if the rows do not belong to its
/// blocks.
pub(crate) fn base_of(portion: &Portion, entry: &Entry) -> Result<Option<Base>> {
    let manifest = portion.read_manifest(entry)?;
    let rows = joined_rows(portion, &manifest)?;
    Ok(Base::new(&manifest, rows))
}

/// The hashes of all blocks of the runs, in the order of the shard's log.
pub(crate) fn joined_rows(portion: &Portion, manifest: &Manifest) -> Result<Vec<u8>> {
    let rows = rows_of(portion, &manifest.runs)?;
    let mut joined = Vec::with_capacity(rows.iter().map(|row| row.len()).sum());
    rows.iter().for_each(|row| joined.extend_from_slice(row));
    Ok(joined)
}

//! What an older revision has, for those that are to share blocks with it.

use super::rows_of;
use crate::{
    capture::Base,
    error::Result,
    space::{
        Portion,
        format::{Entry, Manifest},
    },
};

/// What the shard that `entry` leads to has, its rows of hashes verified; `None` if these are not of its blocks.
pub(crate) fn base_of(portion: &Portion, entry: &Entry) -> Result<Option<Base>> {
    let manifest = portion.read_manifest(entry)?;
    let rows = joined_rows(portion, &manifest)?;
    Ok(Base::new(&manifest, rows))
}

/// The hashes of all blocks of the runs, in their order, which is that of the log that they are.
pub(crate) fn joined_rows(portion: &Portion, manifest: &Manifest) -> Result<Vec<u8>> {
    let rows = rows_of(portion, &manifest.runs)?;
    let mut joined = Vec::with_capacity(rows.iter().map(|row| row.len()).sum());
    rows.iter().for_each(|row| joined.extend_from_slice(row));
    Ok(joined)
}

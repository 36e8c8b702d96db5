//! Listing the pools and records in a directory, and removing them.

use super::file;
use crate::{
    error::{Error, Result},
    ground::files,
    printable::printable_path,
};
use nix::unistd::geteuid;
use std::{collections::BTreeMap, io, os::unix::fs::MetadataExt, path::Path};

/// The files of one pool of this user, alive or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolFiles {
    pub(crate) id: [u8; 16],
    /// `false` if only records are left; without their pool they are useless.
    pub(crate) has_pool: bool,
    /// The ranks with records beside the pool, ascending.
    pub(crate) records: Vec<u32>,
}

/// All pools of this user in `directory`; none if the directory does not exist.
pub(crate) fn list(directory: &Path) -> Result<Vec<PoolFiles>> {
    let failed = |e| Error::io("listing", printable_path(directory), e);
    let mut found = BTreeMap::<[u8; 16], PoolFiles>::new();
    let entries = match files::entries(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let Some((id, rank)) = entry.file_name().to_str().and_then(file::parse_name) else { continue };
        // The file has disappeared meanwhile, or belongs to another user: skip it.
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        // A link in the place of a record is listed, and removed with the pool.
        let is_kind = metadata.is_file() || (metadata.is_symlink() && rank.is_some());
        if !is_kind || metadata.uid() != geteuid().as_raw() {
            continue;
        }
        let of_id = found.entry(id).or_insert(PoolFiles { id, has_pool: false, records: Vec::new() });
        match rank {
            Some(rank) => of_id.records.push(rank),
            None => of_id.has_pool = true,
        }
    }
    let mut found: Vec<PoolFiles> = found.into_values().collect();
    found.iter_mut().for_each(|found| found.records.sort_unstable());
    Ok(found)
}

/// The ranks with records beside the pool `id`, ascending.
pub(super) fn records_of(directory: &Path, id: [u8; 16]) -> Result<Vec<u32>> {
    Ok(list(directory)?.into_iter().filter(|found| found.id == id).flat_map(|found| found.records).collect())
}

/// Removes the files of a pool. The pool's own file comes last: as long as it exists, its lock counts.
pub(super) fn remove_files(directory: &Path, id: [u8; 16]) -> Result<()> {
    for rank in records_of(directory, id)?.into_iter().map(Some).chain([None]) {
        file::remove(&file::path_of(directory, id, rank))?;
    }
    Ok(())
}

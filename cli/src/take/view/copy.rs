//! Copying the bytes of a revision into the file.

use super::{contents::Contents, file::File};
use crate::{
    exit::{Exit, Failure},
    progress,
};
use mainstay_engine::{Error, Reader, RevisionSurvey};
use std::path::Path;

/// Returns true if all of it was readable; otherwise the job removed it. Every block is verified before it is copied.
pub fn copy(
    space: &Path,
    revision: &RevisionSurvey,
    contents: &Contents<'_>,
    file: &mut File,
) -> Result<bool, Failure> {
    let mut reader = match Reader::open(space, Some(revision.key.number), "mainstay view") {
        Err(Error::RevisionMissing { .. }) => return Ok(false),
        opened => opened?,
    };
    if reader.key() != revision.key {
        return Ok(false);
    }
    let datasets = contents.shards.iter().flat_map(|shard| &shard.datasets);
    let bar = progress::of_bytes(datasets.map(|dataset| dataset.item.bytes).sum());
    bar.set_message("copying");
    let mut let_go = false;
    let copied = file.copy(&contents.shards, &mut |shard, name, at, into| match reader.read(shard, name, at, into) {
        Ok(bytes) if bytes == into.len() => {
            bar.inc(bytes as u64);
            Ok(())
        }
        Ok(_) => Err(Failure::lost(format!("shard {shard}: {name} is shorter than it was"))),
        Err(error) => {
            let_go = matches!(error, Error::RevisionMissing { .. });
            Err(error.into())
        }
    });
    bar.finish_and_clear();
    match copied {
        Ok(()) => Ok(true),
        Err(_) if let_go => Ok(false),
        Err(Failure { exit: Exit::Lost, message }) => Err(Failure::lost(format!("{message}; nothing was written"))),
        Err(failure) => Err(failure),
    }
}

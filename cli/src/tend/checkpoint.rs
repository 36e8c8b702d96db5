//! `mainstay checkpoint`: asks a running job to save itself.

use crate::{
    arguments, document,
    exit::{Exit, Failure},
    output,
    space::asking::{Asking, is_over},
};
use mainstay_engine::printable_path;
use std::path::Path;

pub fn checkpoint(wanted: &arguments::Checkpoint) -> Result<Exit, Failure> {
    let space = printable_path(&wanted.space.path);
    check_is_open(&wanted.space.path, "so no checkpoint is made")?;
    let (revision, _) = Asking::begin(&wanted.space.path)?.until_complete(wanted.timeout)?;
    if wanted.space.json {
        output::json(&document::Checkpoint { space: &space.to_string(), revision })?;
    } else {
        output::text(&format!("revision {revision} is complete\n"))?;
    }
    Ok(Exit::Good)
}

/// Fails if no job has the space open. `so` ends the message.
pub fn check_is_open(space: &Path, so: &str) -> Result<(), Failure> {
    if is_over(space)? {
        let space = printable_path(space);
        return Err(Failure::lost(format!("no job has {space} open, {so}")));
    }
    Ok(())
}

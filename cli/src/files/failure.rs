//! The failure of a command that cannot use the stage.

use crate::exit::Failure;
use mainstay_engine::printable_path;
use std::{io, path::Path};

pub fn of_stage(path: &Path, error: &io::Error) -> Failure {
    Failure::refused(format!(
        "the stage {} cannot be used: {error}. --stage DIR gives another one",
        printable_path(path)
    ))
}

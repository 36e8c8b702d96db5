//! `mainstay files`: protects the restart files of unchanged programs, and shows them.

mod failure;
mod kernel;
mod launched;
mod leaving;
mod look;
mod protect;
mod table;

pub use look::status;
pub use protect::{absolute, inserted};
pub use table::completed;

use crate::{
    arguments::{Files, FilesHelper, LookAtFiles},
    exit::{Exit, Failure, say},
};
use failure::of_stage;
use launched::own_job;
use mainstay_engine::printable_path;
use mainstay_files::{Member, Stage, close_inherited, has_staged, serve, staged_in};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{
    env,
    path::Path,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

pub fn files(wanted: &Files) -> Result<ExitCode, Failure> {
    match &wanted.look {
        Some(LookAtFiles::Ls(of)) => look::ls(of).map(ExitCode::from),
        Some(LookAtFiles::Verify(of)) => look::verify(of).map(ExitCode::from),
        Some(LookAtFiles::Restore { folder, file }) => look::restore(folder, file).map(ExitCode::from),
        None => protect::protect(&wanted.protect),
    }
}

pub fn helper(wanted: &FilesHelper) -> Result<Exit, Failure> {
    close_inherited();
    // The kernel sends it when an open breaks a lease. It would end the helper.
    let _ = signal_hook::flag::register(nix::libc::SIGIO, Arc::new(AtomicBool::new(false)));
    // A descriptor for each process that has a file open.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let stage = Stage::make(Some(&wanted.stage)).map_err(|e| of_stage(&wanted.stage, &e))?;
    serve(stage).map(|()| Exit::Good).map_err(|e| of_stage(&wanted.stage, &e))
}

/// Completes the files in `folder` that a killed program had closed. Returns a line for each. `None`: there are none.
pub fn salvage(folder: &Path) -> Result<Option<String>, Failure> {
    let staged = |stage: &Stage| staged_in(stage, folder).unwrap_or_default();
    let Some(stage) = Stage::find() else { return Ok(None) };
    let before = staged(&stage);
    if before.is_empty() {
        return Ok(None);
    }
    let mut page: String = complete(stage.clone(), ALL_JOBS)?.into_iter().map(|line| line + "\n").collect();
    let after = staged(&stage);
    for file in before {
        let is_left = after.iter().any(|other| other.path == file.path);
        let outcome = match (is_left, file.is_whole) {
            (true, _) => "left: a program has it open, or it could not be saved",
            (false, true) => "completed",
            (false, false) => "torn: its program was killed with it open; the previous file stays",
        };
        page += &format!("{}: {outcome}\n", printable_path(&file.path));
    }
    Ok(Some(page))
}

/// Completes the files of killed jobs on this node, in all folders, and prints a line for each failure. `stage`: another
/// folder than the usual one.
pub fn salvage_all(stage: Option<&Path>) {
    let stage = stage.map_or_else(Stage::find, |stage| Stage::open(stage).ok());
    if let Some(stage) = stage
        && has_staged(&stage)
    {
        complete(stage, &own_job()).unwrap_or_default().iter().for_each(|line| say(line));
    }
}

/// The name of a job that waits for the files of all others.
const ALL_JOBS: &str = "";

/// Starts a helper, which completes the files. Waits for the files of killed jobs, and those of `job`.
fn complete(stage: Stage, job: &str) -> Result<Vec<String>, Failure> {
    let path = stage.path().to_owned();
    let finish = || Member::join(stage, &env::current_exe()?, job)?.finish(false);
    finish().map(|finished| [finished.failures, finished.remarks].concat()).map_err(|e| of_stage(&path, &e))
}

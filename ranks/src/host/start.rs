//! How a host program begins a job.

use super::{Balance, job::Job};
use crate::{Error, Result, Wire, address::Slots, gate, memory, run_report, system::begin_protected, x86_64};
use mainstay_engine::Session;
use std::{ffi::OsString, path::PathBuf};

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The number of ranks; 0: as many as there are processes. A revision has its own number, which counts.
    pub ranks: usize,
    /// When ranks move for an even load; `None`: never.
    pub balance: Option<Balance>,
    /// Save the bytes of the files that ranks map, such as libraries, so that a restart does not need the files.
    pub with_libraries: bool,
    /// The folder with the MPI library for ranks.
    pub library: PathBuf,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// The end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All ranks have ended. The exit code is 0, or the first that was another.
    Whole(i32),
    /// A rank has ended the job with this exit code, while others may run.
    Aborted(i32),
}

/// The address slots of a job. Reserve them before `MPI_Init`, which may load libraries anywhere.
#[derive(Debug)]
pub struct Reserved(());

impl Reserved {
    /// Takes the addresses. Refuses a machine on which ranks in slots cannot run.
    pub fn new() -> Result<Reserved> {
        if let Some(why) = x86_64::unsupported() {
            return Err(Error::Refused(format!("ranks in slots cannot run on this machine: {why}")));
        }
        memory::reserve(Slots::range()).map_err(|error| {
            let advice = "lift the limit on address space (ulimit -v unlimited)";
            Error::Refused(format!("the addresses of the slots are not free ({error}); {advice}"))
        })?;
        begin_protected();
        gate::open()?;
        Ok(Reserved(()))
    }
}

/// Runs the program in slots, from the newest revision of the session's space or from its beginning, until it ends.
/// Collective: every process of the session calls it. The thread that calls it runs ranks, and is good for nothing else
/// afterwards but to close the session and end. The slots are reserved.
pub fn run(session: &mut Session, wire: Box<dyn Wire>, options: &Options) -> Result<Ended> {
    Job::new(session, wire, options).and_then(Job::run).inspect_err(|error| {
        if let Error::Refused(_) = error {
            run_report::refused();
        }
    })
}

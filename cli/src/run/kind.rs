//! The kind of launcher in a command, and its options.

use crate::{exit::Failure, outside};
use std::{ffi::OsStr, process::Command, time::Duration};

/// How long `mpiexec --version` may take.
const VERSION_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Version 4 or 5; prterun of PRRTE.
    OpenMpi,
    /// Hydra.
    Mpich,
    Srun,
}

/// The kind, and the version of Open MPI.
pub fn which_mpi(launcher: &OsStr) -> Result<(Kind, Option<(u32, String)>), Failure> {
    let name = launcher.to_string_lossy();
    let answer = outside::ask(Command::new(launcher).arg("--version"), VERSION_LIMIT);
    let answer = answer.map_err(|error| Failure::refused(format!("{name} cannot be started: {error}")))?;
    let told = answer.output + &answer.errors;
    if told.contains("Open MPI") || told.contains("PRRTE") || told.contains("prterun") {
        let version = told.split("(Open MPI) ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let major = |version: &str| Some((version.split('.').next()?.parse().ok()?, version.to_owned()));
        Ok((Kind::OpenMpi, version.and_then(major)))
    } else if told.contains("HYDRA") {
        Ok((Kind::Mpich, None))
    } else {
        Err(Failure::usage(format!(
            "`{name} --version` names neither Open MPI nor MPICH, so {name} cannot be given nodes"
        )))
    }
}

/// Options with two words after them; all others have at most one.
pub const TWO_WORDS: [&str; 8] = ["--mca", "--prtemca", "--pmixmca", "--gmca", "-mca", "-genv", "-env", "--genv"];
/// Options without a word after them, so the next word may be the program.
pub const NO_WORDS: [&str; 37] = [
    "--oversubscribe",
    "--allow-run-as-root",
    "--display-map",
    "--tag-output",
    "--report-bindings",
    "--nolocal",
    "-q",
    "--quiet",
    "-v",
    "--verbose",
    "-verbose",
    "-info",
    "-print-all-exitcodes",
    "-disable-auto-cleanup",
    "-l",
    "--label",
    "-O",
    "--overcommit",
    "--overlap",
    "--exclusive",
    "-u",
    "--unbuffered",
    "--use-hwthread-cpus",
    "--nooversubscribe",
    "--display-allocation",
    "--display-devel-map",
    "--timestamp-output",
    "--merge-stderr-to-stdout",
    "--continuous",
    "--disable-recovery",
    "--enable-recovery",
    "--exact",
    "-K",
    "--kill-on-bad-exit",
    "--pty",
    "--no-kill",
    "--multi-prog",
];

/// Options for the number of ranks.
pub fn counts(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::OpenMpi => &["-n", "-np", "--n", "--np", "-c"],
        Kind::Mpich => &["-n", "-np"],
        Kind::Srun => &["-n", "--ntasks"],
    }
}

/// Options for the place of ranks, which only one of us may give.
pub fn places(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::OpenMpi => &["-H", "-host", "--host", "-hostfile", "--hostfile", "-machinefile", "--machinefile"],
        Kind::Mpich => &["-hosts", "-host", "-f", "-hostfile", "-machinefile"],
        Kind::Srun => &["-w", "--nodelist", "-N", "--nodes", "-F", "--nodefile", "-x", "--exclude"],
    }
}

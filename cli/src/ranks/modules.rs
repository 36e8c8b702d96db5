//! The Fortran modules `mpi` and `mpi_f08`, compiled for the user's compiler: module files of one version are of no use
//! to another.

use super::{cache, installed::Installed, words::MODULES};
use crate::{exit::Failure, outside};
use mainstay_engine::printable_path;
use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const COMPILE_LIMIT: Duration = Duration::from_secs(600);
const SOURCES: [&str; 2] = ["mpi.f90", "mpi_f08.f90"];
/// From this version on, gfortran refuses a call with buffers of different types.
const STRICT_SINCE: u32 = 10;

/// The compiler's text about its version. `None` if there is no such compiler.
pub fn version(compiler: &[OsString]) -> Option<String> {
    outside::ask(Command::new(&compiler[0]).args(&compiler[1..]).arg("--version"), ANSWER_LIMIT)
        .ok()
        .map(|answer| answer.output + &answer.errors)
}

/// The flags of gfortran for old programs, as wrappers of other MPIs add them.
pub fn flags(version: &str) -> Option<&'static str> {
    let line = version.lines().next()?.strip_prefix("GNU Fortran")?;
    let major: u32 = line.split_whitespace().last()?.split('.').next()?.parse().ok()?;
    (major >= STRICT_SINCE).then_some("-fallow-argument-mismatch")
}

/// The folder with the module files.
pub fn folder(compiler: &[OsString], version: &str, installed: &Installed) -> Result<PathBuf, Failure> {
    let sources = SOURCES.map(|name| installed.share.join(name));
    let read = |source: &PathBuf| {
        fs::read(source).map_err(|e| Failure::refused(format!("{} cannot be read: {e}", printable_path(source))))
    };
    let texts = sources.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<&[u8]> = compiler
        .iter()
        .map(|word| word.as_bytes())
        .chain([version.as_bytes()])
        .chain(texts.iter().map(Vec::as_slice))
        .collect();
    cache::once(&cache::name("fortran", &parts), |folder| {
        for source in &sources {
            // Every compiler puts module files into its working directory.
            let mut command = Command::new(&compiler[0]);
            command.args(&compiler[1..]).args(flags(version)).args(["-fPIC", "-c"]).arg(source);
            run(&mut command, folder)?;
        }
        let objects = SOURCES.map(|name| Path::new(name).with_extension("o"));
        run(Command::new("ar").arg("rcs").arg(format!("lib{MODULES}.a")).args(objects), folder)
    })
}

fn run(command: &mut Command, folder: &Path) -> Result<(), Failure> {
    let failed = |program: &OsStr, why: String| {
        let program = printable_path(Path::new(program));
        Failure::refused(format!("{program} cannot make the modules of MPI for Fortran: {why}"))
    };
    let answer = outside::ask(command.current_dir(folder), COMPILE_LIMIT)
        .map_err(|e| failed(command.get_program(), e.to_string()))?;
    if answer.is_good() { Ok(()) } else { Err(failed(command.get_program(), answer.why(COMPILE_LIMIT))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strict_gfortran_is_told_to_take_old_programs() {
        for (version, expected) in [
            ("GNU Fortran (Debian 12.2.0-14) 12.2.0\nCopyright", Some("-fallow-argument-mismatch")),
            ("GNU Fortran (GCC) 10.1.0", Some("-fallow-argument-mismatch")),
            ("GNU Fortran (GCC) 8.5.0 20210514 (Red Hat 8.5.0-4)", None),
            ("ifx (IFX) 2024.0.0", None),
        ] {
            assert_eq!(flags(version), expected, "{version}");
        }
    }
}

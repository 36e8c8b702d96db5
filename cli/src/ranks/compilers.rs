//! `mainstay mpicc`, `mpicxx` and `mpifort`: the user's compiler, with flags for Mainstay's MPI.

use super::{
    installed::Installed,
    modules,
    words::{Folders, Makes, is_shown, words},
};
use crate::{
    arguments,
    exit::{Exit, Failure, say},
    output,
    setup::quoted,
};
use mainstay_engine::printable;
use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
};

/// As a shell ends.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

pub fn mpicc(wanted: &arguments::Mpicc) -> Result<ExitCode, Failure> {
    let installed = Installed::find()?;
    let folders = Folders::of(&installed);
    compile(words(&compiler("CC", "cc"), &[], &wanted.arguments, &folders), &wanted.arguments)
}

pub fn mpicxx(wanted: &arguments::Mpicxx) -> Result<ExitCode, Failure> {
    let installed = Installed::find()?;
    let folders = Folders::of(&installed);
    compile(words(&compiler("CXX", "c++"), &[], &wanted.arguments, &folders), &wanted.arguments)
}

pub fn mpifort(wanted: &arguments::Mpifort) -> Result<ExitCode, Failure> {
    let compiler = compiler("FC", "gfortran");
    let installed = Installed::find()?;
    let (mut own, mut modules_folder) = (Vec::new(), None);
    if Makes::of(&wanted.arguments) != Makes::Nothing
        && let Some(version) = modules::version(&compiler)
    {
        own.extend(modules::flags(&version));
        modules_folder = Some(modules::folder(&compiler, &version, &installed)?);
    }
    let folders = Folders::of_fortran(&installed, modules_folder);
    compile(words(&compiler, &own, &wanted.arguments, &folders), &wanted.arguments)
}

/// The compiler in the variable, with its own flags, or else `usual`. A variable that names a wrapper for MPI is no
/// answer: it may be this one, as after `make CC="mainstay mpicc"`.
fn compiler(variable: &str, usual: &str) -> Vec<OsString> {
    let set = env::var_os(variable).unwrap_or_default();
    let words: Vec<OsString> =
        set.to_str().map_or_else(|| vec![set.clone()], |set| set.split_whitespace().map(OsString::from).collect());
    let is_wrapper = |word: &OsString| {
        let name = Path::new(word).file_name().and_then(OsStr::to_str).unwrap_or_default();
        name == "mainstay" || name.starts_with("mpi")
    };
    match words.first() {
        Some(first) if !is_wrapper(first) => words,
        _ => vec![usual.into()],
    }
}

/// Becomes the compiler, or prints its command.
fn compile(words: Vec<OsString>, arguments: &[OsString]) -> Result<ExitCode, Failure> {
    if is_shown(arguments) {
        let line = words.iter().map(|word| quoted(b"", Path::new(word))).collect::<Vec<_>>().join(&b' ');
        output::bytes(&[line, b"\n".to_vec()].concat())?;
        return Ok(Exit::Good.into());
    }
    let error = Command::new(&words[0]).args(&words[1..]).exec();
    say(&format!("{} cannot be started: {error}", printable(&words[0].to_string_lossy())));
    Ok(ExitCode::from(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED }))
}

//! A look at a program before it runs: whether it can run in slots, and the MPI that it was built for.

use crate::{
    Error, Result,
    address::Slots,
    elf::{Needs, exports, imports},
    slot::{Library, Program},
    x86_64,
};
use std::{collections::BTreeSet, ffi::OsString, fs::File, path::Path};

/// The MPI that a program was linked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abi {
    /// None: a serial program, or one that loads its MPI later.
    Unknown,
    /// That of MPICH, `libmpi.so.12`.
    Mpich,
    /// That of the MPI standard, `libmpi_abi.so.1`.
    Standard,
}

/// A program that can run in slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    pub abi: Abi,
    /// The run-times of languages that it was linked to, such as "C++".
    pub run_times: Vec<&'static str>,
    /// The functions of MPI that it uses and that slots do not have.
    pub missing: Vec<String>,
    /// It is linked to OpenMP. A rank has only one thread.
    pub has_open_mp: bool,
    /// The addresses of each rank, in bytes.
    pub slot_bytes: u64,
}

/// The beginning of the name of a run-time library, and its language.
const RUN_TIMES: [(&str, &str); 4] =
    [("libstdc++.so", "C++"), ("libc++.so", "C++"), ("libgfortran.so", "Fortran"), ("libpython", "Python")];
const OPEN_MP: [&str; 3] = ["libgomp.so", "libiomp5.so", "libomp.so"];
/// The MPI library exports a symbol with this prefix for each function that it does not have.
const MISSING: &str = "mainstay_refused_";

/// Looks at the program `arguments[0]`. Refuses a program that cannot run in slots, a number of ranks that has no slots,
/// and a machine that cannot run any. `library`: the folder of the MPI library for ranks.
pub fn inspect(arguments: &[OsString], ranks: usize, library: &Path) -> Result<Inspected> {
    if let Some(why) = x86_64::unsupported() {
        return Err(Error::Refused(format!("ranks in slots cannot run on this machine: {why}")));
    }
    let slots = Slots::of(ranks)?;
    let program = Program::find(arguments, &Library::default())?;
    let abi = match program.executable.needs {
        Needs::Mpich => Abi::Mpich,
        Needs::Standard => Abi::Standard,
        Needs::Nothing | Needs::OpenMpi => Abi::Unknown,
    };
    let libraries = &program.executable.libraries;
    let is_linked_to = |beginning: &str| libraries.iter().any(|name| name.starts_with(beginning));
    Ok(Inspected {
        abi,
        run_times: RUN_TIMES.iter().filter(|(name, _)| is_linked_to(name)).map(|(_, language)| *language).collect(),
        missing: missing(&program.file, &Library::in_folder(library).mpich.join("libmpi.so.12")),
        has_open_mp: OPEN_MP.iter().any(|name| is_linked_to(name)),
        slot_bytes: slots.bytes as u64,
    })
}

/// The functions that the program calls, in C or in Fortran, and that the library does not have.
fn missing(program: &File, library: &Path) -> Vec<String> {
    let Ok(library) = File::open(library) else { return Vec::new() };
    let in_c = |name: &str| name.trim_start_matches("PMPI_").trim_start_matches("MPI_").to_owned();
    let in_fortran = |name: &str| format!("mpi_{}_", name.to_lowercase());
    let used: BTreeSet<String> = imports(program).iter().map(|name| in_c(name)).collect();
    let exported = exports(&library);
    let missing = exported.iter().filter_map(|name| name.strip_prefix(MISSING));
    let missing = missing.filter(|name| used.contains(*name) || used.contains(&in_fortran(name)));
    let sorted: BTreeSet<String> = missing.map(|name| format!("MPI_{name}")).collect();
    sorted.into_iter().collect()
}

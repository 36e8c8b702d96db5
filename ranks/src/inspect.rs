//! A look at a program before it runs: whether it can run in slots, and the MPI that it was built for.

use crate::{
    Error, Result,
    address::Slots,
    elf::Needs,
    slot::{Library, Program},
    x86_64,
};
use std::ffi::OsString;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inspected {
    pub abi: Abi,
    /// The addresses of each rank, in bytes.
    pub slot_bytes: u64,
}

/// Looks at the program `arguments[0]`. Refuses one that cannot run in slots, a number of ranks that has no slots, and
/// a machine that cannot run any.
pub fn inspect(arguments: &[OsString], ranks: usize) -> Result<Inspected> {
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
    Ok(Inspected { abi, slot_bytes: slots.bytes as u64 })
}

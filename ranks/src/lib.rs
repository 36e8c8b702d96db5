//! Ranks in slots: each rank of an MPI program is the whole program in user space, in an address slot that is the same in
//! every process. A host process runs several of them, saves them as regions of a session, and brings them back on any
//! number of processes. The program is not changed (papers 000, 002, 003, 004; docs/decisions).
//!
//! The rooms: `address` (slots), `slot` (their contents, and how a rank begins), `x86_64` (switch, trap and interrupt),
//! `system` (a rank's system calls), `message` (between ranks), `host` (runs ranks in turn), `save` (a checkpoint, and
//! bringing back). The rank's MPI library is C, in `capi/ranks`; it reaches the host through one page, the gate.
//!
//! Invariants: a rank that does not run is inside a call of the gate: its own, or the call after an interrupt. No frame of
//! the host lies on its stack, and no state of the host's MPI belongs to it.

mod address;
mod elf;
mod error;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gate;
mod host;
mod inspect;
mod libraries;
mod memory;
mod message;
mod mutant;
#[cfg(feature = "simulation")]
pub mod played;
mod rank;
mod run_report;
mod save;
mod slot;
mod system;
mod x86_64;

pub use error::{Error, Result};
pub use host::{Balance, Ended, Options, Reserved, run};
pub use inspect::{Abi, Inspected, inspect};
pub use message::{Alone, Wire};
#[cfg(feature = "simulation")]
pub use mutant::MUTANTS;

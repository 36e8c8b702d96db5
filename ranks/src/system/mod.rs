//! The system calls of a rank. Each is passed to the kernel, emulated, or refused, as the table says.
//!
//! Invariant: whatever a rank gets from the kernel lies in its slot, or in this value, which is saved with it: memory,
//! descriptors, directory, process number, clocks. Nothing of it belongs to the process.

mod clock;
mod descriptors;
mod directory;
mod input;
mod kernel;
mod memory_calls;
mod polling;
mod process;
mod protected;
mod rank_system;
mod removed;
mod table;

pub(crate) use kernel::call as pass;
pub(crate) use protected::begin as begin_protected;
pub(crate) use rank_system::{Arguments, Outcome, SavedSystem, System};
pub(crate) use removed::remove_second;

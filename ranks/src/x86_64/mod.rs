//! Everything that belongs to this processor: the switch between host and rank, and the trap for system calls.
//!
//! Invariant: no code that runs between the two thread pointers touches thread-local memory. Only the assembly here runs
//! there.

mod interrupt;
mod switch;
mod trap;

pub(crate) use interrupt::{INTERRUPT, is_in_rank, resume_code};
pub(crate) use switch::{entry_frame, gate_address, jump_to, run_rank};
pub(crate) use trap::{Context, InRank, catch_system_calls, unsupported};

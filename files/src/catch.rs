//! `mainstay files --catch kernel`: the kernel stops each call with a name, and `mainstay files` answers it.
//!
//! The preload library cannot see static programs, Go programs, and direct system calls. Here the program installs a
//! filter before it starts (`filter`), and the kernel reports each call with a name to this process, the *supervisor*
//! (`listener`). The supervisor reads the name from the program's memory (`caller`). A name that does not match goes on in
//! the kernel. For one that matches, the supervisor asks the helper as the library does (`asking`), and gives the program
//! a descriptor or an answer (`opening`, `looking`, `naming`).
//!
//! Invariants:
//! - A program here sends no requests to the helper: it is a *silent* holder (`helper/silent.rs`). The supervisor holds a new
//!   staged file itself until the helper knows the silent holder.
//! - The helper knows each silent holder before that process runs on: `forking` finds the children.
//! - One thread answers all calls, so they reach the helper in the order of their answers.

mod asking;
mod caller;
mod calls;
mod filter;
mod forking;
mod handing;
mod listener;
mod looking;
mod naming;
mod opening;
mod resolve;
mod supervisor;

pub use supervisor::{Catch, Served, Wanted};

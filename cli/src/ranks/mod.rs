//! Programs for ranks in slots: their compilers, and the program that hosts the ranks.

mod alone;
mod cache;
mod compilers;
mod host;
mod installed;
mod modules;
mod words;

pub use alone::{failure, host_ranks};
pub use compilers::{mpicc, mpicxx, mpifort};
pub use host::{host_program, in_path};
pub use installed::Installed;

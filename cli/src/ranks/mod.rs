//! Programs whose ranks lie in slots: their compilers, and the program that hosts their ranks.

mod alone;
mod cache;
mod compilers;
mod host;
mod installed;
mod modules;
mod words;

pub use alone::host_ranks;
pub use compilers::{mpicc, mpicxx, mpifort};
pub use host::{Hosted, hosted, tell_what_was_found};

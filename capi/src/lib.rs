//! The C library: translates C's world into the engine's, and decides nothing.
//!
//! One noun of C a file. Panics end here as `MAINSTAY_INTERNAL`, null pointers as
//! `MAINSTAY_INVALID_ARGUMENT`. No MPI symbol is in this library: the shim `mainstay_mpi.h`, compiled by
//! the user's own `mpicc`, brings a table of functions (`group`).

// cbindgen writes the names of these types as C has them (cbindgen.toml).

mod adapter;
mod alloc;
mod argument;
mod buffer;
mod checkpoint;
mod due;
mod error;
mod follow;
mod globals;
mod group;
mod heap;
mod item;
mod listed;
mod memory;
mod notes;
mod objects;
mod options;
mod output;
mod ranks;
mod reader;
mod record;
mod recover;
mod region;
mod restore;
mod revisions;
mod session;
mod shards;
mod speculation;
mod stream;

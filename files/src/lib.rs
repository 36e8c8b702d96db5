//! Restart files of programs that are not changed (`mainstay files`).
//!
//! A preload library (`files/preload`) redirects the names of restart files. The program writes into a file in the node's
//! memory, its *staged file*; the kernel does everything between open and close. One helper process for each node and
//! user decides which file a name stands for (`helper`), and gives whole files their names (`publish`). So a name
//! always stands for one whole *generation*.
//!
//! ```text
//!   program, preload library          helper of the node                     file system
//!   open   ── write FILE ──────────►  a new staged file   (stage)
//!   write, seek, mmap: the kernel
//!   close  ── closed ID ───────────►  the last holder: mark it whole
//!                                     copy, hash, sync    (copy, publish)  ► .mainstay/writing/ID
//!                                     hashes, link        (manifest)       ► .mainstay/kept/NAME.g7
//!                                     rename, sync                         ► NAME
//!   open to read ── read FILE ─────►  verify, or an older generation (kept)
//! ```
//! Invariants:
//! - A staged file is *whole* if no writable descriptor of it is left, and each process that had one closed it or ended
//!   in order. Only a whole file gets its name.
//! - The mark `whole` is in the stage before `close` returns. A helper that starts later publishes the file.
//! - Generations of one name are published in the order of their opening.
//!
//! [0043](../docs/decisions/0043-files-of-unchanged-programs.md) has the reasons.

mod catch;
mod claims;
mod copy;
mod file;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod helper;
mod kept;
mod lease;
mod manifest;
mod member;
mod names;
mod options;
mod program;
mod publish;
mod report;
mod server;
mod sets;
mod stage;
mod wake;
mod writing;

pub use catch::{Catch, Served, Wanted};
pub use kept::{Generation, Judged, NamedFile, Verdict, list, newest, restore, verify};
pub use member::{Finished, Member, StagedFile, has_staged, staged_in};
pub use names::Patterns;
pub use options::Options;
pub use program::{Program, program};
pub use server::{close_inherited, serve};
pub use stage::{CATCH_VARIABLE, JOB_VARIABLE, Stage};

//! The engine of Mainstay: saves the state of a parallel program and brings it back.
//!
//! The folders are the stages of the data's path: `capture` (selects the bytes) → `stage` (out of the program's way) →
//! `place` (I/O threads) → `commit` (published, found complete), and back by `restore`. They work on a `space` (the
//! container) on a `device`, for the ranks of a `group`. A `session` ties them together. `config` has its settings and
//! `model` the theory behind them. `tend` maintains spaces from outside a job, and a `reader` reads one revision.

// The lossy device and the seeded schedules, for the tests of `mutant`. Other tests include them from outside, so they
// call the engine by its name.
#[cfg(test)]
#[macro_use]
#[path = "../tests/support/mod.rs"]
mod support;
#[cfg(test)]
extern crate self as mainstay_engine;

mod boxes;
mod capture;
mod commit;
mod config;
pub mod device;
mod error;
mod feed;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod ground;
pub mod group;
pub mod model;
mod mutant;
mod place;
mod plural;
mod pool;
pub mod predict;
mod printable;
mod reader;
mod rehearsal;
mod remark;
mod restore;
mod salvage;
mod session;
pub mod space;
mod stage;
pub mod status;
mod survey;
pub mod tend;
pub mod transfer;

pub use capture::{Allocated, Landmarks, OwnMemory, Region, check_name, check_writable, heap};
pub use commit::RevisionKey;
pub use config::{
    Capture, Choice, Compress, Config, DiskLost, Exchange, KEYS, Key, LevelPlace, MemoryAfter, PoolHeld, Predictor,
    Recovery, Resolved, Setting, Shown, Signal, Source, Stage, Stagger, Start, Surroundings, TableLine, Track,
    UnknownVariable, Value, WhenBusy,
};
pub use error::{Error, ErrorKind, Failure, Result};
#[cfg(feature = "simulation")]
pub use ground::{FileOperation, World, current_world, set_world};
pub use ground::{kernel_bytes, kernel_text, unix_ns};
#[cfg(feature = "simulation")]
pub use mutant::{become_mutant, is_mutant, mutants};
pub use plural::count;
pub use pool::pool_limit;
pub use printable::{is_seen, printable, printable_path};
pub use reader::Reader;
pub use rehearsal::is_one as is_rehearsal;
pub use remark::say;
pub use session::{
    Got, HandoverCounts, LevelKind, LevelPlan, ListedRevision, Record, Recovered, Restored, Saver, Session,
    Speculation, StepError, StepOutcome, run,
};
pub use space::{format::PoolBound, tell_times};
pub use survey::{
    HoldState, HoldSurvey, LayoutSurvey, NewestShard, Place, Places, PortionSurvey, RevisionPart, RevisionSurvey,
    ShardSurvey, SpaceSurvey, Verified,
};

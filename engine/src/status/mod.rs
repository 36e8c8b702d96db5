//! The state of a job that saves to several levels, and the events in a space, for outside readers (`mainstay status`,
//! `mainstay report`). Rank 0 writes both to files in the space.
//!
//! Invariant: reporting never delays the program, and a file that cannot be written does no harm. No data that was read
//! is trusted before it was checked.

mod bounds;
mod closed;
mod document;
mod ended;
mod journal;
mod outlook;
mod recovery;
mod saved;
mod seen;
mod standing;
mod writer;

pub use closed::{last_lineage, was_closed};
pub(crate) use document::RECOVERIES_MAX;
pub use document::{CopyStatus, Failures, Job, JobProgress, LevelStatus, Node, PlaceOfLevel, Status};
pub use ended::tell_death;
pub(crate) use ended::tell_end;
pub(crate) use journal::EVENTS_MAX;
pub use journal::{Completion, Event, Journal, JournalEntry, Opening};
pub use outlook::{Loss, Survivor};
pub use recovery::{Parts, Recovery, Way, ranks_listed};
pub use saved::Saved;
pub use standing::{LevelStanding, Standing};
pub(crate) use writer::StatusWriter;

//! The helper of the node: it decides which file a name means, and when a file is whole.
//!
//! `state` is its knowledge, with pieces in `records`. The other files are the requests by duty: opening (`opening`), the
//! processes that can write a file (`processes`, `silent`), the decision about a file (`judging`, `unchanged`), the members of
//! jobs (`members`), names (`naming`), folders (`listing`), and jobs on several nodes (`shared`). It never waits: `workers` has
//! the threads.

mod judging;
mod listing;
mod members;
mod naming;
mod opening;
mod processes;
mod records;
mod shared;
mod silent;
mod state;
mod unchanged;
mod workers;

pub use records::{
    holders::Pid,
    kernel::staged_held_by,
    request::{Answer, End, How, Request, Verb},
};
pub use state::Helper;

//! The helper of the node. It decides which file a name stands for, and when a file is whole.
//!
//! `state` has its knowledge, with parts in `records`. The other files answer requests, by duty: opening (`opening`), the
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

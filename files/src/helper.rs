//! The helper of the node: it decides which file a name means, and when a file is whole.
//!
//! `state` is its knowledge, and the other files are the requests by duty: opening (`opening`), the ends of processes
//! (`holders`, `silent`), names (`naming`), and jobs on several nodes (`shared`). It never waits: `workers` has the threads.

mod holders;
mod naming;
mod opening;
mod request;
mod room;
mod shared;
mod silent;
mod state;
mod workers;

pub use holders::Pid;
pub use request::{Answer, How, Request, Verb};
pub use shared::End;
pub use silent::staged_held_by;
pub use state::Helper;

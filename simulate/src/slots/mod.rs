//! The messages of ranks in slots. The ranks are on hosts, move between them while messages are under way, are saved, and
//! come back on other numbers of hosts.
//!
//! A `plan` has the messages of each phase, and the rounds of hosts. A `host` carries the messages by the real code. A
//! `player` makes the calls of a rank, and compares each message that it gets with the plan, as MPI requires.

mod host;
mod plan;
mod player;
mod run;

pub use plan::Plan;
pub use run::run;

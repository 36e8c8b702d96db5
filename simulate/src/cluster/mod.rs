//! A cluster in one process. The threads of its processes are coroutines, one of which runs at a time. Its time and its
//! random numbers come from a seed.
//!
//! A thread that waits gives its condition to the scheduler, so only a thread that can go on is ever woken. If none can,
//! the time goes on to the next moment that a thread waits for. Without such a moment the run has failed. The story then
//! has the wait of each thread.

mod ailing;
mod coroutine;
mod disk;
mod leftover;
mod process;
mod scheduler;
mod thread;

pub use ailing::{Ailment, Part};
pub use process::{Death, Failure, NOTICED_WITHIN, ProcessId};
pub use scheduler::{Cluster, Fault, Limits};

//! A device in memory that fails as real ones do: it can be killed after any operation, forget,
//! tear and reorder what was not synced, fail or shorten single operations, hold a job's writes
//! back, and be without locks.
//!
//! A `Medium` is what outlives jobs; each rank of a job works on it through a `View` of its own,
//! where its faults are set. `Durable` knows what a loss of power may leave.

mod durable;
mod files;
mod gate;
mod medium;
mod mortal;
mod view;

pub use durable::{Durable, Loss};
pub use files::Files;
pub use gate::Gate;
pub use medium::{Change, Journal, Medium, Operation};
pub use mortal::Mortal;
pub use view::{Failure, Faulty, View};

use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

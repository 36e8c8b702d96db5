//! A device in memory that fails as real ones do. It can be killed after any operation. It can forget, tear and reorder
//! unsynced writes, fail or shorten single operations, hold a job's writes back, and be without locks.
//!
//! A `Medium` outlives jobs. Each rank of a job works on it through a `View` of its own, which also sets its faults.
//! `Durable` knows the images that a loss of power may leave.

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

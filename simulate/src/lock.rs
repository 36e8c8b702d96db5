//! A sleep and a lock for the threads of a cluster.

use mainstay_engine::current_world;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Stops the thread for this time of the cluster.
pub fn sleep(time: Duration) {
    let world = current_world().expect("a thread of the cluster");
    world.wait("a time", Some(world.now() + time), &mut || false);
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

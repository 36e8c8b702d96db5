//! Locks within the process.

use super::world;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks `mutex`. A panic elsewhere does not invalidate the data behind a lock, because it is only counters and
/// buffers.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    if let Some(world) = world() {
        world.step();
        let is_free = || !matches!(mutex.try_lock(), Err(TryLockError::WouldBlock));
        // Another thread that waited for this lock may have run first.
        while !is_free() {
            world.wait("a lock", None, &mut { is_free });
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value that the first thread to ask computes, while others wait for it.
#[derive(Debug)]
pub(crate) struct Once<T>(Mutex<Option<T>>);

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once(Mutex::new(None))
    }
}

impl<T: Clone> Once<T> {
    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> T {
        lock(&self.0).get_or_insert_with(init).clone()
    }

    pub(crate) fn get(&self) -> Option<T> {
        lock(&self.0).clone()
    }
}

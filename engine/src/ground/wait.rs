//! Waits for other threads. In a simulation, each is a wait of the simulated world.

use super::{Instant, lock, world};
use crossbeam_channel::{Receiver, TryRecvError};
use std::{
    sync::{
        self, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// `Condvar` of `std`. A wait may end without a reason.
#[derive(Debug, Default)]
pub(crate) struct Condvar {
    inner: sync::Condvar,
    notified: AtomicU64,
}

impl Condvar {
    pub(crate) const fn new() -> Condvar {
        Condvar { inner: sync::Condvar::new(), notified: AtomicU64::new(0) }
    }

    pub(crate) fn notify_all(&self) {
        self.notified.fetch_add(1, Ordering::Relaxed);
        self.inner.notify_all();
    }

    /// `guard` is that of `mutex`.
    pub(crate) fn wait<'a, T>(&self, mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match world() {
            Some(_) => self.simulated(mutex, guard, None).0,
            None => self.inner.wait(guard).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Also returns whether the time is over.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        if world().is_some() {
            return self.simulated(mutex, guard, Some(time));
        }
        let (guard, waited) = self.inner.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
        (guard, waited.timed_out())
    }

    /// Waits while `goes_on`.
    pub(crate) fn wait_while<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        mut guard: MutexGuard<'a, T>,
        mut goes_on: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while goes_on(&mut guard) {
            guard = self.wait(mutex, guard);
        }
        guard
    }

    /// Waits while `goes_on`, and at most for `time`.
    pub(crate) fn wait_timeout_while<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        mut guard: MutexGuard<'a, T>,
        time: Duration,
        mut goes_on: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let until = Instant::now() + time;
        while goes_on(&mut guard) {
            let left = until - Instant::now();
            if left.is_zero() {
                break;
            }
            guard = self.wait_timeout(mutex, guard, left).0;
        }
        guard
    }

    fn simulated<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        time: Option<Duration>,
    ) -> (MutexGuard<'a, T>, bool) {
        let seen = self.notified.load(Ordering::Relaxed);
        drop(guard);
        let is_notified = world().is_none_or(|world| {
            let until = time.map(|time| world.now() + time);
            world.wait("another thread", until, &mut || self.notified.load(Ordering::Relaxed) != seen)
        });
        (lock(mutex), !is_notified)
    }
}

/// The next of a queue; `None` once nobody can send to it.
pub(crate) fn receive<T>(queue: &Receiver<T>) -> Option<T> {
    let Some(world) = world() else { return queue.recv().ok() };
    let mut received = None;
    world.wait("work", None, &mut || match queue.try_recv() {
        Ok(next) => {
            received = Some(next);
            true
        }
        Err(error) => error == TryRecvError::Disconnected,
    });
    received
}

//! The cluster as one of its threads sees it.

use super::{
    process::ProcessId,
    scheduler::{Cluster, Condition, Status},
};
use mainstay_engine::{FileOperation, World};
use std::{ffi::OsString, fmt, fs::File, io, os::fd::RawFd, sync::Arc, time::Duration};

/// The longest time between two looks of a thread that waits by looking, if nothing happens.
const LOOK_MAX: Duration = Duration::from_secs(1);
const LOOK_MIN: Duration = Duration::from_micros(50);

pub(super) struct ThreadWorld {
    pub(super) cluster: Arc<Cluster>,
    pub(super) thread: usize,
    pub(super) process: ProcessId,
}

impl fmt::Debug for ThreadWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.thread)
    }
}

impl ThreadWorld {
    pub(super) fn new(cluster: Arc<Cluster>, thread: usize, process: ProcessId) -> ThreadWorld {
        ThreadWorld { cluster, thread, process }
    }

    /// Another thread may run here, with `chances` times the usual chance.
    fn may_switch(&self, chances: u32) {
        let mut state = self.cluster.lock();
        let switches = state.switches.saturating_mul(chances);
        if state.random.u32(0..1_000_000) < switches {
            state.threads[self.thread].status = Status::Ready { is_met: true };
            self.cluster.hand_over(state, self.thread);
        }
    }
}

impl World for ThreadWorld {
    fn now(&self) -> Duration {
        self.cluster.lock().now
    }

    fn unix_ns(&self) -> u64 {
        let state = self.cluster.lock();
        (state.now.as_nanos() as i64).saturating_add(state.clock_off) as u64
    }

    fn wait(&self, why: &'static str, until: Option<Duration>, is_over: &mut dyn FnMut() -> bool) -> bool {
        let mut state = self.cluster.lock();
        state.threads[self.thread].status = Status::Waiting { why, until, condition: Condition::of(is_over) };
        let is_met = self.cluster.hand_over(state, self.thread);
        self.cluster.lock().progress += 1;
        is_met
    }

    fn step(&self) {
        self.may_switch(1);
    }

    fn pause(&self, _tries: u32) {
        let mut state = self.cluster.lock();
        let (seen, now) = (state.progress, state.now);
        let thread = &mut state.threads[self.thread];
        let until = now + LOOK_MIN.saturating_mul(1 << thread.pauses.min(20)).min(LOOK_MAX);
        thread.pauses += 1;
        thread.status = Status::Looking { until, seen: Some(seen) };
        self.cluster.hand_over(state, self.thread);
        let mut state = self.cluster.lock();
        if state.progress != seen {
            state.threads[self.thread].pauses = 0;
        }
    }

    fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>) {
        let mut state = self.cluster.lock();
        self.cluster.add_thread(&mut state, self.process, name, work);
    }

    fn random(&self, bytes: &mut [u8]) {
        self.cluster.lock().random.fill(bytes);
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        self.cluster.lock().processes[self.process.0].variables.get(name).cloned()
    }

    fn process_id(&self) -> u32 {
        self.process.number()
    }

    fn opened(&self, descriptor: RawFd) {
        self.cluster.lock().opened(self.process, descriptor);
    }

    fn say(&self, line: &str) {
        let mut state = self.cluster.lock();
        let name = state.name_of(self.process).to_owned();
        state.tell(|| format!("{name} says: {line}"));
    }

    fn is_on_disk(&self, file: &File) -> bool {
        self.cluster.lock().disks.is_on_disk(file)
    }

    fn before(&self, operation: FileOperation<'_>) -> io::Result<()> {
        // Faults show most often where others run between two operations on files.
        self.may_switch(20);
        self.cluster.before(self, operation)
    }

    fn after(&self, operation: FileOperation<'_>) {
        let mut state = self.cluster.lock();
        state.progress += 1;
        state.after(self.process, operation);
    }
}

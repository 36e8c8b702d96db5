//! Simulated processes: they start, fail, end, and are killed.

use super::scheduler::{Cluster, State, Status};
use mainstay_engine::current_world;
use std::{
    any::Any,
    collections::BTreeMap,
    ffi::OsString,
    fs,
    os::fd::RawFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub(super) usize);

impl ProcessId {
    const FIRST: u32 = 1000;

    /// The number of the process, as it knows itself.
    pub(super) fn number(self) -> u32 {
        self.0 as u32 + Self::FIRST
    }

    fn of_number(number: u32) -> ProcessId {
        ProcessId((number - Self::FIRST) as usize)
    }
}

/// The time within which all others notice a death.
pub const NOTICED_WITHIN: Duration = Duration::from_millis(5);

/// Tells whether a process was killed. It takes no lock, so conditions of waits may ask it.
#[derive(Debug, Clone)]
pub struct Death(Arc<AtomicU64>);

impl Death {
    /// The time of the death.
    pub fn time(&self) -> Option<Duration> {
        let died = self.0.load(Ordering::Relaxed);
        (died != u64::MAX).then(|| Duration::from_nanos(died))
    }
}

/// How an operation on a file fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Io,
    Full,
    /// A sync fails and drops its writes, and the next one succeeds.
    Forgets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Lives,
    Ended,
    Killed,
}

pub(super) struct Process {
    pub(super) name: String,
    /// `None`: outside all nodes.
    pub(super) node: Option<usize>,
    pub(super) variables: BTreeMap<String, OsString>,
    pub(super) life: Life,
    /// The time of its death in nanoseconds, for conditions; `u64::MAX`: it lives, or has ended in order.
    pub(super) died: Arc<AtomicU64>,
    /// Operations so far that change something outside the process.
    pub(super) operations: u64,
    pub(super) dies_at: Option<u64>,
    pub(super) fails_at: BTreeMap<u64, Failure>,
    /// Until then, none of its threads runs.
    stalled_until: Duration,
}

impl Process {
    pub(super) fn stalls(&self, now: Duration) -> bool {
        now < self.stalled_until
    }
}

fn inode_of(descriptor: RawFd) -> Option<(u64, u64)> {
    // SAFETY: all zeros are a valid `stat`, which the call fills; a closed descriptor is only an error.
    #[allow(unsafe_code)]
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        (libc::fstat(descriptor, &raw mut found) == 0).then_some((found.st_dev, found.st_ino))
    }
}

impl Cluster {
    /// Starts a process with one thread. A panic of its thread is a failure of the run.
    pub fn start_process(
        self: &Arc<Cluster>,
        name: &str,
        node: Option<usize>,
        work: impl FnOnce() + Send + 'static,
    ) -> ProcessId {
        let mut state = self.lock();
        let id = ProcessId(state.processes.len());
        let variables = node.map(|node| ("MAINSTAY_NODE".to_owned(), format!("node{node}").into()));
        state.processes.push(Process {
            name: name.to_owned(),
            node,
            variables: variables.into_iter().collect(),
            life: Life::Lives,
            died: Arc::new(AtomicU64::new(u64::MAX)),
            operations: 0,
            dies_at: None,
            fails_at: BTreeMap::new(),
            stalled_until: Duration::ZERO,
        });
        let (cluster, of_process) = (self.clone(), name.to_owned());
        let work = move || {
            let worked = catch_unwind(AssertUnwindSafe(work));
            let mut state = cluster.lock();
            if let Err(panic) = worked {
                cluster.fail(&mut state, format!("{of_process} panicked: {}", text_of(&*panic)));
            }
            state.processes[id.0].life = Life::Ended;
            state.tell(|| format!("{of_process} ends"));
        };
        self.add_thread(&mut state, id, name, Box::new(work));
        state.tell(|| format!("{name} starts"));
        id
    }

    /// Kills a process: none of its threads is chosen again. A thread that kills its own process must call
    /// `stop_if_killed` next.
    pub fn kill(&self, process: ProcessId) {
        self.lock().kill(process);
    }

    /// Does not return to a thread that has killed its own process.
    pub fn stop_if_killed(&self) {
        let state = self.lock();
        if let Some(thread) = state.running
            && matches!(state.threads[thread].status, Status::Killed)
        {
            self.hand_over(state, thread);
        }
    }

    /// The time of the process's death, for conditions.
    pub fn death_of(&self, process: ProcessId) -> Death {
        Death(self.lock().processes[process.0].died.clone())
    }

    /// Whether any process was killed. Its mappings stay until the end of the run.
    pub fn has_killed(&self) -> bool {
        self.lock().processes.iter().any(|process| process.life == Life::Killed)
    }

    /// The process dies in the last of so many operations from now. A write is then done in part.
    pub fn dies_in(&self, process: ProcessId, operations: u64) {
        let mut state = self.lock();
        let process = &mut state.processes[process.0];
        process.dies_at = Some(process.operations + operations);
    }

    /// The last of so many operations from now fails.
    pub fn fails_in(&self, process: ProcessId, operations: u64, failure: Failure) {
        let mut state = self.lock();
        let process = &mut state.processes[process.0];
        process.fails_at.insert(process.operations + operations, failure);
    }

    /// The process of the calling thread.
    pub fn this_process(&self) -> ProcessId {
        ProcessId::of_number(current_world().expect("a thread of the cluster").process_id())
    }

    /// The process does nothing for this time.
    pub fn stall(&self, process: ProcessId, time: Duration) {
        let until = self.in_time(time);
        let mut state = self.lock();
        state.processes[process.0].stalled_until = until;
        let name = state.name_of(process).to_owned();
        state.tell(|| format!("{name} stalls for {time:?}"));
    }

    pub fn set_variable(&self, process: ProcessId, name: &str, value: &str) {
        self.lock().processes[process.0].variables.insert(name.to_owned(), value.into());
    }

    /// A file that a process has left open, although it ended in order.
    pub fn left_open(&self) -> Option<String> {
        let state = self.lock();
        let left = state.descriptors.iter().find(|(descriptor, (owner, inode))| {
            state.processes[owner.0].life == Life::Ended && inode_of(**descriptor) == Some(*inode)
        });
        left.map(|(descriptor, (owner, _))| {
            let path = fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap_or_default();
            format!("{} has left {} open", state.name_of(*owner), path.display())
        })
    }

    /// The time of day jumps by so many nanoseconds.
    pub fn jump_clock(&self, by_ns: i64) {
        self.lock().clock_off += by_ns;
    }
}

impl State {
    pub(super) fn opened(&mut self, process: ProcessId, descriptor: RawFd) {
        if let Some(inode) = inode_of(descriptor) {
            self.descriptors.insert(descriptor, (process, inode));
        }
    }

    /// Closes the files of a killed process, as the kernel does. Its locks end with them.
    fn close_all_of(&mut self, process: ProcessId) {
        self.descriptors.retain(|descriptor, (owner, inode)| {
            if *owner == process && inode_of(*descriptor) == Some(*inode) {
                // SAFETY: no thread that uses the descriptor runs again.
                #[allow(unsafe_code)]
                unsafe {
                    libc::close(*descriptor);
                }
            }
            *owner != process
        });
    }

    pub(super) fn kill(&mut self, process: ProcessId) {
        if self.processes[process.0].life != Life::Lives {
            return;
        }
        self.processes[process.0].life = Life::Killed;
        self.close_all_of(process);
        self.processes[process.0].died.store(self.now.as_nanos() as u64, Ordering::Relaxed);
        // Others notice it within this time.
        self.moments.insert(self.now + NOTICED_WITHIN);
        for thread in self.threads.iter_mut().filter(|thread| thread.process == process) {
            if !matches!(thread.status, Status::Ended) {
                thread.status = Status::Killed;
            }
        }
        self.progress += 1;
        let name = self.name_of(process).to_owned();
        self.tell(|| format!("{name} is killed"));
    }

    /// Counts an operation. Returns whether it is the last of its process, and its failure.
    pub(super) fn count_operation(&mut self, process: ProcessId) -> (bool, Option<Failure>) {
        let process = &mut self.processes[process.0];
        process.operations += 1;
        let failure = process.fails_at.remove(&process.operations);
        (process.dies_at.is_some_and(|at| process.operations >= at), failure)
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

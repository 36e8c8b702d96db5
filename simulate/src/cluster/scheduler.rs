//! Runs one thread at a time, and chooses the next.

use super::{
    ailing::Ailment,
    coroutine::{self, Coroutine},
    disk::Disks,
    leftover,
    process::{Process, ProcessId},
    thread::ThreadWorld,
};
use crate::lock::locked;
use fastrand::Rng;
use mainstay_engine::set_world;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    os::fd::RawFd,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// The most that a run may take. A run that takes more has failed.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub steps: u64,
    /// Time of the cluster.
    pub time: Duration,
    /// Time of the machine. A thread that waits where the simulation does not see it would take forever.
    pub real: Duration,
}

impl Limits {
    pub const DEFAULT: Limits =
        Limits { steps: 20_000_000, time: Duration::from_secs(30 * 86_400), real: Duration::from_secs(60) };
}

/// The failure of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug)]
pub struct Cluster {
    state: Mutex<State>,
    /// The run is over.
    ended: Condvar,
    pub(super) folder: PathBuf,
    limits: Limits,
    /// The time, for conditions, which must not lock the state.
    clock: AtomicU64,
}

pub(super) struct State {
    pub(super) now: Duration,
    pub(super) random: Rng,
    /// Of a million chances to hand over to another thread, the number that is taken.
    pub(super) switches: u32,
    pub(super) threads: Vec<ThreadState>,
    pub(super) processes: Vec<Process>,
    pub(super) disks: Disks,
    /// Folders of file systems that ail.
    pub(super) ailing: Vec<(PathBuf, Ailment)>,
    /// Files that processes have opened and may have closed, with their inodes.
    pub(super) descriptors: BTreeMap<RawFd, (ProcessId, (u64, u64))>,
    /// How far the time of day is from the time of the cluster, in nanoseconds.
    pub(super) clock_off: i64,
    /// Grows with all that another thread may wait for by looking.
    pub(super) progress: u64,
    pub(super) steps: u64,
    /// Times at which a condition may become true.
    pub(super) moments: BTreeSet<Duration>,
    /// The thread that runs; `None`: the run is over, or has not begun.
    pub(super) running: Option<usize>,
    outcome: Option<Result<(), Fault>>,
    story: Option<Vec<String>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads at {:?}", self.threads.len(), self.now)
    }
}

pub(super) struct ThreadState {
    pub(super) name: String,
    pub(super) process: ProcessId,
    pub(super) status: Status,
    /// Pauses in a row without progress.
    pub(super) pauses: u32,
    /// `None`: it runs, or has ended.
    coroutine: Option<Coroutine>,
}

pub(super) enum Status {
    Ready {
        /// A wait has ended by its condition.
        is_met: bool,
    },
    Waiting {
        why: &'static str,
        until: Option<Duration>,
        condition: Condition,
    },
    /// It looks again after any progress.
    Looking {
        until: Duration,
        /// `None`: only at that time.
        seen: Option<u64>,
    },
    Ended,
    Killed,
}

/// The condition of a thread that waits, on its stack.
pub(super) struct Condition(*mut (dyn FnMut() -> bool + 'static));

// SAFETY: the thread that the condition belongs to is stopped while another evaluates it, one at a time.
#[allow(unsafe_code)]
unsafe impl Send for Condition {}

impl Condition {
    #[allow(unsafe_code)]
    pub(super) fn of(condition: &mut dyn FnMut() -> bool) -> Condition {
        // SAFETY: only the lifetime changes. The condition is on the stack of a thread that stays stopped while its status
        // has the condition.
        Condition(unsafe {
            std::mem::transmute::<*mut dyn FnMut() -> bool, *mut (dyn FnMut() -> bool + 'static)>(condition)
        })
    }

    #[allow(unsafe_code)]
    fn is_met(&mut self) -> bool {
        // SAFETY: the thread is stopped in the call that made this.
        unsafe { (*self.0)() }
    }
}

impl Cluster {
    /// A cluster with its files below `folder`. The story is kept if `keeps_story`.
    pub fn new(seed: u64, folder: &Path, limits: Limits, keeps_story: bool) -> Arc<Cluster> {
        let mut random = Rng::with_seed(seed);
        // Few hand-overs find other faults than many.
        let switches = [200, 5_000, 50_000, 300_000][random.usize(0..4)];
        let state = State {
            now: Duration::from_secs(1),
            random,
            switches,
            threads: Vec::new(),
            processes: Vec::new(),
            disks: Disks::new(folder),
            ailing: Vec::new(),
            descriptors: BTreeMap::new(),
            clock_off: 1_700_000_000_000_000_000,
            progress: 0,
            steps: 0,
            moments: BTreeSet::new(),
            running: None,
            outcome: None,
            story: keeps_story.then(Vec::new),
        };
        Arc::new(Cluster {
            state: Mutex::new(state),
            ended: Condvar::new(),
            folder: folder.to_owned(),
            limits,
            clock: AtomicU64::new(0),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Runs `operator` as the first process, outside all nodes. It starts the others. Returns once it has ended, or once the
    /// run has failed; then no thread of the cluster runs again.
    pub fn run(
        self: &Arc<Cluster>,
        operator: impl FnOnce(&Arc<Cluster>) -> Result<(), Fault> + Send + 'static,
    ) -> Result<(), Fault> {
        let cluster = self.clone();
        self.start_process("operator", None, move || {
            let ended = operator(&cluster);
            cluster.finish(ended);
        });
        self.lock().running = Some(0);
        thread::scope(|scope| {
            scope.spawn(|| self.watch());
            self.run_threads();
        });
        let mut state = self.lock();
        state.threads.iter_mut().for_each(|thread| thread.coroutine = None);
        state.disks = Disks::new(&self.folder);
        leftover::remove(&self.folder);
        state.outcome.clone().unwrap_or(Ok(()))
    }

    /// Runs the threads of the cluster on this thread of the system, one at a time.
    fn run_threads(self: &Arc<Cluster>) {
        loop {
            let mut state = self.lock();
            let Some(running) = state.running else { return };
            let thread = &mut state.threads[running];
            let world = ThreadWorld::new(self.clone(), running, thread.process);
            let mut coroutine = thread.coroutine.take().expect("a thread that was chosen can run");
            drop(state);
            set_world(Some(Arc::new(world)));
            let is_over = coroutine.resume();
            set_world(None);
            if !is_over {
                self.lock().threads[running].coroutine = Some(coroutine);
            }
        }
    }

    /// Ends the program if a thread waits where the simulation does not see it.
    fn watch(&self) {
        let state = self.lock();
        let (state, waited) = self
            .ended
            .wait_timeout_while(state, self.limits.real, |state| state.outcome.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            eprintln!("a thread waits where the simulation does not see it; {}", state.waits());
            process::exit(1);
        }
    }

    fn finish(&self, outcome: Result<(), Fault>) {
        self.lock().outcome.get_or_insert(outcome);
        self.ended.notify_all();
    }

    pub(super) fn fail(&self, state: &mut State, why: String) {
        state.outcome.get_or_insert(Err(Fault(why)));
        self.ended.notify_all();
    }

    /// Ends the run with a fault. The first fault counts.
    pub fn has_failed(&self, why: String) {
        let mut state = self.lock();
        self.fail(&mut state, why);
    }

    /// The lines of the story so far.
    pub fn story(&self) -> Vec<String> {
        self.lock().story.clone().unwrap_or_default()
    }

    /// Adds a line to the story. `line` is called only if the story is kept.
    pub fn tell(&self, line: impl FnOnce() -> String) {
        self.lock().tell(line);
    }

    /// The time, for conditions.
    pub fn clock(&self) -> Duration {
        Duration::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    /// Looks at all conditions again in so long a time. Returns that moment.
    pub fn in_time(&self, time: Duration) -> Duration {
        let mut state = self.lock();
        let moment = state.now + time;
        state.moments.insert(moment);
        moment
    }

    /// Something has happened that others may wait for by looking.
    pub fn has_happened(&self) {
        self.lock().progress += 1;
    }

    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// Draws from the cluster's numbers.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.lock().random)
    }

    /// A new thread of `process`, which does `work` once its turn comes.
    pub(super) fn add_thread(
        self: &Arc<Cluster>,
        state: &mut State,
        process: ProcessId,
        name: &str,
        work: Box<dyn FnOnce() + Send>,
    ) {
        let (thread, cluster) = (state.threads.len(), self.clone());
        let coroutine = Coroutine::of(move || {
            work();
            cluster.end(thread);
        });
        let status = Status::Ready { is_met: true };
        state.threads.push(ThreadState {
            name: name.to_owned(),
            process,
            status,
            pauses: 0,
            coroutine: Some(coroutine),
        });
    }

    /// Stops the thread that runs until its turn comes. Returns whether its condition was met.
    pub(super) fn hand_over<'a>(&'a self, mut state: MutexGuard<'a, State>, from: usize) -> bool {
        state.running = self.next(&mut state);
        if state.running != Some(from) {
            // The next thread needs the state at once.
            drop(state);
            coroutine::suspend();
            state = self.lock();
        }
        matches!(state.threads[from].status, Status::Ready { is_met: true })
    }

    /// The thread that runs ends, and another goes on.
    fn end(&self, thread: usize) {
        let mut state = self.lock();
        state.progress += 1;
        state.threads[thread].status = Status::Ended;
        state.running = self.next(&mut state);
    }

    /// Chooses the next thread; `None`: the run is over.
    fn next(&self, state: &mut State) -> Option<usize> {
        if state.outcome.is_some() {
            return None;
        }
        state.steps += 1;
        if state.steps > self.limits.steps || state.now > self.limits.time {
            let why = format!("no end after {} steps and {:?}; {}", state.steps, state.now, state.waits());
            self.fail(state, why);
            return None;
        }
        loop {
            let ready = state.ready_threads();
            if !ready.is_empty() {
                return Some(ready[state.random.usize(0..ready.len())]);
            }
            if !state.pass_time() {
                let why = format!("no thread can go on; {}", state.waits());
                self.fail(state, why);
                return None;
            }
            self.clock.store(state.now.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

impl State {
    /// The threads that can go on now. Each of them is `Ready` from now on.
    fn ready_threads(&mut self) -> Vec<usize> {
        let mut ready = Vec::with_capacity(self.threads.len());
        for (index, thread) in self.threads.iter_mut().enumerate() {
            if self.processes[thread.process.0].stalls(self.now) {
                continue;
            }
            match &mut thread.status {
                Status::Ready { .. } => ready.push(index),
                Status::Waiting { until, condition, .. } => {
                    let is_met = condition.is_met();
                    if is_met || until.is_some_and(|until| until <= self.now) {
                        thread.status = Status::Ready { is_met };
                        ready.push(index);
                    }
                }
                Status::Looking { until, seen } => {
                    if *until <= self.now || seen.is_some_and(|seen| seen != self.progress) {
                        thread.status = Status::Ready { is_met: true };
                        ready.push(index);
                    }
                }
                Status::Ended | Status::Killed => {}
            }
        }
        ready
    }

    /// Lets the time pass until the next moment at which a thread may go on. False: there is none.
    fn pass_time(&mut self) -> bool {
        let runs = |thread: &&ThreadState| !self.processes[thread.process.0].stalls(self.now);
        let untils = self.threads.iter().filter(runs).filter_map(|thread| match &thread.status {
            Status::Waiting { until, .. } => *until,
            Status::Looking { until, .. } => Some(*until),
            _ => None,
        });
        let moment = self.moments.pop_first();
        let Some(until) = untils.chain(moment).min() else { return false };
        self.moments.extend(moment.filter(|moment| *moment > until));
        self.now = self.now.max(until);
        true
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = self.story.as_mut().filter(|_| self.outcome.is_none()) {
            let seconds = self.now.as_secs_f64();
            story.push(format!("{seconds:14.6} {}", line()));
        }
    }

    pub(super) fn name_of(&self, process: ProcessId) -> &str {
        &self.processes[process.0].name
    }

    /// Each thread that waits, with the reason.
    fn waits(&self) -> String {
        let waits = self.threads.iter().filter_map(|thread| {
            let (of, name) = (self.name_of(thread.process), &thread.name);
            let named = if of == name { of.to_owned() } else { format!("{of}, {name}") };
            match &thread.status {
                Status::Waiting { why, until: None, .. } => Some(format!("{named} waits for {why}")),
                Status::Waiting { why, until: Some(until), .. } => {
                    Some(format!("{named} waits for {why} until {:.6}", until.as_secs_f64()))
                }
                Status::Looking { .. } => Some(format!("{named} looks again and again")),
                Status::Ready { .. } => Some(format!("{named} can run")),
                Status::Ended | Status::Killed => None,
            }
        });
        waits.collect::<Vec<_>>().join("; ")
    }
}

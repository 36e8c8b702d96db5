//! The job whose counts are taken: nodes with memory and copies on other nodes, a space behind them, and a node that
//! fails.

use super::{
    counted_device::counted_device,
    counted_group::CountedGroup,
    counts::{Counter, Most},
    support::bounded_by,
};
use mainstay_engine::{
    Config, ErrorKind, LevelKind, LevelPlan, MemoryAfter, Recovery, Region, Session,
    group::{Group, ThreadGroup},
};
use std::{
    path::{Path, PathBuf},
    sync::{Barrier, mpsc::Receiver},
    thread::{self, Scope},
    time::Duration,
};

/// Ranks need no deep stack.
const STACK_BYTES: usize = 512 << 10;
/// A thousand ranks on a few processors take their time.
const LIMIT: Duration = Duration::from_secs(1200);

struct Job {
    ranks: usize,
    on_node: usize,
    directory: PathBuf,
    most: Most,
    /// All ranks of the first node have saved, and fail together.
    end_of_node: Barrier,
}

/// The highest counts of a job of `ranks` ranks, `on_node` on each node.
pub fn counted(ranks: usize, on_node: usize) -> Most {
    // On storage, the files of so many ranks would take long to write.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (most, end_of_node) = (Most::default(), Barrier::new(on_node));
    let job = Job { ranks, on_node, directory: directory.path().to_owned(), most, end_of_node };
    bounded_by(LIMIT, "a job that loses a node", || {
        thread::scope(|scope| {
            let (groups, spares) = ThreadGroup::with_spares(ranks, on_node);
            groups.into_iter().for_each(|group| start(scope, || job.live(group)));
            spares.into_iter().for_each(|spare| start(scope, || job.replace(spare)));
        });
    });
    bounded_by(LIMIT, "the next job", || {
        thread::scope(|scope| {
            ThreadGroup::new(ranks).into_iter().for_each(|group| start(scope, || job.come_back(group)));
        });
    });
    job.most
}

/// Starts a rank.
fn start<'scope>(scope: &'scope Scope<'scope, '_>, rank: impl FnOnce() + Send + 'scope) {
    thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, rank).unwrap();
}

impl Job {
    /// A session of this rank on its node. The ranks of failed nodes are replaced on nodes of their own.
    fn open(&self, group: ThreadGroup, counter: &Counter, is_replacing: bool) -> Session {
        let rank = group.rank();
        let node = self.directory.join(format!("node-{}-{is_replacing}", rank / self.on_node));
        let device = |path: PathBuf| counted_device(&path, counter);
        let plan = |kind, path, every, copies| LevelPlan {
            kind,
            device: device(path),
            every,
            keep: 1,
            copies,
            former: Vec::new(),
        };
        let plans = vec![
            plan(LevelKind::Memory, node.join("memory"), 1, vec![device(node.join("copies"))]),
            plan(LevelKind::Pfs, self.directory.join("space"), 1, Vec::new()),
        ];
        let pool_directory = node.join("pool");
        make(&pool_directory);
        let config = Config {
            pool_directory,
            pool_bytes: Some(128 << 10),
            chunk_bytes: Some(16 << 10),
            io_threads: 1,
            memory_after: MemoryAfter::Kept,
            recovery: Recovery::Replace,
            ..Config::default()
        };
        let group = CountedGroup::new(Box::new(group), counter, self.on_node);
        Session::open_levels(Box::new(group), plans, config).unwrap()
    }

    /// A rank of the first job. Those on the last node fail after the second checkpoint.
    fn live(&self, group: ThreadGroup) {
        let (rank, counter) = (group.rank(), Counter::default());
        let mut state = Box::new([rank as u64; 64]);
        let mut session = self.open(group, &counter, false);
        self.most.ended("open", &counter);
        protect(&mut session, &mut state);
        session.restore().unwrap();
        self.most.ended("restore", &counter);
        for phase in ["first save", "save"] {
            state[0] += 1;
            session.checkpoint().unwrap();
            session.wait().unwrap();
            self.most.ended(phase, &counter);
        }
        if rank >= self.ranks - self.on_node {
            self.end_of_node.wait();
            return;
        }
        let failed = loop {
            if let Err(error) = session.due_now() {
                break error;
            }
        };
        assert_eq!(failed.kind(), ErrorKind::GroupFailed, "{failed}");
        session.recover().unwrap();
        self.most.ended("recover", &counter);
        self.go_on(session, &mut state, &counter);
    }

    /// A spare, which takes the place of a failed rank.
    fn replace(&self, spare: Receiver<ThreadGroup>) {
        let (group, counter) = (spare.recv().unwrap(), Counter::default());
        let mut state = Box::new([0; 64]);
        let mut session = self.open(group, &counter, true);
        self.most.ended("recover", &counter);
        protect(&mut session, &mut state);
        self.go_on(session, &mut state, &counter);
    }

    fn go_on(&self, mut session: Session, state: &mut [u64; 64], counter: &Counter) {
        assert_eq!(session.restore().unwrap().unwrap().revision, 2);
        self.most.ended("go back", counter);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        self.most.ended("save again", counter);
        assert_eq!(state[0], state[1] + 2);
        session.close().unwrap();
        self.most.ended("close", counter);
    }

    /// A rank of the next job.
    fn come_back(&self, group: ThreadGroup) {
        let (rank, counter) = (group.rank(), Counter::default());
        let mut state = Box::new([0; 64]);
        let is_replaced = rank >= self.ranks - self.on_node;
        let mut session = self.open(group, &counter, is_replaced);
        self.most.ended("open again", &counter);
        protect(&mut session, &mut state);
        assert_eq!(session.restore().unwrap().unwrap().revision, 3);
        assert_eq!(state[..2], [rank as u64 + 2, rank as u64]);
        self.most.ended("come back", &counter);
        session.close().unwrap();
    }
}

fn make(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
}

#[expect(unsafe_code, reason = "regions are memory of the program")]
fn protect(session: &mut Session, state: &mut [u64; 64]) {
    // SAFETY: the state is on the heap, and is kept as long as the session.
    let region = unsafe { Region::new("state", state.as_mut_ptr().cast(), size_of_val(state) as u64) };
    session.protect(region.unwrap()).unwrap();
}

//! The holders of copies change, and ranks fail meanwhile: the others recover, choose again at once, and no complete
//! revision is lost.

use crate::support::{
    between::{Between, Watched},
    bounded,
    program::{Mark, Program, Restoring},
};
use mainstay_engine::{
    Config, Error, ErrorKind, LevelKind, LevelPlan, MemoryAfter, Recovery, Session,
    device::{Access, Device, Disk, File, LockFile, NewFile},
    group::{Group, ThreadGroup},
};
use std::{
    cell::Cell,
    io,
    panic::{catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};
use tempfile::TempDir;

const BYTES: usize = 20_000;
const RANKS: usize = 4;
/// This rank stops holding copies, and fails once the others hold them.
const LEFT: usize = 1;
/// The ranks that fail: the first during the first choice of holders, the second during the choice after that recovery.
const VICTIMS: [usize; 2] = [2, 0];

thread_local! {
    /// Operations on its disks after which this rank fails.
    static FAILS_AFTER: Cell<Option<usize>> = const { Cell::new(None) };
}

#[derive(Debug)]
struct StepError;

impl StepError {
    /// Ends the thread and all that the rank has: only the start of the thread catches this.
    fn operation(&self) {
        match FAILS_AFTER.get() {
            Some(0) => {
                FAILS_AFTER.set(None);
                resume_unwind(Box::new("this rank has failed"));
            }
            left => FAILS_AFTER.set(left.map(|left| left - 1)),
        }
    }
}

impl Between for StepError {
    fn list(&self, disk: &Disk) -> io::Result<Vec<String>> {
        self.operation();
        disk.list()
    }
    fn create(&self, disk: &Disk, name: &str, wanted: &NewFile) -> io::Result<Arc<dyn File>> {
        self.operation();
        disk.open(name, Access::Write, Some(wanted))
    }
    fn open(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.operation();
        disk.open(name, access, None)
    }
    fn lock_file(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Box<dyn LockFile>> {
        self.operation();
        disk.lock_file(name, access)
    }
    fn read_at(&self, file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.operation();
        file.read_at(buffer, offset)
    }
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.operation();
        file.write_at(bytes, offset)
    }
    fn sync(&self, file: &dyn File) -> io::Result<()> {
        self.operation();
        file.sync()
    }
}

/// Each rank is a node of its own. The data of the node is lost with it.
struct Job {
    pfs: TempDir,
    kind: LevelKind,
    /// A victim fails after so many operations in its choice.
    after: usize,
    /// The newest step that was waited for.
    waited: Mutex<u64>,
    /// The number of ranks that have failed in a choice, and of shards that have new holders for their copies.
    failures: AtomicU64,
    left: AtomicU64,
}

impl Job {
    fn open(&self, group: Box<dyn Group>, node: &[TempDir]) -> Session {
        let device =
            |folder: &TempDir| Arc::new(Watched::new(Disk::make(folder.path()).unwrap(), StepError)) as Arc<dyn Device>;
        let plan = |kind, device, every, copies| LevelPlan { kind, device, every, keep: 1, copies, former: Vec::new() };
        let plans = vec![
            plan(self.kind, device(&node[0]), 1, vec![device(&node[1])]),
            plan(LevelKind::Pfs, Arc::new(Disk::make(self.pfs.path()).unwrap()) as Arc<dyn Device>, 0, Vec::new()),
        ];
        let config = Config {
            pool_bytes: Some(128 << 10),
            chunk_bytes: Some(16 << 10),
            io_threads: 1,
            memory_after: MemoryAfter::Kept,
            recovery: Recovery::Replace,
            ..Config::default()
        };
        Session::open_levels(group, plans, config).unwrap()
    }

    fn run(&self) {
        bounded("a job whose ranks fail while holders are chosen", || {
            thread::scope(|scope| {
                let (groups, spares) = ThreadGroup::with_spares(RANKS, VICTIMS.len() + 1);
                let live = |group: ThreadGroup, is_new| catch_unwind(|| self.live(Box::new(group), is_new));
                let ranks: Vec<_> = groups.into_iter().map(|group| scope.spawn(move || live(group, false))).collect();
                let spares: Vec<_> = spares
                    .into_iter()
                    .map(|spare| scope.spawn(move || spare.recv().map_or(Ok(()), |group| live(group, true))))
                    .collect();
                for (rank, ended) in ranks.into_iter().map(|rank| rank.join().unwrap()).enumerate() {
                    assert!(ended.is_ok() || VICTIMS.contains(&rank), "rank {rank}: {ended:?}");
                }
                assert!(spares.into_iter().all(|spare| spare.join().unwrap().is_ok()));
            });
        });
        assert_eq!(*self.waited.lock().unwrap(), 4);
    }

    fn live(&self, group: Box<dyn Group>, is_new: bool) {
        let (rank, node) = (group.rank(), [(); 2].map(|()| tempfile::tempdir_in("/dev/shm").unwrap()));
        let mut session = self.open(group, &node);
        let mut program = Program::new(rank);
        program.protect(&mut session).unwrap();
        // A rank that replaces a failed one does not fail.
        let mut fails = VICTIMS.iter().position(|victim| *victim == rank).filter(|_| !is_new);
        loop {
            match self.work(&mut session, &mut program, &mut fails) {
                Ok(goes_on) => {
                    // The rank that stopped holding copies does not end in order.
                    if goes_on || is_new {
                        session.close().unwrap();
                    }
                    return;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::GroupFailed, "rank {rank}: {error}"),
            }
            session.recover().unwrap();
        }
    }

    /// Goes on from the restored step: two steps, the choice of holders, and two more. Returns false if the rank is to
    /// fail.
    fn work(&self, session: &mut Session, program: &mut Program, fails: &mut Option<usize>) -> Result<bool, Error> {
        let waited = *self.waited.lock().unwrap();
        let mark = program.restore(session).map_err(|error| match error {
            Restoring::Refused(error) => error,
            Restoring::Wrong(why) => panic!("{why}"),
        })?;
        let done = mark.map_or(0, |mark| mark.step);
        assert!(done >= waited, "back at step {done}, and {waited} was complete");
        if done >= 2 {
            self.choose(session, fails)?;
        }
        for step in done + 1..=4 {
            program.fill(session, Mark { run: 1, step }, BYTES)?;
            session.checkpoint()?;
            session.wait()?;
            {
                let mut waited = self.waited.lock().unwrap();
                *waited = step.max(*waited);
            }
            if step == 2 {
                self.choose(session, fails)?;
            }
            if step == 3 && session.rank() == LEFT {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn choose(&self, session: &mut Session, fails: &mut Option<usize>) -> Result<(), Error> {
        if *fails == Some(0) {
            FAILS_AFTER.set(Some(self.after));
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        *fails = fails.and_then(|choices| choices.checked_sub(1));
        let handed = session.hold_copies(session.rank() != LEFT);
        if FAILS_AFTER.take().is_some() {
            self.failures.fetch_sub(1, Ordering::Relaxed);
        }
        let handed = handed?;
        assert_eq!(handed.stay, 0, "there are other nodes");
        self.left.fetch_add(handed.left, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_rank_that_fails_while_holders_are_chosen_is_recovered_from() {
    for kind in [LevelKind::Memory, LevelKind::Disk] {
        // In each job the victims fail later in their choices, and at last not at all.
        let mut after = 0;
        loop {
            let pfs = tempfile::tempdir_in("/dev/shm").unwrap();
            let (waited, failures, left) = (Mutex::new(0), AtomicU64::new(0), AtomicU64::new(0));
            let job = Job { pfs, kind, after, waited, failures, left };
            job.run();
            assert!(job.left.into_inner() > 0, "{kind:?}, {after}: no copy has another holder");
            if job.failures.into_inner() == 0 {
                break;
            }
            after = 2 * after + 1;
        }
        assert!(after > 3, "{kind:?}: nothing was done on a disk while holders were chosen");
    }
}

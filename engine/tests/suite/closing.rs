//! The end of a job that goes on when ranks fail: whichever rank fails at whichever moment of it, the others tell that the job
//! has ended once all have agreed on that.

use crate::support::{
    bounded,
    program::{Mark, Program},
};
use mainstay_engine::{
    Config, Error, LevelPlace, Recovery, Session,
    group::{Group, ThreadGroup},
    status::{Event, Journal, LevelStatus, Status},
};
use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::Duration,
};

const RANKS: usize = 3;
const LIVES: usize = 0;
/// So many jobs run side by side, as each waits for what is told but once a second.
const AT_ONCE: usize = 16;
const LOOK: Duration = Duration::from_millis(5);

/// The group of a rank that dies at the end of a collective: the others have come through it.
struct Dying {
    group: RefCell<Option<ThreadGroup>>,
    rank: usize,
    /// In so many collectives; `LIVES`: in none.
    left: Arc<AtomicUsize>,
    /// Comes to an end when nobody looks any more: what the rank does then as it unwinds, a dead one would not do.
    buried: Mutex<Receiver<()>>,
}

impl Dying {
    fn with<T>(&self, call: impl FnOnce(&ThreadGroup) -> Result<T, Error>) -> Result<T, Error> {
        let gone = || Error::GroupFailed { what: "this rank is dead".to_owned() };
        self.group.borrow().as_ref().map_or_else(|| Err(gone()), call)
    }

    fn collective<T>(&self, call: impl FnOnce(&ThreadGroup) -> Result<T, Error>) -> Result<T, Error> {
        let came = self.with(call);
        let count = |left: usize| (left != LIVES).then(|| left - 1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count) == Ok(1) {
            drop(self.group.borrow_mut().take());
            let _ = self.buried.lock().unwrap().recv();
            resume_unwind(Box::new("dies"));
        }
        came
    }
}

impl Group for Dying {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        RANKS
    }
    fn ranks_here(&self) -> usize {
        RANKS
    }
    fn all_max(&self, values: &mut [u64]) -> Result<(), Error> {
        self.collective(|group| group.all_max(values))
    }
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.collective(|group| group.all_gather(mine))
    }
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        self.collective(|group| group.broadcast(root, bytes))
    }
    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), Error> {
        self.with(|group| group.send(to, bytes))
    }
    fn receive(&self, from: usize, into: &mut [u8]) -> Result<(), Error> {
        self.with(|group| group.receive(from, into))
    }
    fn failed(&self) -> Result<Vec<usize>, Error> {
        self.with(|group| group.failed())
    }
}

/// A rank that saves a revision and closes: whether it came to that, and what it was told. It dies in collective `dies` of the
/// closing.
fn live(group: ThreadGroup, dies: usize, home: &Path, buried: Receiver<()>) -> Option<Result<(), Error>> {
    let (rank, left) = (group.rank(), Arc::new(AtomicUsize::new(LIVES)));
    let (group, buried) = (RefCell::new(Some(group)), Mutex::new(buried));
    let group = Box::new(Dying { group, rank, left: left.clone(), buried });
    let config = Config {
        memory: LevelPlace::At(home.join("memory")),
        memory_copies: 1,
        pool_directory: home.join("memory"),
        pfs_every: 1,
        recovery: Recovery::Shrink,
        ..Config::default()
    };
    let mut session = Session::open(group, &home.join("space"), config).unwrap();
    let mut program = Program::new(rank);
    program.protect(&mut session).unwrap();
    program.fill(&mut session, Mark { run: 1, step: 1 }, 20_000).unwrap();
    session.checkpoint().unwrap();
    session.wait().unwrap();
    // It tells what the first has found.
    session.wait().unwrap();
    if rank == 0 && dies != LIVES {
        until_saving_is_told(&home.join("space"));
    }
    left.store(dies, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(|| session.close())).ok()
}

/// Waits until all that rank 0 has to tell before it closes is in the files: its thread that writes them lives on here when the
/// rank dies, and would put what it still had in the place of what the others tell then.
fn until_saving_is_told(space: &Path) {
    let is_told = || {
        let (status, journal) = (Status::read(space).ok()??, Journal::read(space).ok()??);
        let is_there = |level: &LevelStatus| level.complete.len() == 1 && level.under_way.is_none();
        let noted = journal.entries.iter().filter(|entry| matches!(entry.event, Event::Complete(_))).count();
        let levels = &status.told.levels;
        Some(levels.iter().all(is_there) && noted == levels.len())
    };
    while is_told() != Some(true) {
        thread::sleep(LOOK);
    }
}

/// Whether rank `victim` has died.
fn closes(victim: usize, dies: usize) -> bool {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::create_dir(home.path().join("memory")).unwrap();
    let (bury, buried) = channel();
    let mut buried = Some(buried);
    bounded("a job that ends", || {
        thread::scope(|scope| {
            let home = home.path();
            let ranks: Vec<_> = ThreadGroup::new(RANKS)
                .into_iter()
                .map(|group| {
                    let of_others = || channel().1;
                    let (is_victim, other) = (group.rank() == victim, of_others());
                    let buried = if is_victim { buried.take().unwrap() } else { other };
                    scope.spawn(move || live(group, if is_victim { dies } else { LIVES }, home, buried))
                })
                .collect();
            let (mut dead, others): (Vec<_>, Vec<_>) =
                ranks.into_iter().enumerate().partition(|(rank, _)| *rank == victim);
            let others: Vec<_> = others.into_iter().map(|(_, rank)| rank.join().unwrap().unwrap()).collect();
            assert!(
                others.iter().all(Result::is_ok),
                "rank {victim} died in collective {dies}, and all is in the space: {others:?}"
            );
            let told = (
                Status::read(&home.join("space")).unwrap().unwrap(),
                Journal::read(&home.join("space")).unwrap().unwrap(),
            );
            drop(bury);
            let has_died = dead.remove(0).1.join().unwrap().is_none();
            let is_closed = matches!(told.1.entries.last().unwrap().event, Event::Closed);
            assert!(!has_died || told.0.told.ended && is_closed, "rank {victim} died in collective {dies}: {told:?}");
            has_died
        })
    })
}

/// Rank 0 alone told it, after all had agreed: where it failed in between, `mainstay status` called the job failed.
#[test]
fn that_a_job_has_ended_is_told_whichever_rank_fails_in_the_closing() {
    for victim in 0..RANKS {
        let moments = moments(victim);
        assert!((3..99).contains(&moments), "{moments} collectives");
    }
}

/// In how many collectives of the closing rank `victim` can die.
fn moments(victim: usize) -> usize {
    let all: Vec<usize> = (1..100).collect();
    let mut died = all.chunks(AT_ONCE).flat_map(|some| {
        thread::scope(|scope| {
            let jobs: Vec<_> = some.iter().map(|dies| scope.spawn(move || closes(victim, *dies))).collect();
            jobs.into_iter().map(|job| job.join().unwrap()).collect::<Vec<_>>()
        })
    });
    died.position(|has_died| !has_died).unwrap_or(all.len())
}

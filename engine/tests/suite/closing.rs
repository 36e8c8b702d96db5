//! The end of a job that goes on when ranks fail: whichever rank fails at whatever moment, the others record the end
//! once all have agreed on it.

use crate::support::{
    bounded, often,
    program::{Mark, Program},
    run,
};
use mainstay_engine::{
    Config, Error, LevelKind, LevelPlace, LevelPlan, Recovery, Session,
    device::{Device, Disk},
    group::{Group, Incoming, Message, Outgoing, Tested, ThreadGroup},
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
/// So many jobs run side by side, because each waits for files that are written only once a second.
const AT_ONCE: usize = 16;
const LOOK: Duration = Duration::from_millis(5);

/// The group of a rank that dies at the end of a collective: the other ranks have left the collective.
struct Dying {
    group: RefCell<Option<ThreadGroup>>,
    rank: usize,
    /// The rank dies in this collective, counted from now; `LIVES`: it does not die.
    left: Arc<AtomicUsize>,
    /// Ends when the test has looked. Until then the rank does not unwind, because a dead rank would not do so either.
    buried: Mutex<Receiver<()>>,
}

impl Dying {
    fn new(group: ThreadGroup, buried: Receiver<()>) -> Dying {
        let (rank, left) = (group.rank(), Arc::new(AtomicUsize::new(LIVES)));
        Dying { group: RefCell::new(Some(group)), rank, left, buried: Mutex::new(buried) }
    }

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
    fn start_send(&self, to: usize, bytes: Outgoing) -> Result<Message, Error> {
        self.with(|group| group.start_send(to, bytes))
    }
    fn start_receive(&self, from: usize, into: Incoming) -> Result<Message, Error> {
        self.with(|group| group.start_receive(from, into))
    }
    fn test(&self, message: Message) -> Result<Tested, Error> {
        self.with(|group| group.test(message))
    }
    fn failed(&self) -> Result<Vec<usize>, Error> {
        self.with(|group| group.failed())
    }
}

/// Runs `live` on all ranks. It gets the number of the collective of `close` in which its rank dies; only `victim`
/// dies. `look` gets the results of the other ranks before the dead one unwinds. Returns the result of `look`, and
/// whether the victim has died.
fn one_dies<T>(
    victim: usize,
    dies: usize,
    live: impl Fn(Dying, usize) -> Option<Result<(), Error>> + Sync,
    look: impl FnOnce(&[Result<(), Error>]) -> T,
) -> (T, bool) {
    let (bury, buried) = channel();
    let mut buried = Some(buried);
    bounded("a job that ends", || {
        thread::scope(|scope| {
            let start = |group: ThreadGroup| {
                let is_victim = group.rank() == victim;
                let of_others = || channel().1;
                let buried = if is_victim { buried.take().unwrap() } else { of_others() };
                let live = &live;
                scope.spawn(move || live(Dying::new(group, buried), if is_victim { dies } else { LIVES }))
            };
            let mut ranks: Vec<_> = ThreadGroup::new(RANKS).into_iter().map(start).collect();
            let dead = ranks.remove(victim);
            let others: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect();
            let seen = look(&others);
            drop(bury);
            (seen, dead.join().unwrap().is_none())
        })
    })
}

/// A rank saves a revision and closes. It dies in collective `dies` of `close`. Returns the result of `close`, or
/// `None` if the rank died.
fn live(group: Dying, dies: usize, home: &Path) -> Option<Result<(), Error>> {
    let (rank, left) = (group.rank, group.left.clone());
    let config = Config {
        memory: LevelPlace::At(home.join("memory")),
        memory_copies: 1,
        pool_directory: home.join("memory"),
        pfs_every: 1,
        recovery: Recovery::Shrink,
        ..Config::default()
    };
    let mut session = Session::open(Box::new(group), &home.join("space"), config).unwrap();
    let mut program = Program::new(rank);
    program.protect(&mut session).unwrap();
    program.fill(&mut session, Mark { run: 1, step: 1 }, 20_000).unwrap();
    session.checkpoint().unwrap();
    session.wait().unwrap();
    // The second wait reports the findings of the first.
    session.wait().unwrap();
    if rank == 0 && dies != LIVES {
        until_saving_is_told(&home.join("space"));
    }
    left.store(dies, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(|| session.close())).ok()
}

/// Waits until the files have all that rank 0 writes before it closes. Its writing thread lives on when the rank dies,
/// and would overwrite the records of the other ranks.
fn until_saving_is_told(space: &Path) {
    let is_told = || {
        let (status, journal) = (Status::read(space).ok()??, Journal::read(space).ok()??);
        let is_there = |level: &LevelStatus| level.complete.len() == 1 && level.under_way.is_none();
        let noted = journal.entries.iter().filter(|entry| matches!(entry.event, Event::Complete(_))).count();
        let levels = &status.progress.levels;
        Some(levels.iter().all(is_there) && noted == levels.len())
    };
    while is_told() != Some(true) {
        thread::sleep(LOOK);
    }
}

/// Returns whether rank `victim` has died.
fn closes(victim: usize, dies: usize) -> bool {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::create_dir(home.path().join("memory")).unwrap();
    let space = home.path().join("space");
    let live = |group, dies| live(group, dies, home.path());
    let ((status, journal), has_died) = one_dies(victim, dies, live, |others| {
        assert!(
            others.iter().all(Result::is_ok),
            "rank {victim} died in collective {dies}, and all is in the space: {others:?}"
        );
        (Status::read(&space).unwrap().unwrap(), Journal::read(&space).unwrap().unwrap())
    });
    let is_closed = matches!(journal.entries.last().unwrap().event, Event::Closed);
    assert!(
        !has_died || status.progress.ended && is_closed,
        "rank {victim} died in collective {dies}: {status:?}, {journal:?}"
    );
    has_died
}

/// Story: rank 0 alone recorded the end, after all ranks had agreed. If it failed in between, `mainstay status` called
/// the job failed.
#[test]
fn that_a_job_has_ended_is_told_whichever_rank_fails_in_the_closing() {
    for victim in 0..RANKS {
        let moments = moments(|dies| closes(victim, dies));
        assert!((3..99).contains(&moments), "{moments} collectives");
    }
}

/// The number of collectives in `close` in which a rank can die. `dies` tries one of them.
fn moments(dies: impl Fn(usize) -> bool + Sync) -> usize {
    let all: Vec<usize> = (1..100).collect();
    let mut died = all.chunks(AT_ONCE).flat_map(|some| {
        thread::scope(|scope| {
            let jobs: Vec<_> = some.iter().map(|at| scope.spawn(|| dies(*at))).collect();
            jobs.into_iter().map(|job| job.join().unwrap()).collect::<Vec<_>>()
        })
    });
    died.position(|has_died| !has_died).unwrap_or(all.len())
}

/// The levels of this rank, on a node of its own: memory, and a disk that takes every other revision, both with a copy
/// on another node; and a space that takes none.
fn levels_of(rank: usize, home: &Path) -> Vec<LevelPlan> {
    let device = |name: String| -> Arc<dyn Device> { Arc::new(Disk::make(&home.join(name)).unwrap()) };
    let plan = |kind, every, device, copies| LevelPlan { kind, every, keep: 1, device, copies, former: Vec::new() };
    let with_copy = |kind: LevelKind, every| {
        let [own, copy] = ["", "-copy"].map(|which| device(format!("node{rank}/{kind:?}{which}")));
        plan(kind, every, own, vec![copy])
    };
    let space = plan(LevelKind::Pfs, 0, device("space".to_owned()), Vec::new());
    vec![with_copy(LevelKind::Memory, 1), with_copy(LevelKind::Disk, 2), space]
}

fn open_with_copies(group: Box<dyn Group>, home: &Path) -> (Session, Program) {
    let rank = group.rank();
    let config = Config { recovery: Recovery::Replace, ..Config::default() };
    let mut session = Session::open_levels(group, levels_of(rank, home), config).unwrap();
    let mut program = Program::new(rank);
    program.protect(&mut session).unwrap();
    (session, program)
}

/// Returns whether rank `victim` has died. Its node is lost with it. If another rank has closed without an error, the
/// last step must come back.
fn closes_on_disks(victim: usize, dies: usize) -> bool {
    const STEPS: u64 = 3;
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let live = |group: Dying, dies| {
        let left = group.left.clone();
        let (mut session, mut program) = open_with_copies(Box::new(group), home.path());
        for step in 1..=STEPS {
            program.fill(&mut session, Mark { run: 1, step }, 20_000).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
        left.store(dies, Ordering::Relaxed);
        catch_unwind(AssertUnwindSafe(|| session.close())).ok()
    };
    // The dead rank gives its locks back only when it unwinds.
    let (has_ended, has_died) = one_dies(victim, dies, live, |others| {
        std::fs::remove_dir_all(home.path().join(format!("node{victim}"))).unwrap();
        others.iter().any(Result::is_ok)
    });
    // If the others get an error about the failed rank, they go on from memory.
    if has_ended {
        let newest = run(RANKS, |_, group| {
            let (mut session, mut program) = open_with_copies(group, home.path());
            program.restore(&mut session).unwrap().map(|mark| mark.step)
        });
        assert_eq!(newest, [Some(STEPS); RANKS], "rank {victim} died in collective {dies}");
    }
    has_died
}

/// Story: the disks had the revision, their copies did not have it yet, and a rank failed. The other ranks still
/// removed their memory, and the shard on the failed node's disk was lost.
#[test]
fn what_was_in_memory_outlives_a_rank_and_its_node_that_fail_in_the_closing() {
    for victim in 0..often(1, RANKS) {
        let moments = moments(|dies| closes_on_disks(victim, dies));
        assert!((3..99).contains(&moments), "{moments} collectives");
    }
}

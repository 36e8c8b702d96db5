//! The job goes on: failed ranks are replaced, or the job shrinks, and all ranks go back to the newest complete
//! revision.

use crate::support::{
    bounded,
    counting::counting,
    often,
    program::{Mark, Program, Restoring},
    ways::{capture_of, compress_of},
};
use mainstay_engine::{
    Allocated, Config, Error, ErrorKind, LevelKind, LevelPlan, MemoryAfter, Recovery, Region, Session,
    device::{Device, Disk, FileSystem},
    group::{Group, ThreadGroup},
    space::format::{ElementType, PlaceInWhole},
    tend::Request,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::Receiver,
    },
    thread,
};

const BYTES: usize = 20_000;

/// The memory of one node, with the memory for copies. It is lost with the rank that runs there.
type Node = Vec<tempfile::TempDir>;

/// Each rank is a node of its own, in front of a space that all ranks see.
struct Cluster {
    pfs: tempfile::TempDir,
    copies: usize,
    recovery: Recovery,
    pfs_every: u32,
    keep: u32,
}

/// The life of one rank: it fails in the middle of step `dies`.
#[derive(Debug, Clone, Copy)]
struct Life {
    dies: Option<(u64, Moment)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Computing,
    AfterCheckpoint,
    AfterWait,
    InBegun,
    InRecovery,
    AfterRestore,
}

const MOMENTS: [Moment; 6] = [
    Moment::Computing,
    Moment::AfterCheckpoint,
    Moment::AfterWait,
    Moment::InBegun,
    Moment::InRecovery,
    Moment::AfterRestore,
];

impl Cluster {
    fn new(copies: usize, recovery: Recovery) -> Cluster {
        let pfs = tempfile::tempdir_in("/dev/shm").unwrap();
        Cluster { pfs, copies, recovery, pfs_every: 0, keep: 1 }
    }

    fn node(&self) -> Node {
        (0..self.copies).map(|_| tempfile::tempdir_in("/dev/shm").unwrap()).collect()
    }

    fn open(&self, group: Box<dyn Group>, node: &Node) -> Result<Session, Error> {
        self.open_on(group, node, Arc::new(Disk::make(self.pfs.path()).unwrap()))
    }

    fn open_on(&self, group: Box<dyn Group>, node: &Node, pfs: Arc<dyn Device>) -> Result<Session, Error> {
        let device = |folder: &tempfile::TempDir| Arc::new(Disk::make(folder.path()).unwrap()) as Arc<dyn Device>;
        let former = Vec::new;
        let plan =
            |kind, device, every, copies| LevelPlan { kind, device, every, keep: self.keep, copies, former: former() };
        let plans = vec![
            plan(LevelKind::Memory, device(&node[0]), 1, node[1..].iter().map(device).collect()),
            plan(LevelKind::Pfs, pfs, self.pfs_every, Vec::new()),
        ];
        let config = Config {
            pool_bytes: Some(128 << 10),
            chunk_bytes: Some(16 << 10),
            io_threads: 1,
            memory_after: MemoryAfter::Kept,
            recovery: self.recovery,
            capture: capture_of(self.copies + self.pfs_every as usize + self.keep as usize),
            compress: compress_of(self.copies),
            ..Config::default()
        };
        Session::open_levels(group, plans, config)
    }
}

fn failed(error: &Error) -> bool {
    error.kind() == ErrorKind::GroupFailed
}

/// Runs ranks until all remaining ones have done `steps`. `newest` is the newest step that a wait confirmed.
struct Job<'a> {
    cluster: &'a Cluster,
    steps: u64,
    /// By rank; spares live on.
    lives: Vec<Life>,
    waited: Mutex<u64>,
    waits: bool,
}

impl Job<'_> {
    fn run(&self, spares: usize) {
        self.run_with(ThreadGroup::with_spares(self.lives.len(), spares));
    }

    fn run_with(&self, (groups, waiting): (Vec<ThreadGroup>, Vec<Receiver<ThreadGroup>>)) {
        bounded("a job that goes on", || {
            thread::scope(|scope| {
                let ranks: Vec<_> = groups
                    .into_iter()
                    .zip(&self.lives)
                    .map(|(group, life)| scope.spawn(|| self.live(Box::new(group), *life)))
                    .collect();
                let spares: Vec<_> = waiting
                    .into_iter()
                    .map(|waiting| {
                        scope.spawn(move || {
                            waiting.recv().is_ok_and(|group| self.live(Box::new(group), Life { dies: None }))
                        })
                    })
                    .collect();
                let ended: Vec<bool> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
                // A rank that is to fail in a recovery lives on if there is none.
                let has_to_end = |life: &Life| life.dies.is_none();
                assert!(ended.iter().zip(&self.lives).all(|(ended, life)| *ended || !has_to_end(life)), "{ended:?}");
                assert!(spares.into_iter().all(|spare| spare.join().is_ok()));
            });
        });
    }

    /// Returns whether the rank came to the end.
    fn live(&self, group: Box<dyn Group>, life: Life) -> bool {
        let (rank, node) = (group.rank(), self.cluster.node());
        let mut session = self.cluster.open(group, &node).unwrap();
        let mut program = Program::new(rank);
        program.protect(&mut session).unwrap();
        let mut again = false;
        loop {
            let lived = self.steps(&mut session, &mut program, life, again);
            match lived {
                Ok(ended) => {
                    if ended {
                        session.close().unwrap();
                    }
                    return ended;
                }
                Err(error) => assert!(failed(&error), "rank {rank}: {error}"),
            }
            again = true;
            let is_time = matches!(life.dies, Some((_, Moment::InRecovery)));
            if is_time {
                return false;
            }
            session.recover().unwrap();
        }
    }

    fn steps(&self, session: &mut Session, program: &mut Program, life: Life, again: bool) -> Result<bool, Error> {
        let waited = *self.waited.lock().unwrap();
        let mark = program.restore(session).map_err(|error| match error {
            Restoring::Refused(error) => error,
            Restoring::Wrong(why) => panic!("{why}"),
        })?;
        let done = mark.map_or(0, |mark| mark.step);
        assert!(done >= waited, "back at step {done}, and {waited} was complete");
        let dies = |step, moment| life.dies == Some((step, moment));
        if again && matches!(life.dies, Some((_, Moment::AfterRestore))) {
            return Ok(false);
        }
        for step in done + 1..=self.steps {
            program.fill(session, Mark { run: 1, step }, BYTES + 5000 * (step % 3) as usize)?;
            if dies(step, Moment::Computing) {
                return Ok(false);
            }
            if step % 2 == 1 {
                session.begin(1000)?;
                if dies(step, Moment::InBegun) {
                    return Ok(false);
                }
            }
            session.checkpoint()?;
            if dies(step, Moment::AfterCheckpoint) {
                return Ok(false);
            }
            if self.waits {
                session.wait()?;
                let mut waited = self.waited.lock().unwrap();
                *waited = step.max(*waited);
            }
            if dies(step, Moment::AfterWait) {
                return Ok(false);
            }
        }
        session.wait()?;
        Ok(true)
    }
}

fn job<'a>(cluster: &'a Cluster, ranks: usize, dies: &[(usize, u64, Moment)]) -> Job<'a> {
    let life = |rank| Life {
        dies: dies.iter().find(|(victim, ..)| *victim == rank).map(|(_, step, moment)| (*step, *moment)),
    };
    Job { cluster, steps: 8, lives: (0..ranks).map(life).collect(), waited: Mutex::new(0), waits: true }
}

#[test]
fn a_rank_that_fails_is_replaced_by_a_spare_and_all_go_back_to_what_was_complete() {
    let cluster = || Cluster::new(2, Recovery::Replace);
    for moment in [Moment::Computing, Moment::AfterCheckpoint, Moment::AfterWait, Moment::InBegun] {
        for victim in [0, 2] {
            job(&cluster(), 3, &[(victim, 5, moment)]).run(1);
        }
    }
}

#[test]
fn a_failure_in_the_recovery_begins_it_again() {
    for moment in [Moment::InRecovery, Moment::AfterRestore] {
        let cluster = Cluster { pfs_every: 1, ..Cluster::new(3, Recovery::Replace) };
        job(&cluster, 5, &[(1, 4, Moment::AfterWait), (3, 0, moment)]).run(2);
    }
}

/// One rank noticed a failure after it had reported its next step, another before that. The checkpoint after the
/// restore was refused, because the ranks were at steps 1 to 2.
#[test]
fn ranks_that_were_at_different_steps_save_together_once_they_are_back() {
    let cluster = Cluster::new(2, Recovery::Replace);
    let begins = |group: ThreadGroup| {
        let (rank, node) = (group.rank(), cluster.node());
        let mut session = cluster.open(Box::new(group), &node).unwrap();
        let mut program = Program::new(rank);
        program.protect(&mut session).unwrap();
        (session, program, node)
    };
    let goes_on = |session: &mut Session, program: &mut Program| {
        let back = program.restore(session).unwrap_or_else(|_| panic!("no restore"));
        assert_eq!(back.map(|mark| mark.step), Some(1));
        session.checkpoint().unwrap();
        session.wait().unwrap();
    };
    let work = |group: ThreadGroup| {
        let (mut session, mut program, _node) = begins(group);
        let rank = session.rank() as u64;
        session.due(1).unwrap();
        program.fill(&mut session, Mark { run: 1, step: 1 }, BYTES).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        if rank == 2 {
            return;
        }
        if rank == 1 {
            assert!(session.due(2).is_ok_and(|due| !due) || session.check().is_err());
        }
        session.recover().unwrap();
        goes_on(&mut session, &mut program);
    };
    bounded("a job that goes on", || {
        thread::scope(|scope| {
            let (groups, mut spares) = ThreadGroup::with_spares(3, 1);
            let spare = spares.remove(0);
            let ranks: Vec<_> = groups.into_iter().map(|group| scope.spawn(|| work(group))).collect();
            let spare = scope.spawn(move || {
                let (mut session, mut program, _node) = begins(spare.recv().unwrap());
                goes_on(&mut session, &mut program);
            });
            ranks.into_iter().for_each(|rank| rank.join().unwrap());
            spare.join().unwrap();
        });
    });
}

/// A recovery unmapped memory from `allocate` while its regions stayed protected.
#[test]
fn memory_from_mainstay_stays_in_a_recovery() {
    let cluster = Cluster::new(2, Recovery::Replace);
    let begins = |group: ThreadGroup| {
        let node = cluster.node();
        let mut session = cluster.open(Box::new(group), &node).unwrap();
        session.allocate("own", 1 << 16, Allocated::default()).unwrap();
        (session, node)
    };
    let goes_on = |mut session: Session| {
        session.restore().unwrap();
        session.free("own").unwrap();
        session.close().unwrap();
    };
    let work = |group: ThreadGroup| {
        let (mut session, _node) = begins(group);
        session.restore().unwrap();
        if session.rank() != 2 {
            session.recover().unwrap();
            goes_on(session);
        }
    };
    bounded("a job that goes on", || {
        thread::scope(|scope| {
            let (groups, mut spares) = ThreadGroup::with_spares(3, 1);
            let spare = spares.remove(0);
            let ranks: Vec<_> = groups.into_iter().map(|group| scope.spawn(|| work(group))).collect();
            let spare = scope.spawn(move || {
                let (session, _node) = begins(spare.recv().unwrap());
                goes_on(session);
            });
            ranks.into_iter().for_each(|rank| rank.join().unwrap());
            spare.join().unwrap();
        });
    });
}

/// A rank fails between the safe point at which it saw the request and the checkpoint. A checkpoint before the next
/// safe point does not answer the request. `mainstay evacuate` once got a revision from a time before anything had left
/// the node. The rank that saw the request may be the one that fails. Its replacement may save nothing before that safe
/// point.
#[test]
fn who_asked_before_a_failure_is_answered_at_the_next_safe_point_after_it() {
    for (fails, saves_before) in [(1, true), (1, false), (0, true), (0, false)] {
        answered_after_a_failure(fails, saves_before);
    }
}

fn answered_after_a_failure(fails: usize, saves_before: bool) {
    let cluster = Cluster::new(2, Recovery::Replace);
    let saves = |session: &mut Session| {
        session.checkpoint().unwrap();
        session.wait().unwrap();
    };
    let is_due = |session: &mut Session| (2..).any(|step| session.due(step).unwrap());
    let live = |group: ThreadGroup, is_new: bool| {
        let (rank, node) = (group.rank(), cluster.node());
        let mut session = cluster.open(Box::new(group), &node).unwrap();
        let mut program = Program::new(rank);
        program.protect(&mut session).unwrap();
        let mut asked = None;
        if !is_new {
            program.fill(&mut session, Mark { run: 1, step: 1 }, BYTES).unwrap();
            saves(&mut session);
            asked = (rank == 1 - fails).then(|| Request::send(cluster.pfs.path()).unwrap());
            assert!(is_due(&mut session));
            if rank == fails {
                return;
            }
            session.recover().unwrap();
        }
        assert_eq!(program.restore(&mut session).unwrap(), Some(Mark { run: 1, step: 1 }));
        if saves_before {
            saves(&mut session);
        }
        assert_eq!(asked.as_ref().and_then(Request::answer), None);
        assert!(is_due(&mut session));
        saves(&mut session);
        assert!(asked.is_none_or(|asked| asked.answer().is_some()));
        session.close().unwrap();
    };
    with_a_spare(live);
}

/// A job of three ranks and a spare. `live` also gets whether its rank began as the spare.
fn with_a_spare(live: impl Fn(ThreadGroup, bool) + Sync) {
    bounded("a job that goes on", || {
        thread::scope(|scope| {
            let (groups, spares) = ThreadGroup::with_spares(3, 1);
            groups.into_iter().for_each(|group| drop(scope.spawn(|| live(group, false))));
            for spare in spares {
                let live = &live;
                scope.spawn(move || live(spare.recv().unwrap(), true));
            }
        });
    });
}

/// If a layer on the session has found a damaged revision, the replacement of a lost rank gets that report too. The
/// replacement went to another revision than the others.
#[test]
fn what_was_passed_over_before_a_failure_is_passed_over_after_it() {
    for copies in [1, 2] {
        let cluster = Cluster { pfs_every: 1, keep: 2, ..Cluster::new(copies, Recovery::Replace) };
        let live = |group: ThreadGroup, is_new: bool| {
            let (rank, node) = (group.rank(), cluster.node());
            let mut session = cluster.open(Box::new(group), &node).unwrap();
            let mut program = Program::new(rank);
            program.protect(&mut session).unwrap();
            let back = |program: &mut Program, session: &mut Session| {
                program.restore_and_tell(session).map_err(|_| "a mixture").unwrap().map(|(mark, _)| mark.step)
            };
            if !is_new {
                for step in [1, 2] {
                    program.fill(&mut session, Mark { run: 1, step }, BYTES).unwrap();
                    session.checkpoint().unwrap();
                    session.wait().unwrap();
                }
                // On the memory level, and on the storage.
                for _ in 0..2 {
                    assert_eq!(back(&mut program, &mut session), Some(2));
                    session.pass_over(vec!["an object is damaged".to_owned()]).unwrap();
                }
                assert_eq!(back(&mut program, &mut session), Some(1));
                if rank == 1 {
                    return;
                }
                while session.wait().is_ok() {}
                session.recover().unwrap();
            }
            assert_eq!(back(&mut program, &mut session), Some(1));
            session.close().unwrap();
        };
        with_a_spare(live);
    }
}

/// Without a saved revision, all ranks begin anew.
#[test]
fn a_failure_before_the_first_checkpoint_begins_anew() {
    job(&Cluster::new(2, Recovery::Replace), 3, &[(1, 1, Moment::Computing)]).run(1);
}

/// From the failure until the state is back, and until the next checkpoint, no rank accesses the storage.
#[test]
fn a_job_that_goes_on_from_memory_has_no_storage_in_its_way() {
    let cluster = Cluster { pfs_every: 1, ..Cluster::new(2, Recovery::Replace) };
    let pfs = counting(Disk::make(cluster.pfs.path()).unwrap(), FileSystem::Other, 0);
    let (before, restored, saved) = (Barrier::new(2), Barrier::new(3), Barrier::new(3));
    let counted = AtomicUsize::new(0);
    let live = |group: ThreadGroup, is_new: bool| {
        let (rank, node) = (group.rank(), cluster.node());
        let mut session = cluster.open_on(Box::new(group), &node, Arc::new(pfs.clone())).unwrap();
        let mut program = Program::new(rank);
        program.protect(&mut session).unwrap();
        if !is_new {
            program.fill(&mut session, Mark { run: 1, step: 1 }, BYTES).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
            if rank == 1 {
                return;
            }
            while session.wait().is_ok() {}
            // No write of this rank to the storage is under way.
            if before.wait().is_leader() {
                pfs.between.take();
            }
            before.wait();
            session.recover().unwrap();
        }
        assert_eq!(program.restore(&mut session).unwrap(), Some(Mark { run: 1, step: 1 }));
        session.progress().unwrap();
        if restored.wait().is_leader() {
            assert_eq!(pfs.between.take(), BTreeMap::new());
        }
        saved.wait();
        program.fill(&mut session, Mark { run: 2, step: 2 }, BYTES).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        counted.fetch_add(pfs.between.take().len(), Ordering::Relaxed);
        session.close().unwrap();
    };
    with_a_spare(live);
    // The next checkpoint accessed it.
    assert!(counted.into_inner() > 0);
}

/// A buddy pair failed: only the farther level still has the revision.
#[test]
fn where_memory_has_lost_all_copies_the_next_level_is_gone_back_to() {
    let cluster = Cluster { pfs_every: 1, ..Cluster::new(2, Recovery::Replace) };
    job(&cluster, 4, &[(0, 5, Moment::AfterWait), (1, 5, Moment::AfterWait), (2, 5, Moment::AfterWait)]).run(3);
}

/// Each rank has a state of its own: with fewer ranks there was no revision to go back to.
#[test]
fn a_state_without_boxes_is_gone_on_with_by_as_many_ranks() {
    for moment in [Moment::Computing, Moment::AfterWait] {
        let cluster = Cluster::new(2, Recovery::Shrink);
        job(&cluster, 3, &[(1, 5, moment)]).run_with(ThreadGroup::with_starters(3, 1));
    }
    let cluster = Cluster::new(3, Recovery::Shrink);
    let dies = [(1, 4, Moment::AfterWait), (3, 0, Moment::InRecovery), (2, 0, Moment::AfterRestore)];
    job(&cluster, 5, &dies).run_with(ThreadGroup::with_starters(5, 3));
}

/// All ranks know that everything is saved. If one fails during close, nothing is lost, unless no rank goes on.
#[test]
fn a_rank_that_fails_in_the_closing_takes_nothing_along() {
    for (recovery, is_lost) in [(Recovery::Replace, false), (Recovery::Shrink, false), (Recovery::Off, true)] {
        let cluster = Cluster::new(2, recovery);
        let close = |group: ThreadGroup| {
            let (rank, node) = (group.rank(), cluster.node());
            let mut session = cluster.open(Box::new(group), &node).unwrap();
            let mut program = Program::new(rank);
            program.protect(&mut session).unwrap();
            program.fill(&mut session, Mark { run: 1, step: 1 }, BYTES).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
            (rank != 1).then(|| session.close().map_err(|error| error.kind()))
        };
        bounded("a job that ends", || {
            thread::scope(|scope| {
                let ranks: Vec<_> = ThreadGroup::new(3).into_iter().map(|group| scope.spawn(|| close(group))).collect();
                let closed: Vec<_> = ranks.into_iter().filter_map(|rank| rank.join().unwrap()).collect();
                let expected = if is_lost { Err(ErrorKind::GroupFailed) } else { Ok(()) };
                assert_eq!(closed, [expected; 2], "{recovery:?}");
            });
        });
    }
}

const CELLS: usize = 6000;

/// This rank's part of a common field. Each number names its place and its step.
struct Field {
    cells: Vec<u64>,
    first: usize,
}

impl Field {
    /// Protects the part of this rank among the current ranks.
    #[allow(unsafe_code)]
    fn protect(session: &mut Session) -> Result<Field, Error> {
        let [first, end] = [0, 1].map(|next| (session.rank() + next) * CELLS / session.size());
        let mut field = Field { cells: vec![0; end - first], first };
        session.unprotect_all()?;
        let place = PlaceInWhole { global_shape: vec![CELLS as u64], offset: vec![first as u64] };
        let (address, shape) = (field.cells.as_mut_ptr().cast(), [(end - first) as u64]);
        // SAFETY: the cells are on the heap, and stay there as long as they are protected.
        let region = unsafe { Region::placed("field", address, ElementType::U64, &shape, place) };
        session.protect(region?)?;
        Ok(field)
    }

    fn fill(&mut self, step: u64) {
        let first = self.first;
        self.cells.iter_mut().enumerate().for_each(|(at, cell)| *cell = step << 32 | (first + at) as u64);
    }

    fn step(&self) -> u64 {
        let step = self.cells[0] >> 32;
        assert!(self.cells.iter().enumerate().all(|(at, cell)| *cell == step << 32 | (self.first + at) as u64));
        step
    }
}

/// Four ranks become three and then two, each with more of the field.
#[test]
fn fewer_ranks_go_on_with_the_field_divided_anew() {
    const STEPS: u64 = 9;
    let cluster = Cluster { pfs_every: 1, ..Cluster::new(2, Recovery::Shrink) };
    let dies = |rank| [(3, 4), (0, 7)].into_iter().find(|(victim, _)| *victim == rank).map(|(_, step)| step);
    let work = |group: ThreadGroup| {
        let (name, node) = (group.rank(), cluster.node());
        let mut session = cluster.open(Box::new(group), &node).unwrap();
        let mut lives = || -> Result<Option<usize>, Error> {
            loop {
                let mut run = || {
                    let mut field = Field::protect(&mut session)?;
                    let done = session.restore()?.map_or(0, |_| field.step());
                    for step in done + 1..=STEPS {
                        field.fill(step);
                        session.checkpoint()?;
                        if dies(name) == Some(step) {
                            return Ok(false);
                        }
                        session.wait()?;
                    }
                    Ok(true)
                };
                match run() {
                    Err(error) if failed(&error) => drop(session.recover()?),
                    Ok(true) => return Ok(Some(session.size())),
                    Ok(false) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
        };
        lives().unwrap()
    };
    bounded("a job that goes on with fewer ranks", || {
        thread::scope(|scope| {
            let (groups, starters) = ThreadGroup::with_starters(4, 1);
            let ranks: Vec<_> = groups.into_iter().map(|group| scope.spawn(|| work(group))).collect();
            let ended: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
            assert_eq!(ended, [None, Some(2), Some(2), None]);
            assert!(starters[0].recv().is_err(), "a rank was started for a state that fewer can have");
        });
    });
}

/// The setting and the abilities of the group decide. The session stays as it was.
#[test]
fn a_job_that_is_not_made_ready_refuses_to_recover() {
    let cluster = Cluster::new(1, Recovery::Off);
    let node = cluster.node();
    let group = ThreadGroup::new(1).remove(0);
    let mut session = cluster.open(Box::new(group), &node).unwrap();
    let error = session.recover().unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("recovery"), "{error}");
    session.put("words", b"as before").unwrap();
    session.close().unwrap();
}

/// Random lives of random jobs: a revision that a wait confirmed is never lost, and all ranks come to the end.
fn random_job(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (ranks, copies) = (random.usize(3..=5), random.usize(2..=3));
    let deaths = random.usize(1..=3);
    let mut victims: Vec<usize> = (0..ranks).collect();
    random.shuffle(&mut victims);
    let dies: Vec<(usize, u64, Moment)> =
        victims[..deaths].iter().map(|rank| (*rank, random.u64(1..=8), MOMENTS[random.usize(0..6)])).collect();
    let cluster = Cluster { pfs_every: 1, keep: random.u32(1..=2), ..Cluster::new(copies, Recovery::Replace) };
    let job = Job { waits: random.bool(), ..job(&cluster, ranks, &dies) };
    eprintln!("seed {seed}: {ranks} ranks, {copies} copies, {dies:?}");
    job.run(deaths);
}

#[test]
fn random_jobs_go_on() {
    (0..often(4, 12)).for_each(random_job);
}

#[test]
#[ignore = "a campaign"]
fn many_random_jobs_go_on() {
    (0..1000).for_each(random_job);
}

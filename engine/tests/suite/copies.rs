//! Copies on other nodes: each shard is also with a holder on another node, so a job that loses a node comes back from
//! memory.

use crate::support::{
    between::{Between, Watched},
    bounded,
    faulty::{Faulty, Medium},
    gate::Gate,
    often,
    program::{Mark, Program},
    recording::{Checked, Trouble},
    run,
    spread::Spread,
    ways::{capture_of, compress_of},
};
use mainstay_engine::{
    Capture, Config, ErrorKind, Exchange, LevelKind, LevelPlan, MemoryAfter, Region, Session, SpaceSurvey, Start,
    device::{Device, Disk, File},
    group::{Group, ThreadGroup},
};
use std::{
    cell::Cell,
    io,
    path::Path,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const BYTES: usize = 30_000;

/// The place of one level, or of a copy, on one node.
#[derive(Clone)]
enum Place {
    Simulated(Medium),
    /// A directory in memory. Its files can be mapped.
    Memory(Arc<tempfile::TempDir>),
}

impl Place {
    fn new(real: bool) -> Place {
        match real {
            true => Place::Memory(Arc::new(tempfile::tempdir_in("/dev/shm").unwrap())),
            false => Place::Simulated(Medium::new(true)),
        }
    }

    fn device(&self) -> Arc<dyn Device> {
        match self {
            Place::Simulated(medium) => Arc::new(Faulty(medium.view())),
            Place::Memory(folder) => Arc::new(Disk::make(folder.path()).unwrap()),
        }
    }

    /// The place after all processes have ended.
    fn end_processes(&self) -> Place {
        match self {
            Place::Simulated(medium) => Place::Simulated(medium.end_processes()),
            Place::Memory(folder) => Place::Memory(folder.clone()),
        }
    }
}

/// Nodes with a place in memory and one for each copy, and a space that all nodes see.
struct Cluster {
    nodes: Vec<Vec<Place>>,
    pfs: Place,
    /// The node of each rank.
    seats: Vec<usize>,
    pfs_every: u32,
    keep: u32,
    exchange: Exchange,
    kind: LevelKind,
    real: bool,
    capture: Capture,
    /// Only earlier jobs made so many of the copies, the last ones.
    former: usize,
}

impl Cluster {
    fn new(seats: &[usize], copies: usize, real: bool) -> Cluster {
        let nodes = seats.iter().max().unwrap() + 1;
        let nodes: Vec<_> = (0..nodes).map(|_| (0..copies).map(|_| Place::new(real)).collect()).collect();
        let capture = capture_of(seats.len() + nodes.len());
        let (pfs, seats) = (Place::new(real), seats.to_vec());
        Cluster {
            nodes,
            pfs,
            seats,
            pfs_every: 0,
            keep: 1,
            exchange: Exchange::Background,
            kind: LevelKind::Memory,
            real,
            capture,
            former: 0,
        }
    }

    fn job(&self, work: impl Fn(usize, Program, Session) -> Result<(), Trouble> + Sync) -> Checked<()> {
        self.sessions(|rank, mut session| {
            let mut program = Program::new(rank);
            program.protect(&mut session)?;
            work(rank, program, session)
        })
    }

    fn sessions(&self, work: impl Fn(usize, Session) -> Result<(), Trouble> + Sync) -> Checked<()> {
        let run = |group: Box<dyn Group>| -> Result<(), Trouble> {
            let rank = group.rank();
            let devices: Vec<Arc<dyn Device>> = self.nodes[self.seats[rank]].iter().map(Place::device).collect();
            let plan = |kind, device, every, copies, former| LevelPlan {
                kind,
                device,
                every,
                keep: self.keep,
                copies,
                former,
            };
            let (copies, former) = devices[1..].split_at(devices.len() - 1 - self.former);
            let plans = vec![
                plan(self.kind, devices[0].clone(), 1, copies.to_vec(), former.to_vec()),
                plan(LevelKind::Pfs, self.pfs.device(), self.pfs_every, Vec::new(), Vec::new()),
            ];
            let config = Config {
                pool_bytes: Some(128 << 10),
                chunk_bytes: Some(16 << 10),
                io_threads: 1,
                start: Start::Fresh,
                memory_after: MemoryAfter::Kept,
                exchange: self.exchange,
                capture: self.capture,
                compress: compress_of(self.seats.len()),
                ..Config::default()
            };
            work(rank, Session::open_levels(group, plans, config)?)
        };
        let ended: Vec<Result<(), Trouble>> = bounded("a job with copies", || {
            thread::scope(|scope| {
                let run = &run;
                let groups = ThreadGroup::new(self.seats.len()).into_iter();
                let ranks: Vec<_> = groups.map(|group| scope.spawn(move || run(Box::new(group)))).collect();
                ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
            })
        });
        ended.into_iter().collect::<Result<(), Trouble>>().map_err(Trouble::why)
    }

    /// Names of the layouts on the level itself (0) or on one of its copies.
    fn layouts(&self, copy: usize) -> Vec<String> {
        let names = |node: &Vec<Place>| {
            let Place::Memory(folder) = &node[copy] else { unreachable!("real directories") };
            let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            names
                .filter_map(|name| name.into_string().ok())
                .filter(|name| name.starts_with("layout-"))
                .collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(names).collect()
    }

    /// Saves `steps` checkpoints from `first` on and waits for each.
    fn save(&self, first: u64, steps: u64) -> Checked<()> {
        self.job(|_, mut program, mut session| {
            for step in first..first + steps {
                program.fill(&mut session, Mark { run: 1, step }, BYTES + 5000 * (step % 3) as usize)?;
                session.checkpoint()?;
                session.wait()?;
            }
            Ok(())
        })
    }

    /// The restored step, equal on all ranks.
    fn restored(&self) -> Checked<Option<u64>> {
        let found = Mutex::new(Vec::new());
        self.job(|_, mut program, mut session| {
            let mark = program.restore(&mut session)?;
            found.lock().unwrap().push(mark.map(|mark| mark.step));
            Ok(())
        })?;
        let found = found.into_inner().unwrap();
        assert!(found.iter().all(|other| *other == found[0]), "the ranks restored {found:?}");
        Ok(found[0])
    }

    /// The cluster after its job has ended, without the data on the nodes `lost`. Its ranks run on `seats` now.
    fn after(&self, lost: &[usize], seats: &[usize]) -> Cluster {
        let node = |(node, places): (usize, &Vec<Place>)| match lost.contains(&node) {
            true => places.iter().map(|_| Place::new(self.real)).collect(),
            false => places.iter().map(Place::end_processes).collect(),
        };
        let nodes = self.nodes.iter().enumerate().map(node).collect();
        let (pfs, seats) = (self.pfs.end_processes(), seats.to_vec());
        Cluster { nodes, pfs, seats, ..*self }
    }
}

const PAIRS: [usize; 4] = [0, 0, 1, 1];

#[test]
fn a_job_that_lost_a_node_comes_back_from_the_copies() {
    for (real, exchange) in [(false, Exchange::Background), (true, Exchange::Background), (true, Exchange::Blocking)] {
        for lost in [0, 1] {
            // The ranks run on a new node in place of the lost one, or on the remaining node.
            for seats in [&PAIRS, &[1 - lost; 4]] {
                let cluster = Cluster { exchange, ..Cluster::new(&PAIRS, 2, real) };
                cluster.save(1, 4).unwrap();
                let mut again = cluster.after(&[lost], seats);
                assert_eq!(
                    again.restored().unwrap(),
                    Some(4),
                    "without node {lost}, {real} {exchange:?}, on {seats:?}"
                );
                again = again.after(&[], seats);
                again.save(5, 2).unwrap();
                assert_eq!(again.after(&[], seats).restored().unwrap(), Some(6));
            }
        }
    }
}

#[allow(unsafe_code)]
fn region(state: &mut [u8]) -> Region {
    // SAFETY: the state lives longer than the session that it is given to, which alone uses it meanwhile.
    unsafe { Region::new("state", state.as_mut_ptr(), state.len() as u64) }.unwrap()
}

/// Returns whether a second revision has its copies after so many calls of `progress` on each rank, with a pause before
/// each. The revision differs from the first in many pieces.
fn is_copied_after(calls: usize, pause: Duration) -> bool {
    const BLOCK: usize = 4096;
    // A stretch of this length becomes a message of its own if an unchanged block separates it from the next.
    const STRETCH: usize = 256 << 10;
    const PIECES: usize = 24;
    let cluster = Cluster { capture: Capture::Incremental, ..Cluster::new(&[0, 1], 2, true) };
    let end = Barrier::new(2);
    let saved = cluster.sessions(|rank, mut session| {
        let mut state: Vec<u8> = (0..PIECES * (STRETCH + BLOCK)).map(|at| (at / BLOCK + 7 * rank) as u8).collect();
        session.protect(region(&mut state))?;
        session.checkpoint()?;
        session.wait()?;
        for piece in state.chunks_mut(STRETCH + BLOCK) {
            piece[..STRETCH].chunks_mut(BLOCK).for_each(|block| block[0] ^= 255);
        }
        session.checkpoint()?;
        for _ in 0..calls {
            thread::sleep(pause);
            session.progress()?;
        }
        // A thread publishes the last piece, not a call.
        thread::sleep(pause);
        end.wait();
        drop(session);
        Ok(())
    });
    saved.unwrap();
    let revision = Mutex::new(0);
    let restored = cluster.after(&[1], &[0, 0]).sessions(|rank, mut session| {
        let mut state = vec![0; PIECES * (STRETCH + BLOCK)];
        session.protect(region(&mut state))?;
        let found = session.restore()?.map_or(0, |restored| restored.revision);
        *revision.lock().unwrap() = found;
        let differs = |(at, byte): (usize, &u8)| *byte != (at / BLOCK + 7 * rank) as u8;
        let changed = state.iter().enumerate().step_by(BLOCK).filter(|one| differs(*one)).count();
        assert_eq!(changed, if found == 2 { PIECES * STRETCH / BLOCK } else { 0 }, "revision {found}, rank {rank}");
        drop(session);
        Ok(())
    });
    restored.unwrap();
    revision.into_inner().unwrap() == 2
}

/// The holder posts the receives for the whole shard at once, so the number of calls does not grow with the pieces. On
/// a busy machine the pauses may be too short for the threads that hash and publish.
#[test]
fn twenty_calls_of_progress_bring_a_shard_of_more_pieces() {
    let pauses = [5, 50, 500].map(Duration::from_millis);
    assert!(pauses.into_iter().any(|pause| is_copied_after(20, pause)));
}

thread_local! {
    /// This thread is in calls that move copies on.
    static IS_IN_PROGRESS: Cell<bool> = const { Cell::new(false) };
}

/// Counts the reads within such calls.
#[derive(Debug, Default)]
struct ReadInProgress(AtomicUsize);

impl Between for ReadInProgress {
    fn read_at(&self, file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.fetch_add(usize::from(IS_IN_PROGRESS.get()), Ordering::Relaxed);
        file.read_at(buffer, offset)
    }
}

/// Story: if the disk was the nearest level, each call read the whole shard back from it, and the program waited.
#[test]
fn progress_waits_for_no_disk() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let device = |name: String| -> Watched<ReadInProgress> {
        Watched::new(Disk::make(&folder.path().join(name)).unwrap(), ReadInProgress::default())
    };
    let have_come = AtomicUsize::new(0);
    bounded("a job with copies on disks", || {
        run(2, |rank, group| {
            let [own, copy] = ["own", "copy"].map(|name| device(format!("{name}{rank}")));
            let plan =
                |kind, device, every, copies| LevelPlan { kind, device, every, keep: 1, copies, former: Vec::new() };
            let plans = vec![
                plan(LevelKind::Disk, Arc::new(own.clone()), 1, vec![Arc::new(copy.clone()) as Arc<dyn Device>]),
                plan(LevelKind::Pfs, Arc::new(device("space".to_owned())), 0, Vec::new()),
            ];
            let config = Config { start: Start::Fresh, ..Config::default() };
            let mut session = Session::open_levels(group, plans, config).unwrap();
            let mut program = Program::new(rank);
            program.protect(&mut session).unwrap();
            program.fill(&mut session, Mark { run: 1, step: 1 }, 30 * BYTES).unwrap();
            session.checkpoint().unwrap();
            IS_IN_PROGRESS.set(true);
            while !session.poll().unwrap() {
                thread::yield_now();
            }
            let is_there = || SpaceSurvey::open(copy.directory()).is_ok_and(|survey| survey.revisions.len() == 1);
            // Waits for the other rank's shard, on both ranks. Only these calls can bring it.
            let mut has_come = false;
            while have_come.load(Ordering::Relaxed) < 2 {
                session.progress().unwrap();
                if !has_come && is_there() {
                    has_come = true;
                    have_come.fetch_add(1, Ordering::Relaxed);
                }
                thread::yield_now();
            }
            IS_IN_PROGRESS.set(false);
            let read = [&own, &copy].map(|device| device.between.0.load(Ordering::Relaxed));
            session.wait().unwrap();
            assert_eq!(read, [0, 0]);
        })
    });
}

/// The holder writes a copy. It has the lock of the portion, so nobody else writes there meanwhile.
#[test]
fn a_copy_has_one_writer() {
    let cluster = Cluster::new(&PAIRS, 2, true);
    let end = Barrier::new(PAIRS.len());
    let saved = cluster.job(|rank, mut program, mut session| {
        for step in 1..=2 {
            program.fill(&mut session, Mark { run: 1, step }, BYTES)?;
            session.checkpoint()?;
            session.wait()?;
            if (rank, step) == (0, 1) {
                // A job with its own levels and space gets the same copies.
                let mut other = Cluster::new(&PAIRS, 2, true);
                for (its, ours) in other.nodes.iter_mut().zip(&cluster.nodes) {
                    its[1] = ours[1].clone();
                }
                let refused = other.save(1, 1).unwrap_err();
                assert!(refused.contains("in use"), "{refused}");
            }
            end.wait();
        }
        Ok(())
    });
    saved.unwrap();
    assert_eq!(cluster.after(&[0], &PAIRS).restored().unwrap(), Some(2));
}

/// Saves a checkpoint after each step, and waits for it if `waits` says so.
fn steps(cluster: &Cluster, first: u64, waits: &[bool]) -> Checked<()> {
    // All ranks end at once. That cuts off work under way, and no rank waits for one that has gone.
    let end = Barrier::new(cluster.seats.len());
    cluster.job(|_, mut program, mut session| {
        program.restore(&mut session)?;
        session.wait()?;
        for (step, wait) in (first..).zip(waits) {
            program.fill(&mut session, Mark { run: 1, step }, BYTES + 5000 * (step % 3) as usize)?;
            session.checkpoint()?;
            session.progress()?;
            if *wait {
                session.wait()?;
            }
        }
        end.wait();
        Ok(())
    })
}

/// Runs random jobs on random nodes. Each loses at most as many nodes as its copies can bear. The next job restores the
/// last revision that was waited for, or a newer one.
fn random_job(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (nodes, copies) = (random.usize(2..=4), random.usize(2..=3));
    let ranks = random.usize(2..=5);
    let kind = if random.u8(0..4) == 0 { LevelKind::Disk } else { LevelKind::Memory };
    let mut cluster = Cluster { kind, ..Cluster::new(&vec![nodes - 1; ranks], copies, false) };
    let mut seats: Vec<usize> = (0..ranks).map(|_| random.usize(0..nodes)).collect();
    let (mut at_least, mut at_most) = (0, 0);
    for round in 0..4 {
        // A node that a job did not use is behind, as the file `levels` of a space would say.
        let unused: Vec<usize> = (0..nodes).filter(|node| !seats.contains(node)).collect();
        cluster = cluster.after(&unused, &seats);
        cluster.exchange = if random.bool() { Exchange::Background } else { Exchange::Blocking };
        let waits: Vec<bool> = (0..random.u64(0..5)).map(|_| random.bool()).collect();
        let first = at_most + 1;
        steps(&cluster, first, &waits).unwrap_or_else(|why| panic!("seed {seed}, round {round}, {seats:?}: {why}"));
        at_least = waits.iter().rposition(|wait| *wait).map_or(at_least, |last| first + last as u64);
        at_most += waits.len() as u64;
        let mut used = seats.clone();
        used.sort_unstable();
        used.dedup();
        random.shuffle(&mut used);
        used.truncate(random.usize(0..used.len().min(copies)));
        // The ranks of the lost nodes move to other nodes, or to a new node in place of the old.
        seats.iter_mut().filter(|node| used.contains(node)).for_each(|node| *node = random.usize(0..nodes));
        cluster = cluster.after(&used, &seats);
        let came = match cluster.restored() {
            Ok(came) => came.unwrap_or(0),
            // The start is refused if a disk is away and no revision is whole in the copies: the node may come back.
            Err(why) if kind == LevelKind::Disk && at_least == 0 && why.contains("out of sight") => return,
            Err(why) => panic!("seed {seed}, round {round}, without {used:?}: {why}"),
        };
        assert!(
            (at_least..=at_most).contains(&came),
            "seed {seed}, round {round}: {came} came back, not {at_least} to {at_most}, of {seats:?} without {used:?}"
        );
        // No number is given twice.
        at_least = came;
    }
}

#[test]
fn what_was_waited_for_survives_as_many_nodes_as_there_are_copies_but_one() {
    (0..often(8, 40)).for_each(random_job);
}

#[test]
#[ignore = "long: make campaign"]
fn what_was_waited_for_survives_in_many_jobs() {
    (1000..3000).for_each(random_job);
}

#[test]
fn copies_are_made_again_before_the_next_checkpoint() {
    for real in [false, true] {
        let cluster = Cluster::new(&PAIRS, 2, real);
        cluster.save(1, 3).unwrap();
        let mut left = cluster.after(&[0], &PAIRS);
        // First without a checkpoint in between, then after one.
        steps(&left, 4, &[]).unwrap();
        left = left.after(&[1], &PAIRS);
        assert_eq!(left.restored().unwrap(), Some(3));
        left = left.after(&[], &PAIRS);
        steps(&left, 4, &[true]).unwrap();
        assert_eq!(left.after(&[0], &PAIRS).restored().unwrap(), Some(4));
    }
}

/// Story: a job with one copy of each shard came after one with two, and failed at a checkpoint as if its disk had
/// failed. The set of kept revisions had changed after the search for room.
#[test]
fn copies_that_are_given_up_let_the_job_save_on() {
    for kind in [LevelKind::Memory, LevelKind::Disk] {
        for copies in [2, 3] {
            let cluster = Cluster { kind, ..Cluster::new(&[0, 1, 2], copies, false) };
            cluster.save(1, 3).unwrap();
            let fewer = Cluster { former: copies - 1, ..cluster.after(&[], &[0, 1, 2]) };
            steps(&fewer, 4, &[[false; 12].as_slice(), &[true]].concat()).unwrap();
            assert_eq!(fewer.after(&[], &[0, 1, 2]).restored().unwrap(), Some(16), "{kind:?}, {copies}");
        }
    }
}

/// Story: a disk as the nearest level keeps the revisions that its lagging copies have not got. It had no room beyond
/// those, so the checkpoint of a grown state failed.
#[test]
fn disks_grow_while_their_copies_lag() {
    for real in [false, true] {
        let cluster = Cluster { kind: LevelKind::Disk, ..Cluster::new(&PAIRS, 2, real) };
        let end = Barrier::new(PAIRS.len());
        let saved = cluster.job(|_, mut program, mut session| {
            for step in 1..=8 {
                program.fill(&mut session, Mark { run: 1, step }, 30_000 * step as usize)?;
                session.checkpoint()?;
            }
            session.wait()?;
            end.wait();
            Ok(())
        });
        saved.unwrap();
        assert_eq!(cluster.after(&[], &PAIRS).restored().unwrap(), Some(8));
        assert!(cluster.after(&[1], &PAIRS).restored().unwrap() >= Some(1));
    }
}

/// If copies are busy when the last revision is saved, `wait` brings it to all of them. Story: with two copies of a
/// shard, the sizes for the second queued behind the shards on their way to the first, and the ranks waited for ever.
#[test]
fn what_was_waited_for_is_on_all_copies_that_were_busy() {
    const RING: [usize; 3] = [0, 1, 2];
    for (copies, last) in [(2, 2), (2, 3), (3, 3), (3, 4)] {
        let cluster = Cluster { kind: LevelKind::Disk, ..Cluster::new(&RING, copies, false) };
        let end = Barrier::new(RING.len());
        let saved = cluster.job(|_, mut program, mut session| {
            for step in 1..=last {
                program.fill(&mut session, Mark { run: 1, step }, 4 * BYTES)?;
                session.checkpoint()?;
            }
            session.wait()?;
            end.wait();
            Ok(())
        });
        saved.unwrap();
        for lost in RING {
            let lost: Vec<usize> = (0..copies - 1).map(|next| (lost + next) % RING.len()).collect();
            let left = RING.into_iter().find(|node| !lost.contains(node)).unwrap();
            let seats = RING.map(|node| if lost.contains(&node) { left } else { node });
            let left = cluster.after(&lost, &seats);
            assert_eq!(left.restored().unwrap(), Some(last), "{copies} copies, without {lost:?}");
        }
    }
}

/// Runs ranks with a level in memory, disks that take every `every`th revision, and a space that takes none, all in
/// `folder`. The disks have a copy, made now or `former`. Each rank has a gate before its disk and one before the
/// copies that it holds there.
fn memory_and_disks(
    folder: &Path,
    ranks: usize,
    every: u32,
    former: bool,
    work: impl Fn(Program, Session, [&Gate; 2]) + Sync,
) {
    let disk = |name: String| Disk::make(&folder.join(name)).unwrap();
    bounded("a job that ends", || {
        run(ranks, |rank, group| {
            let gated = |name: &str| Watched::new(disk(format!("{name}{rank}")), Gate::new(1));
            let (gated, gated_copy) = (gated("Disk"), gated("Disk-copy"));
            let gates = [gated.between.clone(), gated_copy.between.clone()];
            let plan =
                |kind, every, device, copies| LevelPlan { kind, device, every, keep: 1, copies, former: Vec::new() };
            let of_memory: Vec<Arc<dyn Device>> = vec![Arc::new(disk(format!("Memory-copy{rank}")))];
            let on_disk = plan(LevelKind::Disk, every, Arc::new(gated), vec![Arc::new(gated_copy)]);
            let plans = vec![
                plan(LevelKind::Memory, 1, Arc::new(disk(format!("Memory{rank}"))), of_memory),
                if former { LevelPlan { copies: Vec::new(), former: on_disk.copies, ..on_disk } } else { on_disk },
                plan(LevelKind::Pfs, 0, Arc::new(disk("space".to_owned())), Vec::new()),
            ];
            let config = Config { start: Start::Fresh, ..Config::default() };
            let mut session = Session::open_levels(group, plans, config).unwrap();
            let mut program = Program::new(rank);
            program.protect(&mut session).unwrap();
            work(program, session, [&gates[0], &gates[1]]);
        })
    });
}

/// The number of the newest revision with data in that directory.
fn newest_in(folder: &Path, name: &str) -> Option<u64> {
    let survey = SpaceSurvey::open(&folder.join(name)).unwrap();
    survey.revisions.iter().map(|revision| revision.key.number).max()
}

/// Story: at the end of a job the newest revision went from memory to the nodes' disks, but not to their copies. The
/// memory was the only place with copies, so the revision no longer survived the loss of a node. If only a copy had a
/// revision, because the disks were busy at their turn, the revision went nowhere else.
#[test]
fn what_goes_from_memory_to_disks_goes_to_their_copies() {
    // The last revision is due on the disks, is not due, or comes while the disks stand still.
    for (every, last, stand_still) in [(2, 2, false), (2, 3, false), (1, 3, true)] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let newest = |name: &str| newest_in(folder.path(), name);
        memory_and_disks(folder.path(), 2, every, false, |mut program, mut session, [gate, _]| {
            for step in 1..=last {
                let stands_still_now = stand_still && step == last - 1;
                if stands_still_now {
                    session.wait().unwrap();
                    gate.shut();
                }
                program.fill(&mut session, Mark { run: 1, step }, 30 * BYTES).unwrap();
                session.checkpoint().unwrap();
                while stands_still_now && ["Disk-copy0", "Disk-copy1"].iter().any(|name| newest(name) != Some(step)) {
                    session.progress().unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
            }
            gate.come();
            session.close().unwrap();
        });
        for name in ["Disk0", "Disk1", "Disk-copy0", "Disk-copy1"] {
            assert_eq!(newest(name), Some(last), "{name}");
        }
    }
}

/// Story: a wait for the memory alone also waited for the copies of the disks.
#[test]
fn a_wait_for_memory_waits_for_no_copy_on_a_disk() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let newest = |name: &str| newest_in(folder.path(), name);
    memory_and_disks(folder.path(), 2, 1, false, |mut program, mut session, [_, gate]| {
        let mut save = |session: &mut Session, step| {
            program.fill(session, Mark { run: 1, step }, 30 * BYTES).unwrap();
            session.checkpoint().unwrap();
        };
        save(&mut session, 1);
        session.wait().unwrap();
        gate.shut();
        save(&mut session, 2);
        session.wait_for(LevelKind::Memory).unwrap();
        for rank in 0..2 {
            assert_eq!(newest(&format!("Memory-copy{rank}")), Some(2));
        }
        gate.come();
        session.wait_for(LevelKind::Disk).unwrap();
        gate.nobody_waited();
        session.close().unwrap();
    });
    for name in ["Disk-copy0", "Disk-copy1"] {
        assert_eq!(newest(name), Some(2), "{name}");
    }
}

/// Story: no rank writes former copies, and the end of a job waited for them for ever.
#[test]
fn former_copies_do_not_hold_up_the_end_of_a_job() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (former, step) in [(false, 1), (true, 2)] {
        memory_and_disks(folder.path(), 2, 1, former, |mut program, mut session, _| {
            program.fill(&mut session, Mark { run: 1, step }, BYTES).unwrap();
            session.checkpoint().unwrap();
            session.close().unwrap();
        });
        assert_eq!(["Disk0", "Disk1"].map(|name| newest_in(folder.path(), name)), [Some(step); 2]);
    }
}

/// Story: the end of a job that had saved nothing failed (INTERNAL), if other ranks had saved and copies on disks
/// lacked that revision. Data that cannot be copied stays in memory.
#[test]
fn what_other_ranks_have_saved_stays_in_memory_where_copies_lack_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    memory_and_disks(folder.path(), 2, 1, true, |mut program, mut session, _| {
        program.fill(&mut session, Mark { run: 1, step: 1 }, BYTES).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
    memory_and_disks(folder.path(), 3, 1, false, |_, session, _| session.close().unwrap());
    assert_eq!(["Memory0", "Disk0"].map(|name| newest_in(folder.path(), name)), [Some(1); 2]);
}

/// Story: a shard was lost here and damaged at its holder. Mainstay reported a read error and a revision that was not
/// saved.
#[test]
fn damage_in_a_copy_that_comes_from_another_rank_is_damage() {
    const PATTERN: [u8; 64] = [0xa7; 64];
    for kind in [LevelKind::Memory, LevelKind::Disk] {
        let cluster = Cluster { kind, capture: Capture::Whole, ..Cluster::new(&PAIRS, 2, true) };
        let saved = cluster.sessions(|_, mut session| {
            let mut state = PATTERN.repeat(BYTES / PATTERN.len());
            session.protect(region(&mut state))?;
            session.checkpoint()?;
            session.wait()?;
            Ok(session.close()?)
        });
        saved.unwrap();
        cluster.nodes.iter().flatten().for_each(|place| change(place, &PATTERN));
        let refused = cluster.after(&[0], &PAIRS).sessions(|_, mut session| {
            let mut state = PATTERN.repeat(BYTES / PATTERN.len());
            session.protect(region(&mut state))?;
            let error = session.restore().unwrap_err();
            let told = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{kind:?}: {told}");
            assert!(!told.contains("was not saved"), "{kind:?}: {told}");
            assert_eq!(told.matches("nothing was restored").count(), 1, "{kind:?}: {told}");
            Ok(())
        });
        refused.unwrap();
    }
}

/// Boxes of a global array come back from the copies on fewer ranks, on more, and on as many ranks that divide it
/// otherwise.
#[test]
fn boxes_come_back_from_copies_on_other_ranks() {
    const GLOBAL: [u64; 2] = [12, 3000];
    let mark = Mark { run: 1, step: 7 };
    for (real, lost) in [(false, 0), (true, 1)] {
        for seats in [vec![1 - lost; 2], vec![0, 1, 0, 1, 0, 1], vec![1 - lost; 3], vec![0, 1]] {
            let cluster = Cluster::new(&PAIRS, 2, real);
            let saved = cluster.sessions(|rank, mut session| {
                let mut program = Spread::new(&GLOBAL, rank, PAIRS.len());
                program.protect(&mut session)?;
                program.fill(mark);
                session.checkpoint()?;
                Ok(session.wait()?)
            });
            saved.unwrap();
            let again = cluster.after(&[lost], &seats);
            let restored = again.sessions(|rank, mut session| {
                let mut program = Spread::new(&GLOBAL, rank, seats.len());
                program.protect(&mut session)?;
                let came = program.restore(&mut session)?;
                assert_eq!(came.map(|mark| mark.step), Some(7), "on {seats:?} without node {lost}");
                // The job goes on from there.
                program.fill(Mark { run: 2, step: 8 });
                session.checkpoint()?;
                Ok(session.wait()?)
            });
            restored.unwrap_or_else(|why| panic!("on {seats:?} without node {lost}: {why}"));
        }
    }
}

/// Revisions of one size stay in one layout, on the level and on its copies. Story: zeros had made a shard smaller than
/// its allowed size. The rehearsal of its checkpoint counted the revision that is complete on all copies as kept for
/// good, and found no room.
#[test]
fn copies_make_no_new_layouts() {
    let captures = [Capture::Whole, Capture::Incremental, Capture::IncrementalSnapshot];
    let all = [1, 2].into_iter().flat_map(|keep| captures.map(|capture| (keep, capture)));
    for (keep, capture) in all.step_by(often(4, 1)) {
        for exchange in [Exchange::Background, Exchange::Blocking] {
            for waits in [[true; 8], [false; 8]] {
                let cluster = Cluster { exchange, keep, capture, ..Cluster::new(&PAIRS, 2, true) };
                let end = Barrier::new(PAIRS.len());
                let saved = cluster.job(|_, mut program, mut session| {
                    if waits[0] {
                        // The restore makes memory for the regions that are protected then.
                        program.fill(&mut session, Mark { run: 1, step: 0 }, BYTES)?;
                        session.restore()?;
                    }
                    for (step, wait) in (1..).zip(waits) {
                        program.fill(&mut session, Mark { run: 1, step }, BYTES)?;
                        session.checkpoint()?;
                        if wait {
                            session.wait()?;
                        }
                    }
                    session.wait()?;
                    end.wait();
                    Ok(())
                });
                saved.unwrap();
                for copy in 0..2 {
                    let layouts = cluster.layouts(copy);
                    let is_first = |name: &String| name.starts_with("layout-000001-");
                    assert!(
                        layouts.iter().all(is_first),
                        "{capture:?}, keep {keep}, {exchange:?}, {waits:?}, copy {copy}: {layouts:?}"
                    );
                }
            }
        }
    }
}

/// Ranks of a lost node get portions in the layout of the other ranks: no rank makes memory anew for shards that exist.
#[test]
fn what_is_left_of_a_layout_is_gone_on_with() {
    let run = |cluster: &Cluster, steps: std::ops::Range<u64>| {
        let saved = cluster.job(|_, mut program, mut session| {
            program.restore(&mut session)?;
            for step in steps.clone() {
                program.fill(&mut session, Mark { run: 1, step }, BYTES)?;
                session.checkpoint()?;
                session.wait()?;
            }
            Ok(())
        });
        saved.unwrap();
    };
    for lost in [0, 1] {
        for seats in [&PAIRS, &[1 - lost; 4]] {
            let cluster = Cluster::new(&PAIRS, 2, true);
            run(&cluster, 1..4);
            let left = cluster.after(&[lost], seats);
            run(&left, 4..6);
            let layouts = left.layouts(0);
            let is_first = |name: &String| name.starts_with("layout-000001-");
            assert!(layouts.len() == 4 && layouts.iter().all(is_first), "without {lost}, on {seats:?}: {layouts:?}");
            // All ranks have all shards again.
            assert_eq!(left.after(&[], seats).restored().unwrap(), Some(5));
            assert_eq!(
                left.after(&[seats[0]], &[1 - seats[0]; 4]).restored().unwrap(),
                Some(5).filter(|_| seats == &PAIRS)
            );
        }
    }
}

/// Each rank's own data is in the memory of the nodes, on only some of them. It reaches any rank of another number that
/// wants it, also from a copy if the nearer shard is lost or damaged.
#[test]
fn ranks_of_another_number_read_the_shards_of_all_nodes() {
    let own = |rank: usize| -> Vec<u8> {
        let byte =
            |at: usize| ((at + 1_000_003 * (rank + 1)) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[1];
        (0..20_000 + 5000 * rank).map(byte).collect()
    };
    for (real, hurt) in [(false, false), (true, false), (true, true)] {
        let cluster = Cluster::new(&PAIRS, 2, real);
        cluster
            .sessions(|rank, mut session| {
                session.begin(own(rank).len() as u64)?;
                session.write("particles", 0, &own(rank))?;
                session.checkpoint()?;
                Ok(session.wait()?)
            })
            .unwrap();
        if hurt {
            cluster.nodes[0].iter().for_each(|place| change(place, &own(1)[8192..8700]));
        }
        for (lost, seats) in
            [(vec![], vec![0, 1]), (vec![], vec![0, 1, 1]), (vec![], vec![0, 0, 0, 1, 1, 1]), (vec![1], vec![0, 1, 0])]
        {
            if hurt && !lost.is_empty() {
                continue;
            }
            let again = cluster.after(&lost, &seats);
            let read = again.sessions(|rank, mut session| {
                session.restore()?.expect("a revision");
                let all: Vec<u32> = (0..4).collect();
                let wanted = if rank == 0 { &all[..] } else { &all[rank % 4..][..1] };
                session.bring_shards(wanted)?;
                // The second call sends nothing again.
                session.bring_shards(wanted)?;
                for &shard in wanted {
                    let expected = own(shard as usize);
                    let mut into = vec![0; expected.len()];
                    assert_eq!(session.shards()?.items(shard)?[0].bytes, expected.len() as u64);
                    assert_eq!(session.shards()?.read(shard, "particles", 0, &mut into)?, expected.len());
                    assert!(into == expected, "shard {shard} on rank {rank} of {seats:?} without {lost:?}");
                }
                Ok(())
            });
            read.unwrap_or_else(|why| panic!("real {real}, hurt {hurt}, {seats:?} without {lost:?}: {why}"));
        }
    }
}

/// Changes a byte of `pattern` in the files of a place.
fn change(place: &Place, pattern: &[u8]) {
    let Place::Memory(folder) = place else { unreachable!("real directories") };
    for file in
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let mut bytes = std::fs::read(&file).unwrap();
        if let Some(at) = bytes.windows(pattern.len()).position(|window| window == pattern) {
            bytes[at] ^= 1;
            std::fs::write(&file, bytes).unwrap();
        }
    }
}

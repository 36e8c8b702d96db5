//! Each rank on a node of its own, which takes its memory along: the ranks of the objects after a failure.

use crate::{COUNT, ThreadWire, Wrong, counters, create, expected, key, round, total};
use mainstay_engine::{
    Config, ErrorKind, LevelKind, LevelPlan, MemoryAfter, Recovery, Session,
    device::{Device, Disk},
    group::{Divided, ThreadGroup},
};
use mainstay_objects::{Came, Objects, Options};
use std::{
    sync::{Arc, Mutex, mpsc::Receiver},
    thread,
};
use tempfile::TempDir;

const RANKS: usize = 5;
const VICTIM: usize = 2;

/// The outcome of a job that lost a rank, as the surviving and the new ranks report it.
struct Ended {
    came: Came,
    /// For each shard of the revision, the ranks that had it in their memory before objects were restored.
    holders: Vec<Vec<usize>>,
    /// By number: the rank of each object.
    placed: Vec<usize>,
}

struct Job {
    space: TempDir,
    recovery: Recovery,
    holders: Mutex<Vec<Vec<usize>>>,
}

impl Job {
    fn run(recovery: Recovery, spares: usize) -> Vec<Ended> {
        let space = TempDir::new_in("/dev/shm").unwrap();
        let job = Job { space, recovery, holders: Mutex::new(vec![Vec::new(); RANKS]) };
        let (groups, spare_groups) = ThreadGroup::with_spares(RANKS, spares);
        let (wires, spare_wires) = ThreadGroup::with_spares(RANKS, spares);
        let come = |(group, wire): (Receiver<ThreadGroup>, Receiver<ThreadGroup>)| {
            job.live(group.recv().unwrap(), wire.recv().unwrap(), true).unwrap()
        };
        thread::scope(|scope| {
            let (job, come) = (&job, &come);
            let lives = groups.into_iter().zip(wires);
            let lives: Vec<_> = lives.map(|(group, wire)| scope.spawn(move || job.live(group, wire, false))).collect();
            let comes = spare_groups.into_iter().zip(spare_wires);
            let comes: Vec<_> = comes.map(|one| scope.spawn(move || come(one))).collect();
            let left = lives.into_iter().filter_map(|life| life.join().unwrap());
            let all: Vec<Ended> = left.collect();
            all.into_iter().chain(comes.into_iter().map(|one| one.join().unwrap())).collect()
        })
    }

    fn open(&self, group: ThreadGroup, node: &[TempDir]) -> Session {
        let device = |folder: &TempDir| Arc::new(Disk::make(folder.path()).unwrap()) as Arc<dyn Device>;
        let plan = |kind, device, every, copies| LevelPlan { kind, device, every, keep: 1, copies, former: Vec::new() };
        let plans = vec![
            plan(LevelKind::Memory, device(&node[0]), 1, vec![device(&node[1])]),
            plan(LevelKind::Pfs, device(&self.space), 0, Vec::new()),
        ];
        let config = Config {
            pool_bytes: Some(256 << 10),
            chunk_bytes: Some(64 << 10),
            io_threads: 1,
            memory_after: MemoryAfter::Kept,
            recovery: self.recovery,
            ..Config::default()
        };
        Session::open_levels(Box::new(group), plans, config).unwrap()
    }

    /// Notes the shards in this rank's memory.
    fn look(&self, session: &mut Session, rank: usize) {
        if self.recovery == Recovery::Shrink {
            session.restore().unwrap().unwrap();
            let mut holders = self.holders.lock().unwrap();
            session.shards().unwrap().here().for_each(|shard| holders[shard as usize].push(rank));
        }
    }

    /// Saves one round, and fails in the second. `None`: this rank fails.
    fn live(&self, group: ThreadGroup, wire: ThreadGroup, is_new: bool) -> Option<Ended> {
        let node = [(); 2].map(|()| TempDir::new_in("/dev/shm").unwrap());
        let mut session = self.open(group, &node);
        let wire = ThreadWire::new(wire);
        let mut objects = Objects::new(Box::new(wire.clone()), Options::default());
        counters(&mut objects, |_| Wrong::Nothing);
        if !is_new {
            objects.restore(&mut session).unwrap();
            create(&mut objects);
            round(&mut objects).unwrap();
            objects.checkpoint(&mut session).unwrap();
            session.wait().unwrap();
            if objects.rank() == VICTIM {
                return None;
            }
            assert_eq!(round(&mut objects).unwrap_err().kind(), ErrorKind::GroupFailed);
            let left = wire.0.borrow().shrink(Divided::IntoBoxes).unwrap();
            *wire.0.borrow_mut() = left;
            session.recover().unwrap();
        }
        self.look(&mut session, objects.rank());
        let came = objects.restore(&mut session).unwrap().unwrap();
        let here = objects.here();
        let placed = (0..COUNT).map(|id| objects.rank_of(key(id)).unwrap()).collect();
        assert!(here.iter().all(|key| objects.rank_of(*key) == Some(objects.rank())));
        assert_eq!(total(&mut objects), expected(1));
        round(&mut objects).unwrap();
        assert_eq!(total(&mut objects), expected(2));
        let holders = self.holders.lock().unwrap().clone();
        objects.forget(&mut session).unwrap();
        session.close().unwrap();
        Some(Ended { came, holders, placed })
    }
}

/// Whether `high` is the one of two holders that restores (paper 002, section 4.2): (h - o) mod P is at most P / 2, and
/// the larger number if that is true of both.
fn restores(high: usize, other: usize, ranks: usize) -> bool {
    let holds = |h: usize, o: usize| 2 * ((h + ranks - o) % ranks) <= ranks;
    if holds(high, other) && holds(other, high) { high > other } else { holds(high, other) }
}

#[test]
fn where_a_rank_is_lost_each_object_comes_from_the_memory_of_its_highest_holder() {
    let ended = Job::run(Recovery::Shrink, 0);
    assert_eq!(ended.len(), RANKS - 1);
    for Ended { came, holders, placed } in ended {
        assert_eq!((came.objects, placed.len()), (COUNT as usize, COUNT as usize));
        // The victim has taken along its own shard, and the copy of another.
        let lost = holders.iter().filter(|held| held.len() == 1).count();
        assert!(lost == 2 && holders.iter().all(|held| [1, 2].contains(&held.len())), "{holders:?}");
        for (id, rank) in placed.iter().enumerate() {
            let held = &holders[id % RANKS];
            assert!(held.contains(rank), "object {id} is on rank {rank}, and in the memory of {held:?}");
            assert!(
                held.iter().all(|other| other == rank || restores(*rank, *other, RANKS - 1)),
                "{id}: {rank} of {held:?}"
            );
        }
    }
}

#[test]
fn where_a_spare_has_taken_the_place_of_a_rank_each_object_is_where_it_was() {
    let ended = Job::run(Recovery::Replace, 1);
    assert_eq!(ended.len(), RANKS);
    for Ended { came, placed, .. } in ended {
        // The objects of the failed rank have come to another process.
        let orphans = (0..COUNT as usize).filter(|id| id % RANKS == VICTIM).count();
        assert_eq!((came.objects, came.elsewhere), (COUNT as usize, orphans));
        assert!(placed.iter().enumerate().all(|(id, rank)| *rank == id % RANKS), "{placed:?}");
    }
}

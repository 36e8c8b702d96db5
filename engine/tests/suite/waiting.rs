//! The wait of ranks for each other in an all-reduce: eager only if no rank writes, and the same on all, because MPI
//! does not match two kinds of waits.

use crate::support::{State, bounded, filled};
use fastrand::Rng;
use mainstay_engine::{
    Config, Result, Session, WhenBusy,
    group::{Group, ThreadGroup},
};
use std::{
    cell::Cell,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// A group that records how its rank waits in each all-reduce.
struct Noting {
    group: ThreadGroup,
    can: bool,
    is_eager: Cell<bool>,
    noted: Arc<Mutex<Vec<bool>>>,
}

impl Group for Noting {
    fn rank(&self) -> usize {
        self.group.rank()
    }
    fn size(&self) -> usize {
        self.group.size()
    }
    fn ranks_here(&self) -> usize {
        self.group.ranks_here()
    }
    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        self.noted.lock().unwrap().push(self.is_eager.get());
        self.group.all_max(values)
    }
    fn can_wait_eagerly(&self) -> bool {
        self.can
    }
    fn wait_eagerly(&self, eagerly: bool) {
        self.is_eager.set(eagerly);
    }
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.group.all_gather(mine)
    }
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        self.group.broadcast(root, bytes)
    }
}

/// Runs `calls` on three ranks; rank 1 `can` wait eagerly or not. Returns how each rank waited in each all-reduce.
/// `calls` gets the session, the state, and a function that records the number of all-reduces so far.
fn waited(
    can: bool,
    config: Config,
    calls: impl Fn(&mut Session, &mut State, &mut dyn FnMut()) + Sync,
) -> (Vec<bool>, Vec<usize>) {
    let folder = TempDir::new().unwrap();
    let of_ranks: Vec<(Vec<bool>, Vec<usize>)> = bounded("ranks that wait for each other", || {
        thread::scope(|scope| {
            let ranks: Vec<_> = ThreadGroup::new(3)
                .into_iter()
                .enumerate()
                .map(|(rank, group)| {
                    let (calls, config, path) = (&calls, config.clone(), folder.path().join("space"));
                    scope.spawn(move || {
                        let (noted, can) = (Arc::<Mutex<Vec<bool>>>::default(), can || rank != 1);
                        let group = Noting { group, can, is_eager: Cell::new(false), noted: noted.clone() };
                        let mut session = Session::open(Box::new(group), &path, config).unwrap();
                        let (mut state, mut marks) = (State::new(), Vec::new());
                        state.protect(&mut session);
                        filled(&mut state, rank, 1);
                        calls(&mut session, &mut state, &mut || marks.push(noted.lock().unwrap().len()));
                        session.close().unwrap();
                        let noted = noted.lock().unwrap().clone();
                        (noted, marks)
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    });
    assert!(of_ranks.iter().all(|(noted, _)| *noted == of_ranks[0].0), "ranks wait in different ways: {of_ranks:?}");
    of_ranks.into_iter().next().unwrap()
}

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

#[test]
fn ranks_wait_eagerly_once_all_know_that_nobody_writes() {
    let calls = |session: &mut Session, _: &mut State, mark: &mut dyn FnMut()| {
        session.restore().unwrap();
        session.checkpoint().unwrap();
        mark();
        session.wait().unwrap();
        mark();
        session.checkpoint().unwrap();
        mark();
        session.checkpoint().unwrap();
    };
    let (noted, marks) = waited(true, small(), calls);
    let first = |call: usize| noted[marks[call]];
    // After a checkpoint other ranks may be writing; after a wait none is.
    assert_eq!((first(0), first(1), first(2)), (false, true, false), "{noted:?} {marks:?}");
    let (noted, _) = waited(false, small(), calls);
    assert!(!noted.contains(&true), "one rank cannot: {noted:?}");
}

#[test]
fn all_ranks_wait_alike_whatever_they_call() {
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let when_busy = if random.bool() { WhenBusy::Now } else { WhenBusy::Later };
        let config =
            Config { every_steps: 2, agree_every: Duration::from_millis(random.u64(0..3)), when_busy, ..small() };
        let drawn: Vec<u32> = (0..25).map(|_| random.u32(0..7)).collect();
        let (noted, _) = waited(true, config, |session, state, _| {
            let mut step = 0;
            for call in &drawn {
                match call {
                    0 => session.wait().unwrap(),
                    1 => drop(session.restore().unwrap()),
                    2 => drop(session.put("word", b"said").unwrap()),
                    3 => drop(session.get(None, "word", &mut [0; 4])),
                    4 => drop(session.checkpoint().unwrap()),
                    _ => {
                        step += 1;
                        filled(state, 0, step);
                        if session.due(step).unwrap() {
                            session.checkpoint().unwrap();
                        }
                    }
                }
            }
        });
        assert!(noted.contains(&true) && noted.contains(&false), "{drawn:?}");
    }
}

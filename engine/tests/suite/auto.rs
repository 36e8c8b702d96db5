//! Pools that size themselves (`pool_bytes = "auto"`): with the default settings no rank waits for a write.

use crate::support::{around::Around, between::Watched, bounded, gate::Gate, in_sessions, run};
use mainstay_engine::{
    Config, PoolBound, PoolHeld, Region, Result, Session, SpaceSurvey, Stage, Value,
    device::{Device, Disk},
    group::Group,
    pool_limit,
};
use std::{
    fs,
    ops::Range,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};
use tempfile::TempDir;

const KIB: usize = 1 << 10;

/// Does `work` while `field` is protected under `name`.
fn with_field<T>(session: &mut Session, name: &str, field: &mut Vec<u8>, work: impl FnOnce(&mut Session) -> T) -> T {
    // SAFETY: unprotected before it goes.
    #[allow(unsafe_code)]
    let region = unsafe { Region::new(name, field.as_mut_ptr(), field.len() as u64) };
    session.protect(region.unwrap()).unwrap();
    let done = work(session);
    session.unprotect(name).unwrap();
    done
}

/// For each shard of the newest revision: the bytes of its pool, the bytes of a chunk, and the bound of the pool's
/// size.
fn pools(space: &Path) -> Vec<(u64, u64, PoolBound)> {
    let survey = SpaceSurvey::open(space).unwrap();
    let profile = |shard: &mainstay_engine::ShardSurvey| shard.manifest().unwrap().unwrap().annex.profile.unwrap();
    let shards = &survey.newest().unwrap().shards;
    shards.iter().map(profile).map(|profile| (profile.pool_bytes, profile.chunk_bytes, profile.pool_bound)).collect()
}

fn here(pools: &TempDir) -> Config {
    Config { pool_directory: pools.path().into(), shard_bytes: 32 << 20, ..Config::default() }
}

fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn it_is_the_default_and_a_word_like_others() {
    assert_eq!(Config::default().pool_bytes, None);
    let mut choice = mainstay_engine::Choice::default();
    for (word, bytes) in [("64 MiB", Some(64 << 20)), ("auto", None)] {
        choice.set("pool_bytes", Value::Text(word)).unwrap();
        assert_eq!(choice.pool_bytes, Some(bytes));
    }
    let refused = choice.set("pool_bytes", Value::Text("Auto")).unwrap_err().to_string();
    assert!(refused.contains("it takes auto, or two chunks or more"), "{refused}");
}

/// The state grows, shrinks and grows again, on one node and on two, with both stages that have a pool.
#[test]
fn it_grows_with_the_state_on_each_node() {
    const RANKS: usize = 3;
    for (stage, nodes) in [(Stage::Pool, 1), (Stage::Pool, 2), (Stage::Node, 2)] {
        let (space, memories) = (TempDir::new().unwrap(), [memory(), memory()]);
        let path = space.path().join("space");
        let config = |rank: usize| Config { stage, threshold_bytes: Some(1 << 30), ..here(&memories[rank % nodes]) };
        let sizes = |rank: usize| [4 * KIB, (2 + rank) << 20, 100 * KIB, 9 << 20];
        let job = |rank, group| {
            let mut session = Session::open(group, &path, config(rank)).unwrap();
            for (round, bytes) in sizes(rank).into_iter().enumerate() {
                let mut field = vec![(round * RANKS + rank) as u8; bytes];
                with_field(&mut session, "field", &mut field, |session| {
                    session.checkpoint().unwrap();
                    session.wait().unwrap();
                });
                for (rank, (pool, chunk, bound)) in pools(&path).into_iter().enumerate() {
                    let mates = (0..RANKS).filter(|mate| mate % nodes == rank % nodes);
                    let needed: usize = mates.map(|mate| sizes(mate)[round]).sum();
                    assert!(pool >= needed as u64 && bound == PoolBound::Needed, "{pool} for {needed}: {bound:?}");
                    // No more than the largest state so far, plus chunks that are partly full.
                    let most: usize =
                        (0..RANKS).map(|mate| sizes(mate).into_iter().take(round + 1).max().unwrap()).sum();
                    assert!(pool <= most as u64 + 5 * chunk + (2 << 20), "{pool} in round {round}");
                }
                session.wait().unwrap();
            }
            session.close().unwrap();
        };
        // Ranks that wait for chunks that nobody makes wait for ever.
        bounded("pools that grow", || run(RANKS, job));
        run(RANKS, |rank, group| {
            let mut session = Session::open(group, &path, config(rank)).unwrap();
            let mut field = vec![0; 9 << 20];
            let restored = with_field(&mut session, "field", &mut field, |session| session.restore().unwrap());
            assert_eq!(restored.map(|restored| restored.revision), Some(4));
            assert!(field.iter().all(|byte| *byte == (3 * RANKS + rank) as u8));
            session.close().unwrap();
        });
        assert!(memories.iter().all(|memory| fs::read_dir(memory.path()).unwrap().count() == 0), "something is left");
    }
}

const RANKS: usize = 4;

/// This rank leaves an agreement only after all others have gone on. By then its pool has the size for the ranks that
/// announced their state before it.
const LATE: usize = RANKS - 1;
const LAST: usize = LATE - 1;

/// The progress of each rank in a checkpoint.
#[derive(Default)]
struct Lateness {
    state: Mutex<[Way; RANKS]>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
enum Way {
    #[default]
    Before,
    Begins,
    /// The rank has announced the size of its state to the others.
    Meets,
    GoesOn,
}

impl Lateness {
    fn is_at(&self, rank: usize, way: Way) {
        self.state.lock().unwrap()[rank] = way;
        self.changed.notify_all();
    }

    fn until(&self, ranks: Range<usize>, way: Way) {
        let state = self.state.lock().unwrap();
        let lack = |state: &mut [Way; RANKS]| !ranks.clone().all(|rank| state[rank] >= way);
        let waited = self.changed.wait_timeout_while(state, Duration::from_secs(60), lack).unwrap().1;
        assert!(!waited.timed_out(), "another rank does not come");
    }

    /// Waits for the turn of `rank`. Its next meeting is that of the checkpoint.
    fn begin(&self, rank: usize) {
        match rank {
            LATE => self.until(0..LAST, Way::Meets),
            LAST => self.until(LATE..RANKS, Way::Meets),
            _ => {}
        }
        self.is_at(rank, Way::Begins);
    }

    fn group(self: Arc<Self>, rank: usize, group: Box<dyn Group>) -> Box<dyn Group> {
        let around = move |meet: &mut dyn FnMut() -> Result<()>| {
            let begins = self.state.lock().unwrap()[rank] == Way::Begins;
            if begins {
                self.is_at(rank, Way::Meets);
            }
            meet()?;
            if begins && rank == LATE {
                self.until(0..LATE, Way::GoesOn);
            }
            Ok(())
        };
        Box::new(Around { group, around })
    }
}

/// Story: with the old default of 64 MiB the program waited for the disk.
#[test]
fn with_default_settings_no_rank_waits_for_a_write() {
    // The program announces so many bytes for each byte that it writes in pieces. An exact announcement (1) leaves no
    // slack.
    for announced in [0, 1, 2] {
        nobody_waits_for_a_write(announced, false);
    }
}

/// Story: the other ranks had unprotected their data by then, and Mainstay counted their chunks as room for the late
/// rank. It was found when a rank was late by chance on a busy machine.
#[test]
fn a_rank_that_goes_on_later_than_the_others_does_not_wait_for_their_writes() {
    for announced in [0, 1] {
        nobody_waits_for_a_write(announced, true);
    }
}

fn nobody_waits_for_a_write(announced: u64, one_is_late: bool) {
    let (pools, space, lateness) = (memory(), TempDir::new().unwrap(), Arc::<Lateness>::default());
    // The first layout has room for all announced bytes. Otherwise the program would wait while the checkpoint makes a
    // larger layout.
    let config = Config { shard_bytes: (1 + announced) * (24 << 20), ..here(&pools) };
    let shard = |rank: usize, round: u64| if round == 1 { 1000 } else { (13 << 20) + rank * (3 << 20) + 777 };
    let disk = Watched::new(Disk::make(space.path()).unwrap(), Gate::new(RANKS));
    let device: Arc<dyn Device> = Arc::new(disk.clone());
    run(RANKS, |rank, group| {
        let group = if one_is_late { lateness.clone().group(rank, group) } else { group };
        let mut session = Session::open_on(group, device.clone(), config.clone()).unwrap();
        session.restore().unwrap();
        for round in 1..=2 {
            let mut field = vec![rank as u8; shard(rank, round)];
            if round == 2 {
                // All ranks have waited, and none passes the next agreement before all are here.
                disk.between.shut();
                if one_is_late {
                    lateness.begin(rank);
                }
            }
            let bytes = field.clone();
            with_field(&mut session, "field", &mut field, |session| {
                if announced > 0 {
                    session.begin(announced * bytes.len() as u64).unwrap();
                    session.write("stream", 5, &bytes).unwrap();
                }
                session.checkpoint().unwrap()
            });
            if round == 2 {
                lateness.is_at(rank, Way::GoesOn);
                disk.between.come();
            }
            session.wait().unwrap();
        }
        session.close().unwrap();
    });
    disk.between.nobody_waited();
}

#[test]
fn it_works_with_memory_that_is_held_always_or_for_checkpoints_alone() {
    for pool_held in [PoolHeld::Always, PoolHeld::Checkpoint] {
        let (space, pools_in) = (TempDir::new().unwrap(), memory());
        let path = space.path().join("space");
        let config = Config { pool_held, ..here(&pools_in) };
        let job = |rank: usize, session: &mut Session| {
            for bytes in [300 * KIB, 3 << 20] {
                let mut field = vec![rank as u8 + 1; bytes];
                with_field(session, "field", &mut field, |session| session.checkpoint().unwrap());
                session.wait().unwrap();
            }
        };
        bounded("pools of three ranks", || in_sessions(&path, 3, &config, job));
        assert!(pools(&path).iter().all(|(bytes, ..)| *bytes >= 9 << 20), "{:?}", pools(&path));
        // Mainstay cannot foresee the bytes that a program writes in pieces.
        let in_pieces = space.path().join("in pieces");
        let job = |rank: usize, session: &mut Session| {
            let bytes = vec![rank as u8 + 1; 16 << 20];
            session.begin(bytes.len() as u64).unwrap();
            session.write("stream", 5, &bytes).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
        };
        bounded("pools for pieces", || in_sessions(&in_pieces, 3, &config, job));
        assert!(pools(&in_pieces).iter().all(|(bytes, ..)| *bytes >= 48 << 20), "{:?}", pools(&in_pieces));
        in_sessions(&path, 3, &config, |rank, session| {
            let mut field = vec![0; 3 << 20];
            with_field(session, "field", &mut field, |session| session.restore().unwrap().unwrap());
            assert!(field.iter().all(|byte| *byte == rank as u8 + 1));
        });
    }
}

/// Story: a program protected and unprotected a passing array again and again without a checkpoint. The pool had room
/// for the sum of all these.
#[test]
fn what_is_protected_no_longer_takes_no_room() {
    let (space, pools_in) = (TempDir::new().unwrap(), memory());
    let path = space.path().join("space");
    in_sessions(&path, 1, &here(&pools_in), |_, session| {
        let mut field = vec![1; 100 * KIB];
        with_field(session, "field", &mut field, |session| session.checkpoint().unwrap());
        let mut passing = vec![2; 8 << 20];
        for _ in 0..200 {
            with_field(session, "passing", &mut passing, |_| std::thread::yield_now());
        }
        with_field(session, "field", &mut field, |session| session.checkpoint().unwrap());
        session.wait().unwrap();
    });
    assert!(pools(&path).iter().all(|(bytes, ..)| *bytes < 16 << 20), "{:?}", pools(&path));
}

#[test]
fn what_it_may_take_is_told() {
    let (bytes, bound) = pool_limit(Path::new("/dev/shm"));
    assert!(bytes > 0 && bound != PoolBound::Set && bound != PoolBound::Needed, "{bytes}, {bound:?}");
    // A missing directory sets no bound.
    let (bytes, bound) = pool_limit(Path::new("/nowhere/at/all"));
    assert!(bytes > 0 && bound != PoolBound::Directory, "{bytes}, {bound:?}");
}

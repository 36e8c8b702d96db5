//! With `capture = "incremental"` a revision writes the changes, shares the rest with older ones, and is as complete to
//! read as any.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::{
    between::{Between, Watched},
    bounded, often, run,
    ways::compress_of,
};
use fastrand::Rng;
use mainstay_engine::{
    Capture, Compress, Config, ErrorKind, Exchange, LevelKind, LevelPlace, LevelPlan, MemoryAfter, Predictor, Region,
    Session, ShardSurvey, SpaceSurvey, Stage, Start, Track,
    device::{Device, Disk, File},
    group::{Group, Solo},
};
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;

const BLOCK: usize = 4096;

/// The bytes of the items, for each revision and rank.
type Model = BTreeMap<(u64, usize), BTreeMap<String, Vec<u8>>>;

pub(crate) fn incremental() -> Config {
    Config {
        capture: Capture::Incremental,
        pool_bytes: Some(256 << 10),
        chunk_bytes: Some(64 << 10),
        ..Config::default()
    }
}

pub(crate) fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap()
}

/// The protected regions of one rank, by name. Some have equal sizes, so that the test can swap their memory.
struct State {
    memory: BTreeMap<String, Vec<u8>>,
}

const SIZES: [usize; 8] =
    [40 * BLOCK, 40 * BLOCK, 17 * BLOCK + 100, 17 * BLOCK + 100, 8, 3000, BLOCK, 9 * BLOCK + 4000];

impl State {
    fn new() -> State {
        let memory = (0..).zip(SIZES).map(|(index, bytes)| (format!("r{index}"), vec![0; bytes])).collect();
        State { memory }
    }

    fn region(&mut self, name: &str) -> Region {
        let memory = self.memory.get_mut(name).unwrap();
        // SAFETY: the tests keep the memory for as long as it is protected.
        unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) }.unwrap()
    }

    fn protect(&mut self, session: &mut Session) {
        let names: Vec<String> = self.memory.keys().cloned().collect();
        names.iter().for_each(|name| session.protect(self.region(name)).unwrap());
    }

    /// Swaps the memory of two regions of one size, as a program swaps its pointers.
    fn swap(&mut self, session: &mut Session, one: &str, other: &str) {
        let (a, b) = (self.memory.remove(one).unwrap(), self.memory.remove(other).unwrap());
        self.memory.insert(one.to_owned(), b);
        self.memory.insert(other.to_owned(), a);
        for name in [one, other] {
            session.move_region(self.region(name)).unwrap();
        }
    }

    fn resize(&mut self, session: &mut Session, name: &str, bytes: usize) {
        session.unprotect(name).unwrap();
        self.memory.get_mut(name).unwrap().resize(bytes, 7);
        // The region may have moved. The others have not.
        session.protect(self.region(name)).unwrap();
    }

    /// Writes to random parts of the memory.
    fn change(&mut self, random: &mut Rng) {
        for memory in self.memory.values_mut() {
            match random.u8(0..11) {
                0..3 => {}
                3 => random.fill(memory),
                4 => {
                    let at = random.usize(0..memory.len());
                    memory[at..].fill(0);
                }
                5..7 => {
                    // Bytes that compress well.
                    let (at, value) = (random.usize(0..memory.len()), random.u8(..));
                    memory[at..].iter_mut().enumerate().for_each(|(index, byte)| *byte = value ^ (index >> 7) as u8);
                }
                _ => {
                    for _ in 0..random.usize(1..6) {
                        let at = random.usize(0..memory.len());
                        let bytes = random.usize(1..=2 * BLOCK).min(memory.len() - at);
                        random.fill(&mut memory[at..at + bytes]);
                    }
                }
            }
        }
    }
}

pub(crate) fn open(group: Box<dyn Group>, space: &Path, config: &Config) -> Session {
    Session::open(group, space, config.clone()).unwrap()
}

/// Bytes that revision `number` wrote, on all ranks.
pub(crate) fn written(space: &Path, number: u64) -> u64 {
    let survey = SpaceSurvey::open(space).unwrap();
    let revision = survey.revisions.iter().find(|revision| revision.key.number == number).unwrap();
    revision.shards.iter().map(|shard| shard.phases.written_bytes).sum()
}

/// A block of these bytes is unreadable on the disk.
const UNREADABLE: u8 = 0xBD;

#[derive(Debug)]
struct Unreadable;

impl Between for Unreadable {
    fn read_at(&self, file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = file.read_at(buffer, offset)?;
        let is_bad = buffer[..read].chunks(BLOCK).any(|block| block.starts_with(&[UNREADABLE; 64]));
        if is_bad { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(read) }
    }
}

/// Mainstay reads blocks that are close together in one read, with the blocks between them.
#[test]
fn what_cannot_be_read_between_the_blocks_of_a_revision_does_no_harm() {
    let folder = folder();
    let mut memory = vec![3; 40 * BLOCK];
    for block in [5, 6, 20] {
        memory[block * BLOCK..(block + 1) * BLOCK].fill(UNREADABLE);
    }
    let disk = || Watched::new(Disk::existing(folder.path()), Unreadable);
    let region = |memory: &mut Vec<u8>| {
        // SAFETY: the memory outlives the sessions.
        unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()
    };
    let mut session = open(Box::new(Solo), folder.path(), &incremental());
    session.protect(region(&mut memory)).unwrap();
    session.checkpoint().unwrap();
    for block in [5, 6, 20] {
        memory[block * BLOCK..(block + 1) * BLOCK].fill(block as u8);
    }
    session.checkpoint().unwrap();
    session.close().unwrap();

    let mut restored = vec![0; 40 * BLOCK];
    let mut session = Session::open_on(Box::new(Solo), Arc::new(disk()), incremental()).unwrap();
    session.protect(region(&mut restored)).unwrap();
    let found = session.restore().unwrap().unwrap();
    assert!(found.revision == 2 && found.skipped.is_empty() && restored == memory, "{found:?}");
    session.close().unwrap();
}

#[test]
fn what_did_not_change_is_not_written_again() {
    let stages = [Stage::Pool, Stage::Direct, Stage::Node, Stage::Rank].into_iter();
    for (stage, track) in stages.flat_map(|stage| [(stage, Track::Hashes), (stage, Track::Auto)]) {
        let folder = folder();
        let mut memory = vec![0; 4 << 20];
        Rng::with_seed(1).fill(&mut memory);
        let config = Config { stage, track, audit: 3, ..incremental() };
        let mut session = open(Box::new(Solo), folder.path(), &config);
        // SAFETY: the memory outlives the session.
        session.protect(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
        for step in 1..=20 {
            session.checkpoint().unwrap();
            session.wait().unwrap();
            let bytes = written(folder.path(), step);
            if step == 1 {
                assert!(bytes > 4 << 20, "{stage:?}, {track:?}: {bytes}");
            } else {
                let changed = 3 * BLOCK as u64;
                assert!(bytes < changed * 5 / 4 + (64 << 10), "{stage:?}, {track:?}, {step}: {bytes} bytes written");
            }
            for block in [3, 77, 500 + step as usize] {
                memory[block * BLOCK + 5] ^= step as u8;
            }
        }
        let saved = memory.clone();
        session.checkpoint().unwrap();
        session.close().unwrap();
        memory.fill(0);
        let mut session = open(Box::new(Solo), folder.path(), &config);
        // SAFETY: as above.
        session.protect(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
        assert_eq!(session.restore().unwrap().unwrap().revision, 21);
        assert!(memory == saved, "{stage:?}");
        // The next revision shares blocks with the restored one.
        session.checkpoint().unwrap();
        session.wait().unwrap();
        let bytes = written(folder.path(), 22);
        assert!(bytes < 64 << 10, "{stage:?}: {bytes} bytes written after the restore");
    }
}

/// Story: the program changed a few random pages before each of many checkpoints. Free blocks became so scattered that
/// a shard written whole has hundreds of runs, and their list needs room in one stretch. After a hundred checkpoints
/// the job was refused the next one.
#[test]
fn pages_at_random_find_room_however_often() {
    for (blocks, keep, stage) in
        [(512, 1, Stage::Pool), (1024, 1, Stage::Direct), (1024, 2, Stage::Pool), (2048, 1, Stage::Rank)]
    {
        for changed in [blocks / 100, blocks / 50, blocks / 16] {
            let folder = folder();
            let mut random = Rng::with_seed(blocks as u64);
            let mut memory = vec![1; blocks * BLOCK];
            let mut session = open(Box::new(Solo), folder.path(), &Config { keep, stage, ..incremental() });
            // SAFETY: the memory outlives the session.
            session.protect(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
            for step in 0..often(25, 250) {
                (0..changed)
                    .for_each(|_| memory[random.usize(..blocks) * BLOCK + random.usize(..BLOCK)] = random.u8(..));
                let told = session.checkpoint().map(drop).and_then(|()| session.wait());
                assert!(told.is_ok(), "{changed} of {blocks} blocks, keep {keep}, checkpoint {step}: {told:?}");
            }
            let mut saved = vec![0; memory.len()];
            session.get(None, "x", &mut saved).unwrap();
            assert!(saved == memory, "{changed} of {blocks} blocks, keep {keep}");
            session.close().unwrap();
        }
    }
}

/// A disk that is full while the flag is set.
#[derive(Debug, Default)]
struct Full(AtomicBool);

impl Between for Full {
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if self.0.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        file.write_at(bytes, offset)
    }
}

/// A failed checkpoint has looked for changes but has not saved them.
#[test]
fn what_a_failed_checkpoint_did_not_save_is_saved_by_the_next() {
    for track in [Track::Auto, Track::Hashes] {
        let folder = folder();
        let device = Arc::new(Watched::new(Disk::make(&folder.path().join("space")).unwrap(), Full::default()));
        let config = Config { track, ..incremental() };
        let mut session = Session::open_on(Box::new(Solo), device.clone(), config).unwrap();
        let mut memory = vec![0; 100 * BLOCK];
        // SAFETY: the memory outlives the session.
        session.protect(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
        for round in 0..4 {
            session.checkpoint().unwrap();
            session.wait().unwrap();
            memory[(round * 9 + 5) * BLOCK] += 1;
            device.between.0.store(true, Ordering::Relaxed);
            let told = session.checkpoint().map(drop);
            session.wait().and(told).unwrap_err();
            device.between.0.store(false, Ordering::Relaxed);
            memory[(round * 9 + 7) * BLOCK] += 1;
            session.checkpoint().unwrap();
            session.wait().unwrap();
            let mut saved = vec![0; memory.len()];
            session.get(None, "x", &mut saved).unwrap();
            assert!(saved == memory, "{track:?}, round {round}");
        }
        session.close().unwrap();
    }
}

/// One memory object of `bytes` bytes, mapped twice.
fn mapped_twice(bytes: usize) -> [&'static mut [u8]; 2] {
    // SAFETY: plain system calls; the two are written and read in turn, by one thread, and stay until the end.
    unsafe {
        let object = libc::memfd_create(c"twice".as_ptr(), 0);
        assert!(object >= 0 && libc::ftruncate(object, bytes as i64) == 0);
        [(), ()].map(|()| {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            let memory = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, object, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            std::slice::from_raw_parts_mut(memory.cast(), bytes)
        })
    }
}

/// A write through one address also changes the memory at the other, but no page of the other reports it.
#[test]
fn one_object_that_is_mapped_twice_is_never_stale() {
    let captures = [Capture::Incremental, Capture::IncrementalSnapshot, Capture::Snapshot];
    for (capture, track) in captures.into_iter().flat_map(|capture| [(capture, Track::Auto), (capture, Track::Hashes)])
    {
        let folder = folder();
        let mut maps = mapped_twice(100 * BLOCK);
        let config = Config { capture, track, snapshot_bytes: Some(0), pool_bytes: Some(4 << 20), ..incremental() };
        let mut session = open(Box::new(Solo), folder.path(), &config);
        for (name, map) in ["one", "other"].into_iter().zip(&mut maps) {
            // SAFETY: the mappings stay.
            session.protect(unsafe { Region::new(name, map.as_mut_ptr(), map.len() as u64) }.unwrap()).unwrap();
        }
        for step in 0..12_usize {
            for block in [step, 7 * step + 5, 99 - step] {
                maps[step % 2][block * BLOCK + 9] += 1;
            }
            let saved = maps[0].to_vec();
            session.checkpoint().unwrap();
            // A later write: it is not part of the checkpoint.
            maps[(step + 1) % 2][50 * BLOCK + 1] += 1;
            session.wait().unwrap();
            for name in ["one", "other"] {
                let mut bytes = vec![0; saved.len()];
                session.get(None, name, &mut bytes).unwrap();
                assert!(bytes == saved, "{capture:?}, {track:?}, step {step}: {name}");
            }
        }
        let now = maps[1].to_vec();
        session.checkpoint().unwrap();
        maps[0].fill(0xee);
        session.restore().unwrap().unwrap();
        assert!(*maps[0] == now && *maps[1] == now, "{capture:?}, {track:?}");
        session.close().unwrap();
    }
}

/// In the log the bytes of an item go on from its staged part to its shared part. Story: a salvage took the list of
/// items for damaged.
#[test]
fn what_changed_may_end_where_what_is_shared_begins() {
    const BLOCKS: usize = 300;
    let folder = folder();
    let config = Config { buffer_bytes: 64 << 10, pool_bytes: Some(4 << 20), ..incremental() };
    run(2, |rank, group| {
        let mut session = open(group, folder.path(), &config);
        let mut memory = vec![0; BLOCKS * BLOCK];
        Rng::with_seed(rank as u64).fill(&mut memory);
        // SAFETY: the memory outlives the session.
        session.protect(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
        for blocks in [BLOCKS, 1, 8, 15, 16, 17, 32, 100, BLOCKS - 1] {
            memory[..blocks * BLOCK].chunks_mut(BLOCK).for_each(|block| block[rank] ^= 1);
            session.checkpoint().unwrap();
            session.wait().unwrap_or_else(|error| panic!("{blocks} blocks: {error}"));
            let mut saved = vec![0; memory.len()];
            session.get(None, "x", &mut saved).unwrap();
            assert!(saved == memory, "{blocks} blocks");
        }
        session.close().unwrap();
    });
}

/// A query for the written pages of one name clears their marks, so a query for the second name finds none.
#[test]
fn one_memory_under_two_names_is_saved_under_both() {
    let folder = folder();
    let (mut memory, mut elsewhere) = (vec![0; 64 * BLOCK], vec![0; 64 * BLOCK]);
    // SAFETY: the memory outlives the session.
    let region = |name, memory: &mut Vec<u8>| unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) };
    for step in 0..6 {
        let mut session = open(Box::new(Solo), folder.path(), &incremental());
        session.protect(region("a", &mut memory).unwrap()).unwrap();
        session.protect(region("b", &mut elsewhere).unwrap()).unwrap();
        let saved = memory.clone();
        memory.fill(0xee);
        if session.restore().unwrap().is_some() {
            assert!(memory == saved && elsewhere == saved, "step {step}");
        }
        // A region may move to the memory of another, until the next restore.
        session.move_region(region("b", &mut memory).unwrap()).unwrap();
        for change in 1..=5 {
            memory[(7 * step + change) % 64 * BLOCK] += 1;
            session.checkpoint().unwrap();
        }
        session.wait().unwrap();
        for name in ["a", "b"] {
            let mut bytes = vec![0; memory.len()];
            session.get(None, name, &mut bytes).unwrap();
            assert!(bytes == memory, "step {step}: {name}");
        }
    }
}

const PREDICTORS: [Predictor; 8] = [
    Predictor::Off,
    Predictor::Auto,
    Predictor::Infrequent,
    Predictor::Idle,
    Predictor::Phase,
    Predictor::Count,
    Predictor::Told,
    Predictor::Told,
];

/// Runs jobs of several ranks in turn on one space. They change, swap, resize, save, abandon and restore as `seed`
/// says. The test compares every kept revision with the saved bytes.
fn random_jobs(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let ranks = random.usize(1..=3);
    let stage = [Stage::Pool, Stage::Direct, Stage::Node, Stage::Rank][random.usize(0..4)];
    let (keep, folder) = (random.u32(1..=3), folder());
    let has_memory = random.bool();
    let memory = if has_memory { LevelPlace::At(folder.path().join("memory")) } else { LevelPlace::Off };
    let capture = [Capture::Incremental, Capture::IncrementalSnapshot, Capture::Snapshot][random.usize(0..3)];
    let pool_bytes = Some([256 << 10, 4 << 20][random.usize(0..2)]);
    let predictor = PREDICTORS[random.usize(0..PREDICTORS.len())];
    let config = Config {
        capture,
        compress: compress_of(random.usize(0..3)),
        // All data that can be is in a snapshot.
        snapshot_bytes: Some(0),
        pool_bytes,
        stage,
        track: [Track::Hashes, Track::Auto][random.usize(0..2)],
        audit: random.u32(0..3),
        predictor,
        tick_every: Duration::from_millis(random.u64(0..2)),
        keep,
        memory,
        memory_keep: keep,
        memory_copies: 1,
        pfs_every: random.u32(1..=3),
        buffer_bytes: 64 << 10,
        start: Start::Fresh,
        // Room for the bytes announced to `begin`.
        shard_bytes: 2 << 20,
        ..incremental()
    };
    let told = format!(
        "seed {seed}: {capture:?}, {ranks} ranks, {stage:?}, {:?}, {predictor:?}, keep {keep}, {:?}",
        config.track, config.memory
    );
    let space = folder.path().join("space");
    let model: Mutex<Model> = Mutex::default();
    for job in 0..3 {
        let steps = seed << 8 | job;
        run(ranks, |rank, group| {
            // Random choices that are equal on all ranks, and those of each rank alone.
            let (mut alike, mut own) = (Rng::with_seed(steps), Rng::with_seed(steps << 8 | rank as u64));
            let mut session = open(group, &space, &config);
            let mut state = State::new();
            for ((_, of), saved) in model.lock().unwrap().iter().rev() {
                if *of == rank {
                    state.memory = saved.iter().map(|(name, saved)| (name.clone(), vec![0; saved.len()])).collect();
                    break;
                }
            }
            state.protect(&mut session);
            if let Some(restored) = session.restore().unwrap() {
                let model = model.lock().unwrap();
                assert!(state.memory == model[&(restored.revision, rank)], "{told}: other bytes in {restored:?}");
            }
            for _ in 0..alike.usize(3..12) {
                state.change(&mut own);
                for _ in 0..own.usize(0..4) {
                    session.tick().unwrap();
                    let name = format!("r{}", own.usize(0..4));
                    session.settled(&name, own.u64(0..4 * BLOCK as u64), own.u64(0..13 * BLOCK as u64)).unwrap();
                    if own.bool() {
                        thread::sleep(Duration::from_micros(own.u64(0..2000)));
                    }
                    if own.u8(0..3) == 0 {
                        state.change(&mut own);
                    }
                }
                match alike.u8(0..10) {
                    0..2 => state.swap(&mut session, "r0", "r1"),
                    2 => state.swap(&mut session, "r2", "r3"),
                    3 => {
                        let bytes = own.usize(0..30 * BLOCK);
                        state.resize(&mut session, "r7", bytes);
                    }
                    4 => {
                        session.begin(1 << 20).unwrap();
                        session.write("s", 0, &[1; 10_000]).unwrap();
                        session.abandon().unwrap();
                    }
                    _ => {}
                }
                if alike.u8(0..8) == 0 {
                    // With `begin` the checkpoint saves the memory as it is at the end.
                    session.begin(0).unwrap();
                    state.change(&mut own);
                }
                let saved = state.memory.clone();
                let number = session.checkpoint().unwrap();
                // A write right after the checkpoint is not part of it.
                if own.bool() {
                    state.change(&mut own);
                }
                model.lock().unwrap().insert((number, rank), saved);
                if alike.bool() {
                    session.wait().unwrap();
                }
                if alike.u8(0..6) == 0 {
                    state.memory.values_mut().for_each(|memory| memory.fill(0xee));
                    let restored = session.restore().unwrap().unwrap();
                    assert!(state.memory == model.lock().unwrap()[&(restored.revision, rank)], "{told}: {restored:?}");
                }
                if alike.u8(0..4) == 0 {
                    session.wait().unwrap();
                    let first = number.saturating_sub(u64::from(keep) - 1).max(1);
                    let revision = alike.u64(first..=number);
                    let saved = model.lock().unwrap().get(&(revision, rank)).cloned();
                    for (name, saved) in saved.into_iter().flatten() {
                        let mut bytes = vec![0; saved.len()];
                        match session.get(Some(revision), &name, &mut bytes) {
                            Ok(got) => assert!(got.is_some(), "{told}"),
                            // A revision that an earlier job had only in memory was lost when that job ended.
                            Err(error) if has_memory && error.kind() == ErrorKind::RevisionMissing => break,
                            Err(error) => panic!("{told}: {error}"),
                        }
                        assert!(bytes == saved, "{told}: {name} of {revision}");
                    }
                }
            }
            // Some jobs end in order, others as if they were killed.
            if alike.bool() {
                session.close().unwrap();
            } else {
                session.wait().unwrap();
            }
        });
    }
}

#[test]
fn random_jobs_get_back_what_they_saved() {
    for seed in 0..often(5, 30) {
        bounded(&format!("seed {seed}"), || random_jobs(seed));
    }
}

#[test]
#[ignore = "long; make campaign runs it"]
fn many_random_jobs_get_back_what_they_saved() {
    for seed in 30..1000 {
        bounded(&format!("seed {seed}"), || random_jobs(seed));
    }
}

/// Nodes with a directory for their own shards and one for the shards that they hold for other nodes; and a space that
/// all see.
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<[TempDir; 2]>,
    pub(crate) pfs: TempDir,
    /// The node of each rank.
    seats: Vec<usize>,
    kind: LevelKind,
    pfs_every: u32,
    keep: u32,
    config: Config,
}

impl Nodes {
    pub(crate) fn new(seats: &[usize], kind: LevelKind, pfs_every: u32, keep: u32, config: Config) -> Nodes {
        let nodes = (0..=*seats.iter().max().unwrap()).map(|_| [folder(), folder()]).collect();
        let config = Config { memory_after: MemoryAfter::Kept, start: Start::Fresh, ..config };
        Nodes { nodes, pfs: folder(), seats: seats.to_vec(), kind, pfs_every, keep, config }
    }

    pub(crate) fn session(&self, group: Box<dyn Group>) -> Session {
        let [own, held] = &self.nodes[self.seats[group.rank()]];
        let device = |folder: &TempDir| -> Arc<dyn Device> { Arc::new(Disk::make(folder.path()).unwrap()) };
        let plan = |kind, device, every, copies| LevelPlan {
            kind,
            device,
            every,
            keep: self.keep,
            copies,
            former: Vec::new(),
        };
        let plans = vec![
            plan(self.kind, device(own), 1, vec![device(held)]),
            plan(LevelKind::Pfs, device(&self.pfs), self.pfs_every, Vec::new()),
        ];
        Session::open_levels(group, plans, self.config.clone()).unwrap()
    }
}

/// The bytes of revision `number` in the space, and the bytes that it shares with the revision before.
fn shared(space: &Path, number: u64) -> (u64, u64) {
    let survey = SpaceSurvey::open(space).unwrap();
    let of = |number| survey.revisions.iter().find(|revision| revision.key.number == number).unwrap();
    let pairs = of(number).shards.iter().zip(&of(number - 1).shards);
    let of_shard = |(new, old): (&ShardSurvey, &ShardSurvey)| {
        let manifest = new.manifest().unwrap().unwrap();
        (manifest.items.iter().map(|item| item.bytes).sum::<u64>(), new.shares_with(&manifest, old).unwrap())
    };
    pairs.map(of_shard).fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1))
}

#[test]
fn farther_levels_and_copies_get_what_changed() {
    let kinds = [LevelKind::Memory, LevelKind::Disk].into_iter();
    for (kind, capture) in
        kinds.flat_map(|kind| [Capture::Incremental, Capture::IncrementalSnapshot].map(|capture| (kind, capture)))
    {
        let nodes = Nodes::new(&[0, 1], kind, 1, 2, Config { capture, ..incremental() });
        run(2, |rank, group| {
            let mut session = nodes.session(group);
            let mut memory = vec![0; 200 * BLOCK];
            Rng::with_seed(rank as u64).fill(&mut memory);
            // SAFETY: the memory outlives the session.
            session.protect(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
            for step in 1..=6 {
                session.checkpoint().unwrap();
                session.wait().unwrap();
                memory[(20 * step + rank) * BLOCK + 9] ^= 1;
                memory[(20 * step + 7) * BLOCK] ^= 1;
            }
            session.close().unwrap();
        });
        let places = nodes.nodes.iter().flatten().chain([&nodes.pfs]);
        let found: Vec<_> = places.map(|place| shared(place.path(), 6)).collect();
        // The first and the third are the nearest level, the second and the fourth have the copies.
        let own = (200 * BLOCK as u64, 198 * BLOCK as u64);
        assert_eq!(found, [own, own, own, own, (2 * own.0, 2 * own.1)], "{kind:?}, {capture:?}");
    }
}

/// The changes are scattered, and the program waits for only a few revisions. The list of blocks that a copy could
/// share is longer than the room beside the hashes.
#[test]
fn a_copy_without_room_for_the_list_of_what_is_the_same_is_saved_whole() {
    let change = |memory: &mut [u8], rank: usize, step: u64| {
        let mut random = Rng::with_seed(step << 8 | rank as u64);
        memory.chunks_mut(BLOCK).filter(|_| random.u8(0..4) == 0).for_each(|block| block[0] = block[0].wrapping_add(1));
    };
    let first = |rank: usize| {
        let mut memory = vec![0; 200 * BLOCK];
        Rng::with_seed(rank as u64).fill(&mut memory);
        memory
    };
    for compress in [Compress::Off, Compress::Lz4] {
        let mut nodes = Nodes::new(&[0, 1], LevelKind::Disk, 100, 1, Config { compress, ..incremental() });
        let restored = |session: &mut Session, memory: &mut Vec<u8>| {
            // SAFETY: the memory outlives the session.
            session.protect(unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
            session.restore().unwrap().map_or(0, |restored| restored.revision)
        };
        run(2, |rank, group| {
            let (mut memory, mut session) = (first(rank), nodes.session(group));
            assert_eq!(restored(&mut session, &mut memory), 0);
            for step in 1..=60 {
                change(&mut memory, rank, step);
                assert_eq!(session.checkpoint().unwrap(), step, "{compress:?}");
                if step % 3 == 0 {
                    session.wait().unwrap();
                }
            }
        });
        nodes.nodes[0] = [folder(), folder()];
        run(2, |rank, group| {
            let (mut memory, mut session) = (vec![0; 200 * BLOCK], nodes.session(group));
            assert_eq!(restored(&mut session, &mut memory), 60, "{compress:?}");
            let mut saved = first(rank);
            (1..=60).for_each(|step| change(&mut saved, rank, step));
            assert!(memory == saved, "{compress:?}");
        });
    }
}

/// Runs jobs on nodes, and loses a node after some. The saved data comes back from copies and from farther levels, to
/// which only changes are written.
fn random_nodes(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let kind = [LevelKind::Memory, LevelKind::Disk][random.usize(0..2)];
    let config = Config {
        compress: compress_of(seed as usize),
        stage: [Stage::Pool, Stage::Direct, Stage::Rank][random.usize(0..3)],
        track: [Track::Hashes, Track::Auto][random.usize(0..2)],
        exchange: [Exchange::Background, Exchange::Blocking][random.usize(0..2)],
        capture: [Capture::Incremental, Capture::IncrementalSnapshot][random.usize(0..2)],
        // All data that can be is in a snapshot.
        snapshot_bytes: Some(0),
        shard_bytes: 2 << 20,
        ..incremental()
    };
    let count = random.usize(2..=3);
    let seats: Vec<usize> = (0..count).chain((0..random.usize(0..2)).map(|_| random.usize(0..count))).collect();
    let mut nodes = Nodes::new(&seats, kind, random.u32(1..=3), random.u32(1..=2), config);
    let told = format!("seed {seed}: {seats:?}, {kind:?}, {:?}", nodes.config);
    let model: Mutex<Model> = Mutex::default();
    for job in 0..3 {
        let steps = seed << 8 | job;
        let last = Mutex::new(0);
        run(seats.len(), |rank, group| {
            let (mut alike, mut own) = (Rng::with_seed(steps), Rng::with_seed(steps << 8 | rank as u64));
            let mut session = nodes.session(group);
            let mut state = State::new();
            state.protect(&mut session);
            if let Some(restored) = session.restore().unwrap() {
                assert!(state.memory == model.lock().unwrap()[&(restored.revision, rank)], "{told}: {restored:?}");
            } else {
                assert_eq!(job, 0, "{told}: nothing came back");
            }
            for _ in 0..alike.usize(2..9) {
                state.change(&mut own);
                if alike.u8(0..6) == 0 {
                    state.swap(&mut session, "r0", "r1");
                }
                let number = session.checkpoint().unwrap();
                model.lock().unwrap().insert((number, rank), state.memory.clone());
                *last.lock().unwrap() = number;
                if alike.bool() {
                    session.wait().unwrap();
                }
                if alike.u8(0..6) == 0 {
                    state.memory.values_mut().for_each(|memory| memory.fill(0xee));
                    let restored = session.restore().unwrap().unwrap();
                    assert!(state.memory == model.lock().unwrap()[&(restored.revision, rank)], "{told}: {restored:?}");
                }
            }
            session.wait().unwrap();
            // Some jobs end in order, others as if they were killed.
            if alike.bool() {
                session.close().unwrap();
            }
        });
        if random.bool() {
            let lost = random.usize(0..count);
            nodes.nodes[lost] = [folder(), folder()];
        }
    }
}

#[test]
fn random_jobs_on_nodes_get_back_what_they_saved() {
    for seed in 0..often(4, 20) {
        bounded(&format!("seed {seed}"), || random_nodes(seed));
    }
}

#[test]
#[ignore = "long; make campaign runs it"]
fn many_random_jobs_on_nodes_get_back_what_they_saved() {
    for seed in 20..600 {
        bounded(&format!("seed {seed}"), || random_nodes(seed));
    }
}

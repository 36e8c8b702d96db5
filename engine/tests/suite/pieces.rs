//! Checkpoints written in pieces, on every stage.

use crate::support::{
    between::Watched,
    in_sessions, often,
    stuck::{Writes, stuck},
};
use mainstay_engine::{Capture, Config, ErrorKind, LevelPlace, Region, Session, Stage, device::Disk, group::Solo};
use std::{
    collections::BTreeMap,
    iter,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const BLOCK: usize = 4096;

/// The way of bytes out of the program: through a stage, or straight into memory that is the nearest level.
#[derive(Debug, Clone, Copy)]
enum Way {
    Stage(Stage),
    Memory,
}

const WAYS: [Way; 5] =
    [Way::Stage(Stage::Pool), Way::Stage(Stage::Node), Way::Stage(Stage::Rank), Way::Stage(Stage::Direct), Way::Memory];

impl Way {
    fn space(self) -> TempDir {
        match self {
            Way::Stage(_) => TempDir::new().unwrap(),
            Way::Memory => tempfile::tempdir_in("/dev/shm").unwrap(),
        }
    }

    fn config(self, space: &TempDir) -> Config {
        match self {
            Way::Stage(stage) => config(stage),
            Way::Memory => Config {
                memory: LevelPlace::At(space.path().into()),
                pool_directory: space.path().into(),
                pfs_every: 0,
                ..config(Stage::Pool)
            },
        }
    }
}

fn config(stage: Stage) -> Config {
    Config {
        stage,
        pool_bytes: Some(256 << 10),
        chunk_bytes: Some(32 << 10),
        buffer_bytes: 16 << 10,
        threshold_bytes: Some(8 << 10),
        ..Config::default()
    }
}

#[allow(unsafe_code)]
fn protect(session: &mut Session, name: &str, memory: &mut [u8]) {
    // SAFETY: the tests keep `memory` for as long as the session.
    let region = unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) };
    session.protect(region.unwrap()).unwrap();
}

/// The contents of the streams after some pieces. `write` gets each piece too.
fn pieces(seed: u64, mut write: impl FnMut(&str, u64, &[u8])) -> BTreeMap<String, Vec<u8>> {
    let (mut random, mut streams) = (fastrand::Rng::with_seed(seed), BTreeMap::<String, Vec<u8>>::new());
    for _ in 0..random.usize(1..200) {
        let name = ["a", "b/c", "d"][random.usize(0..3)];
        let stream = streams.entry(name.to_owned()).or_default();
        // Most pieces follow each other, some come before, some far behind.
        let offset = match random.u8(0..8) {
            0 => random.usize(0..=stream.len()),
            1 => stream.len() + random.usize(0..10_000),
            _ => stream.len(),
        };
        let most = [1, 64, 512, 4096, 4097, 20_000, 70_000][random.usize(0..7)];
        let piece: Vec<u8> = (0..random.usize(0..=most)).map(|_| random.u8(..)).collect();
        write(name, offset as u64, &piece);
        stream.resize(stream.len().max(offset + piece.len()), 0);
        stream[offset..offset + piece.len()].copy_from_slice(&piece);
    }
    streams
}

fn check(session: &mut Session, wanted: &BTreeMap<String, Vec<u8>>, case: &str) {
    let found: BTreeMap<String, u64> = session.streams().unwrap().into_iter().collect();
    let sizes: BTreeMap<String, u64> = wanted.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect();
    assert_eq!(found, sizes, "{case}");
    for (name, bytes) in wanted {
        let mut read = vec![0; bytes.len() + 1];
        assert_eq!(session.read(name, 0, &mut read).unwrap(), bytes.len(), "{case}");
        assert!(read[..bytes.len()] == *bytes, "{case}: {name} is not what was written");
    }
}

#[test]
fn what_was_written_in_pieces_is_read_back() {
    for (way, seed) in WAYS.into_iter().flat_map(|way| (0..often(2, 12)).map(move |seed| (way, seed))) {
        let case = format!("{way:?}, seed {seed}");
        let space = way.space();
        in_sessions(space.path(), 3, &way.config(&space), |rank, session| {
            rank_saves_and_reads(session, rank as u64, seed, &case)
        });
    }
}

fn rank_saves_and_reads(session: &mut Session, rank: u64, seed: u64, case: &str) {
    let (mut large, mut small) = (vec![0; 50_000 + rank as usize], [0; 7]);
    protect(session, "large", &mut large);
    protect(session, "small", &mut small);
    let mut wanted = BTreeMap::new();
    for round in 1..=4 {
        let step = 100 * seed + 10 * round + rank;
        large.fill(step as u8);
        small.fill(!step as u8);
        assert_eq!(session.begin(16 << 20).unwrap(), round, "{case}");
        wanted = pieces(step, |name, offset, piece| session.write(name, offset, piece).unwrap());
        for name in ["a", "b/c", "d", "large"] {
            let bytes = wanted.get(name).map_or(0, Vec::len) as u64;
            assert_eq!(session.written_bytes(name).unwrap(), bytes, "{case}: {name}");
        }
        assert_eq!(session.checkpoint().unwrap(), round, "{case}");
        // The program's later writes must not be found.
        large.fill(0xee);
        small.fill(0xee);
    }
    session.wait().unwrap();
    session.restore().unwrap().unwrap();
    let step = 100 * seed + 40 + rank;
    assert!(large.iter().all(|byte| *byte == step as u8), "{case}");
    assert_eq!(small, [!step as u8; 7], "{case}");
    check(session, &wanted, case);
    ["large", "small"].iter().for_each(|name| session.unprotect(name).unwrap());
}

/// Older bytes came back if a part of a piece was stored before the part below it. This happened to zeros, to blocks of
/// an older revision, and to pieces that bypass the buffers.
#[test]
fn what_is_written_twice_is_what_was_written_last() {
    let captures = [Capture::Whole, Capture::Incremental, Capture::IncrementalSnapshot];
    let cases = WAYS.into_iter().flat_map(|way| captures.into_iter().map(move |capture| (way, capture)));
    for ((way, capture), seed) in cases.flat_map(|case| (0..often(3, 10)).map(move |seed| (case, seed))) {
        let (case, space) = (format!("{way:?}, {capture:?}, seed {seed}"), way.space());
        let config = Config { capture, snapshot_bytes: Some(0), ..way.config(&space) };
        in_sessions(space.path(), 1, &config, |_, session| {
            let mut wanted = BTreeMap::from([("s".to_owned(), Vec::new())]);
            let mut random = fastrand::Rng::with_seed(seed);
            for _ in 0..4 {
                session.begin(2 << 20).unwrap();
                let before = wanted.insert("s".to_owned(), Vec::new()).unwrap();
                let stream = wanted.get_mut("s").unwrap();
                for _ in 0..random.usize(1..12) {
                    let (offset, piece) = overlapping(&mut random, &before);
                    session.write("s", offset as u64, &piece).unwrap();
                    stream.resize(stream.len().max(offset + piece.len()), 0);
                    stream[offset..offset + piece.len()].copy_from_slice(&piece);
                }
                session.checkpoint().unwrap();
                session.wait().unwrap();
                session.restore().unwrap().unwrap();
                check(session, &wanted, &case);
            }
        });
    }
}

/// A piece of a short stream, mostly of whole blocks: zeros, the bytes that were there `before`, and other bytes.
fn overlapping(random: &mut fastrand::Rng, before: &[u8]) -> (usize, Vec<u8>) {
    let odd = |random: &mut fastrand::Rng| if random.u8(0..4) == 0 { random.usize(0..BLOCK) } else { 0 };
    let offset = random.usize(0..6) * BLOCK + odd(random);
    let mut piece = Vec::new();
    for _ in 0..random.usize(1..6) {
        let at = offset + piece.len();
        match random.u8(0..3) {
            0 => piece.resize(piece.len() + BLOCK, 0),
            1 if at + BLOCK <= before.len() => piece.extend_from_slice(&before[at..at + BLOCK]),
            _ => piece.extend(iter::repeat_with(|| random.u8(1..)).take(BLOCK)),
        }
    }
    piece.truncate(piece.len() - odd(random));
    (offset, piece)
}

/// A checkpoint that is given up leaves only its number, and the next checkpoint may have its blocks.
#[test]
fn a_checkpoint_that_is_given_up_leaves_what_was_there() {
    for way in WAYS {
        let space = way.space();
        in_sessions(space.path(), 2, &way.config(&space), |_, session| {
            let refused = session.abandon().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.to_string().contains("no checkpoint has begun"), "{refused}");
            assert_eq!(session.begin(1 << 20).unwrap(), 1);
            session.write("a", 0, &[1; 300_000]).unwrap();
            session.checkpoint().unwrap();
            for number in 2..6 {
                assert_eq!(session.begin(1 << 20).unwrap(), number, "{way:?}");
                session.write("a", 0, &vec![number as u8; 100_000 * number as usize]).unwrap();
                if number == 4 {
                    assert!(session.write("a b", 0, &[]).is_err());
                }
                session.abandon().unwrap();
                assert!(session.poll().unwrap(), "{way:?}: revision 1 is durable");
                session.wait().unwrap();
                session.abandon().unwrap_err();
            }
            session.restore().unwrap().unwrap();
            check(session, &[("a".to_owned(), vec![1; 300_000])].into(), "given up");
            assert_eq!(session.begin(1 << 20).unwrap(), 6, "{way:?}");
            session.abandon().unwrap();
            assert_eq!(session.begin(1 << 20).unwrap(), 7, "{way:?}");
            session.write("a", 0, &[7; 200_000]).unwrap();
            assert_eq!(session.checkpoint().unwrap(), 7);
            session.wait().unwrap();
            assert_eq!(session.restore().unwrap().unwrap().revision, 7);
            check(session, &[("a".to_owned(), vec![7; 200_000])].into(), "given up before");
        });
    }
}

/// The stage `node` gathers small regions separately. A shard of two regions had two ends with room for one, and was
/// refused.
#[test]
fn regions_and_exactly_announced_pieces_of_all_sizes_have_room() {
    for (way, seed) in WAYS.into_iter().flat_map(|way| (0..20).map(move |seed| (way, seed))) {
        let mut random = fastrand::Rng::with_seed(seed);
        let space = way.space();
        let mut config = way.config(&space);
        if seed % 3 == 0 {
            // Nearly every region has a part of its rest in one buffer and a part in the next.
            (config.chunk_bytes, config.buffer_bytes, config.threshold_bytes) = (Some(4096), 4096, Some(4096));
        }
        let mut session = Session::open(Box::new(Solo), space.path(), config).unwrap();
        let sizes = [0, 8, 400, 511, 512, 3000, 4096, 4097, 8191, 8193, 40_000, 100_001];
        let mut regions: Vec<Vec<u8>> =
            (0..random.usize(1..100)).map(|i| vec![i as u8 + 1; *random.choice(&sizes).unwrap()]).collect();
        for (i, region) in regions.iter_mut().enumerate() {
            protect(&mut session, &format!("region{i}"), region);
        }
        let piece = vec![7; random.usize(1..20_000)];
        let gap = random.u64(0..2) * random.u64(1..9000);
        let announced = gap + piece.len() as u64 + 100;
        if seed % 2 == 0 {
            session.begin(announced).unwrap();
            session.write("stream", 0, &[1; 100]).unwrap();
            session.write("stream", 100 + gap, &piece).unwrap();
        }
        let saved = session.checkpoint().and_then(|_| session.wait());
        saved.unwrap_or_else(|error| panic!("{way:?}, seed {seed}: {error}"));
        regions.iter_mut().for_each(|region| region.fill(0));
        session.restore().unwrap().unwrap();
        let whole = |(i, region): (usize, &Vec<u8>)| region.iter().all(|byte| *byte == i as u8 + 1);
        assert!(regions.iter().enumerate().all(whole), "{way:?}, seed {seed}");
        session.close().unwrap();
    }
}

#[test]
fn more_than_was_announced_is_refused_and_the_revision_before_stays() {
    for way in WAYS {
        let space = way.space();
        let mut session = Session::open(Box::new(Solo), space.path(), way.config(&space)).unwrap();
        session.begin(100_000).unwrap();
        session.write("a", 0, &[1; 100_000]).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.begin(100_000).unwrap();
        let told: Vec<_> = (0..20).map(|i| session.write("a", i * 50_000, &[2; 50_000])).collect();
        let saved = session.checkpoint().and_then(|_| session.wait());
        assert_eq!(saved.unwrap_err().kind(), ErrorKind::InvalidArgument, "{way:?}");
        assert!(told.iter().any(|told| told.is_err()), "{way:?}");
        assert_eq!(session.restore().unwrap().unwrap().revision, 1, "{way:?}");
        check(&mut session, &BTreeMap::from([("a".to_owned(), vec![1; 100_000])]), "refused");
        session.close().unwrap();
    }
}

#[test]
fn a_checkpoint_of_nothing_says_what_is_missing() {
    let space = TempDir::new().unwrap();
    let mut session = Session::open(Box::new(Solo), space.path(), config(Stage::Pool)).unwrap();
    for told in [session.begin(0).unwrap_err(), session.checkpoint().unwrap_err()] {
        assert_eq!(told.kind(), ErrorKind::InvalidArgument);
        assert!(told.to_string().contains("give begin the bytes that will be written"), "{told}");
    }
    session.begin(1).unwrap();
    session.checkpoint().unwrap();
    session.close().unwrap();
}

#[test]
fn calls_out_of_order_are_refused_and_harm_nothing() {
    let space = TempDir::new().unwrap();
    let mut session = Session::open(Box::new(Solo), space.path(), config(Stage::Pool)).unwrap();
    let mut memory = vec![7; 100];
    protect(&mut session, "memory", &mut memory);
    assert_eq!(session.write("a", 0, &[1]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    session.begin(1000).unwrap();
    assert_eq!(session.unprotect("memory").unwrap_err().kind(), ErrorKind::InvalidArgument);
    // They would go with the next checkpoint.
    assert_eq!(session.note("step", "1").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(session.protect_output("log".as_ref()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(!session.poll().unwrap());
    session.write("a", 0, &[1; 1000]).unwrap();
    session.checkpoint().unwrap();
    session.wait().unwrap();
    // The restore gives up an unfinished checkpoint.
    session.begin(1000).unwrap();
    session.write("a", 0, &[2; 1000]).unwrap();
    assert_eq!(session.restore().unwrap().unwrap().revision, 1);
    check(&mut session, &BTreeMap::from([("a".to_owned(), vec![1; 1000])]), "given up");
    session.begin(1000).unwrap();
    session.write("a", 0, &[3; 10]).unwrap();
    // The end of the session does so, too.
    drop(session);
    let mut session = Session::open(Box::new(Solo), space.path(), config(Stage::Pool)).unwrap();
    protect(&mut session, "memory", &mut memory);
    assert_eq!(session.restore().unwrap().unwrap().revision, 1);
    session.close().unwrap();
}

#[test]
fn names_of_streams_are_checked() {
    let space = TempDir::new().unwrap();
    let mut session = Session::open(Box::new(Solo), space.path(), config(Stage::Pool)).unwrap();
    let mut memory = vec![7; 100];
    protect(&mut session, "memory", &mut memory);
    for (name, offset, kind) in [
        ("memory", 0, ErrorKind::DuplicateName),
        ("a b", 0, ErrorKind::InvalidName),
        ("a", u64::MAX, ErrorKind::InvalidArgument),
    ] {
        session.begin(1000).unwrap();
        assert_eq!(session.write(name, offset, &[1]).unwrap_err().kind(), kind, "{name}");
        assert!(session.checkpoint().is_err(), "{name}: told at its end, too");
        assert!(session.wait().is_err(), "{name}: and by who waits");
    }
    session.checkpoint().unwrap();
    session.close().unwrap();
}

/// The flushes of the stage `node`, with a buffer that has room for all data.
struct Flushing {
    disk: Watched<Writes>,
    session: Session,
    filled: u64,
    _space: TempDir,
}

const CHUNK: usize = 32 << 10;
const ENOUGH: u64 = 1 << 40;

impl Flushing {
    /// A checkpoint in pieces has begun. One thread flushes.
    fn begin(flush_every: Duration) -> Flushing {
        let space = TempDir::new().unwrap();
        let disk = stuck(Disk::make(space.path()).unwrap());
        let config = Config {
            flush_every,
            pool_bytes: Some(8 << 20),
            chunk_bytes: Some(CHUNK as u64),
            io_threads: 1,
            ..config(Stage::Node)
        };
        let mut session = Session::open_on(Box::new(Solo), Arc::new(disk.clone()), config).unwrap();
        session.begin(8 << 20).unwrap();
        disk.between.sticks_after(ENOUGH);
        Flushing { disk, session, filled: 0, _space: space }
    }

    /// Writes pieces that fill `chunks` chunks. Each chunk becomes one write.
    fn fill(&mut self, chunks: u64) {
        let pieces = chunks * (CHUNK / PIECE) as u64;
        for _ in 0..pieces {
            self.session.write("a", self.filled, &[(self.filled / PIECE as u64) as u8; PIECE]).unwrap();
            self.filled += PIECE as u64;
        }
    }

    /// The number of chunks that were written.
    fn written(&self) -> u64 {
        ENOUGH - self.disk.between.left()
    }

    fn saves_what_was_written(mut self) {
        let mut wanted = vec![0; self.filled as usize];
        wanted.chunks_mut(PIECE).enumerate().for_each(|(i, piece)| piece.fill(i as u8));
        self.session.checkpoint().unwrap();
        self.session.wait().unwrap();
        self.session.restore().unwrap().unwrap();
        check(&mut self.session, &BTreeMap::from([("a".to_owned(), wanted)]), "flushed");
        self.session.close().unwrap();
    }
}

/// The size is between `small_bytes` and the threshold.
const PIECE: usize = 4 << 10;

/// Each full chunk waited for a flush of its own: of many chunks, one was written in each period.
#[test]
fn a_flush_writes_all_chunks_that_are_full_while_the_program_goes_on() {
    let period = Duration::from_millis(200);
    let mut flushing = Flushing::begin(period);
    // The first flush, and a later one.
    for (chunks, all) in [(100, 100), (3, 103)] {
        flushing.fill(chunks);
        let since = Instant::now();
        while flushing.written() < all {
            let flushes = since.elapsed().as_nanos() / period.as_nanos();
            assert!(flushes < 50, "{} of {all} chunks are written, after {flushes} flushes", flushing.written());
            thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!(flushing.written(), 103, "each chunk once, and nothing else before t2");
    flushing.saves_what_was_written();
}

#[test]
fn nothing_is_written_before_the_flush() {
    let mut flushing = Flushing::begin(Duration::from_secs(60));
    flushing.fill(3);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(flushing.written(), 0);
    // From t2 on, writes are not held back.
    flushing.saves_what_was_written();
}

/// The session waited for the next flush, which wrote nothing.
#[test]
fn a_session_that_is_dropped_waits_for_no_flush() {
    let mut flushing = Flushing::begin(Duration::from_secs(60));
    flushing.fill(3);
    let (dropped, is_dropped) = mpsc::channel();
    let thread = thread::spawn(move || {
        drop(flushing);
        dropped.send(()).unwrap();
    });
    is_dropped.recv_timeout(Duration::from_secs(30)).expect("it waits for the flush");
    thread.join().unwrap();
}

/// The list of pieces was measured too short: the missing room was found only after t2.
#[test]
fn many_streams_and_pieces_in_reverse_have_room() {
    for way in WAYS {
        let space = way.space();
        let mut session = Session::open(Box::new(Solo), space.path(), way.config(&space)).unwrap();
        let mut wanted = BTreeMap::new();
        session.begin(310_000).unwrap();
        for number in (0..3000_u64).rev() {
            session.write("reversed", number * 100, &[number as u8; 100]).unwrap();
        }
        wanted.insert("reversed".to_owned(), (0..300_000).map(|at| (at / 100) as u8).collect());
        for number in 0..300_u32 {
            let name = format!("stream-{number}");
            session.write(&name, 0, &[number as u8; 7]).unwrap();
            wanted.insert(name, vec![number as u8; 7]);
        }
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.restore().unwrap().unwrap();
        check(&mut session, &wanted, &format!("{way:?}"));
        session.close().unwrap();
    }
}

/// Every refusal comes at t2 at the latest, with its name.
#[test]
fn too_many_pieces_are_refused_before_the_program_goes_on() {
    for way in WAYS {
        let space = way.space();
        let mut session = Session::open(Box::new(Solo), space.path(), way.config(&space)).unwrap();
        session.begin(100_000).unwrap();
        let written = (0..40_000_u64).rev().try_for_each(|number| session.write("a", number * 2, &[1]));
        let refused = written.and_then(|()| session.checkpoint().map(drop)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().contains("write larger pieces"), "{refused}");
    }
}

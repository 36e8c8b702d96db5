//! With a `predictor` pages are saved before the checkpoint. The contents of a revision are the same.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use super::incremental::Nodes;
use crate::support::{
    between::{Between, Watched},
    bounded, often, run,
    ways::compress_of,
};
use fastrand::Rng;
use mainstay_engine::{
    Capture, Config, ErrorKind, LevelKind, Predictor, Region, Session, SpaceSurvey, Speculation, Stage, Stagger, Start,
    Verified,
    device::{Disk, File},
    group::{Group, Solo},
    space::{
        Per,
        format::{EarlyOff, SavedEarly},
    },
    status::{Event, Journal},
    tend,
};
use std::{
    io,
    path::Path,
    ptr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;

const BLOCK: usize = 4096;
const BLOCKS: usize = 512;

fn config(predictor: Predictor) -> Config {
    Config {
        capture: Capture::Incremental,
        predictor,
        pool_bytes: Some(256 << 10),
        chunk_bytes: Some(64 << 10),
        start: Start::Fresh,
        ..Config::default()
    }
}

/// Memory that begins at a page boundary.
struct Pages {
    memory: Vec<u8>,
    first: usize,
}

impl Pages {
    fn new() -> Pages {
        let memory = vec![0; (BLOCKS + 1) * BLOCK];
        let first = memory.as_ptr().align_offset(BLOCK);
        Pages { memory, first }
    }

    fn all(&mut self) -> &mut [u8] {
        &mut self.memory[self.first..][..BLOCKS * BLOCK]
    }

    fn write(&mut self, blocks: impl Iterator<Item = usize>) {
        blocks.for_each(|block| self.all()[block * BLOCK + block % BLOCK] += 1);
    }

    fn protect(&mut self, session: &mut Session) {
        // SAFETY: the tests keep the memory for as long as it is protected.
        session
            .protect(unsafe { Region::new("x", self.all().as_mut_ptr(), (BLOCKS * BLOCK) as u64) }.unwrap())
            .unwrap();
    }
}

fn open(group: Box<dyn Group>, space: &Path, config: Config) -> Session {
    Session::open(group, space, config).unwrap()
}

/// Waits until all pages that are to be saved early are saved.
fn saved(session: &mut Session) -> Speculation {
    bounded("what is saved early", || {
        loop {
            let told = session.speculation().unwrap();
            if told.waiting == 0 {
                return told;
            }
            thread::sleep(Duration::from_micros(100));
        }
    })
}

/// Whether the kernel reports written pages. If not, nothing is saved early, and the session reports that.
fn has_pages(session: &mut Session) -> bool {
    session.speculation().unwrap().off.is_empty()
}

fn written_bytes(session: &mut Session) -> u64 {
    session.wait().unwrap();
    session.last_record().unwrap().unwrap().phases.written_bytes
}

/// Checks that the newest revision has the current contents of memory.
fn holds(session: &mut Session, memory: &mut Pages) {
    let mut back = vec![0; BLOCKS * BLOCK];
    session.get(None, "x", &mut back).unwrap().unwrap();
    assert!(back == memory.all(), "other bytes were saved");
}

#[test]
fn what_the_program_calls_settled_is_not_written_at_the_checkpoint() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let mut memory = Pages::new();
    let mut session = open(Box::new(Solo), folder.path(), config(Predictor::Told));
    memory.protect(&mut session);
    session.checkpoint().unwrap();
    if !has_pages(&mut session) {
        return;
    }
    for round in 0..4 {
        memory.write(0..400);
        session.settled("x", 0, 300 * BLOCK as u64).unwrap();
        let told = saved(&mut session);
        assert_eq!((told.saved, told.wasted), (300 * (round + 1), 10 * round), "{told:?}");
        // The program was wrong about ten of them.
        memory.write(20..30);
        session.checkpoint().unwrap();
        let told = session.speculation().unwrap();
        assert_eq!((told.dirty, told.early, told.wasted), (400 * (round + 1), 290 * (round + 1), 10 * (round + 1)));
        let bytes = written_bytes(&mut session);
        assert!(bytes < (110 + 20) * BLOCK as u64, "{bytes} bytes were written at the checkpoint");
        holds(&mut session, &mut memory);
    }
    session.close().unwrap();
    // The numbers are only for the interval before the last checkpoint.
    let survey = SpaceSurvey::open(folder.path()).unwrap();
    let newest = survey.newest().unwrap();
    let annex = newest.manifest(&newest.shards[0]).unwrap().unwrap().annex;
    let told = SavedEarly { dirty: 400, early: 290, saved: 300, wasted: 10, off: EarlyOff::No };
    assert_eq!(annex.saved_early, Some(told));
    let mut noted =
        Journal::read(folder.path()).unwrap().unwrap().entries.into_iter().filter_map(|entry| match entry.event {
            Event::Complete(complete) => Some((complete.revision, complete.saved_early)),
            _ => None,
        });
    assert_eq!(noted.next_back(), Some((5, Some(told))));

    let saved = memory.all().to_vec();
    memory.all().fill(0);
    let mut session = open(Box::new(Solo), folder.path(), config(Predictor::Told));
    memory.protect(&mut session);
    let restored = session.restore().unwrap().unwrap();
    assert!(restored.revision == 5 && restored.skipped.is_empty() && memory.all() == saved, "{restored:?}");
    session.close().unwrap();
}

#[test]
fn each_predictor_saves_what_it_names_and_every_revision_is_whole() {
    for predictor in [Predictor::Infrequent, Predictor::Idle, Predictor::Phase, Predictor::Count, Predictor::Auto] {
        let names_it = !matches!(predictor, Predictor::Count | Predictor::Phase | Predictor::Auto);
        // On a machine that stalls during a look at the pages, many of the looks after it are left out.
        let mut tries = (0..8).map(|_| told_of_a_scan(predictor));
        assert!(tries.any(|told| told.is_none_or(|told| !names_it || told.early * 3 > told.dirty)), "{predictor:?}");
    }
}

/// The result of early saves by `predictor` for a scan over four intervals, with eight ticks each; `None` if the kernel
/// does not report written pages.
fn told_of_a_scan(predictor: Predictor) -> Option<Speculation> {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let mut memory = Pages::new();
    let mut session = open(Box::new(Solo), folder.path(), config(predictor));
    memory.protect(&mut session);
    session.checkpoint().unwrap();
    if !has_pages(&mut session) {
        return None;
    }
    for step in 0..96 {
        let from = step * 16 % BLOCKS;
        memory.write(from..from + 16);
        session.tick().unwrap();
        saved(&mut session);
        if step % 8 == 7 {
            session.checkpoint().unwrap();
            session.wait().unwrap();
            holds(&mut session, &mut memory);
        }
    }
    let told = session.speculation().unwrap();
    assert!(told.wasted * 5 <= told.dirty, "{predictor:?}: {told:?}");
    session.close().unwrap();
    Some(told)
}

#[test]
fn memory_that_goes_meanwhile_does_no_harm() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let mut memory = Pages::new();
    let mut session = open(Box::new(Solo), folder.path(), config(Predictor::Told));
    memory.protect(&mut session);
    session.checkpoint().unwrap();
    let bytes = 64 * BLOCK;
    let map = |at: *mut u8| {
        let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
        // SAFETY: a new mapping, or one over a mapping of this test.
        unsafe { libc::mmap(at.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0).cast::<u8>() }
    };
    for round in 0..12 {
        let at = map(ptr::null_mut());
        // SAFETY: the mapping has as many bytes.
        unsafe { ptr::write_bytes(at, round + 1, bytes) };
        // SAFETY: mapped, unless the test unmaps it, and then it is unprotected before.
        session.protect(unsafe { Region::new("y", at, bytes as u64) }.unwrap()).unwrap();
        session.checkpoint().unwrap();
        // SAFETY: see above.
        unsafe { ptr::write_bytes(at, round + 2, bytes) };
        session.settled("y", 0, bytes as u64).unwrap();
        match round % 4 {
            // The memory is unmapped while it is saved, without a notice.
            0 => {
                session.unprotect("y").unwrap();
                // SAFETY: nothing refers to it any more.
                unsafe { libc::munmap(at.cast(), bytes) };
            }
            // Other memory takes its place.
            1 => {
                saved(&mut session);
                map(at);
            }
            // The memory moves elsewhere, as with `realloc`, and other memory takes its place.
            2 => {
                saved(&mut session);
                let other = map(ptr::null_mut());
                // The move leaves no hole, because another test's memory might be mapped there before this one's.
                let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
                // SAFETY: over a mapping of this test.
                let moved = unsafe { libc::mremap(at.cast(), bytes, bytes, how, other.cast::<libc::c_void>()) };
                assert_eq!(moved.cast(), other);
                map(at);
            }
            _ => drop(saved(&mut session)),
        }
        let is_there = round % 4 != 0;
        // SAFETY: mapped.
        let now = is_there.then(|| unsafe { std::slice::from_raw_parts(at, bytes) }.to_vec());
        memory.write(0..3);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        holds(&mut session, &mut memory);
        if let Some(now) = now {
            let mut back = vec![0xee; bytes];
            session.get(None, "y", &mut back).unwrap().unwrap();
            assert!(back == now, "round {round}");
            session.unprotect("y").unwrap();
        }
    }
    session.close().unwrap();
}

/// The pages of such memory no longer report writes: it was saved early, and then written again.
#[test]
fn what_was_saved_early_of_memory_that_is_watched_no_longer_does_not_count() {
    const SMALL: usize = 8 * BLOCK;
    type Change = fn(&mut Session, *mut u8);
    // SAFETY: the test keeps the memory for as long as it is protected.
    let region = |at: *mut u8, bytes: usize| unsafe { Region::new("x", at, bytes as u64) }.unwrap();
    let changes: [(&str, usize, Change); 5] = [
        ("it shrinks", SMALL, |session, at| {
            // SAFETY: see above.
            unsafe { session.move_to("x", at, Some(&[SMALL as u64])) }.unwrap();
        }),
        ("it is untracked", BLOCKS * BLOCK, |session, _| session.untrack("x").unwrap()),
        ("a part of it is another region", SMALL, |session, at| {
            session.unprotect("x").unwrap();
            // SAFETY: see above.
            session.protect(unsafe { Region::new("x", at, SMALL as u64) }.unwrap()).unwrap();
        }),
        ("it was untracked for a while", BLOCKS * BLOCK, |session, at| {
            session.untrack("x").unwrap();
            session.tick().unwrap();
            session.unprotect("x").unwrap();
            // SAFETY: see above.
            session.protect(unsafe { Region::new("x", at, (BLOCKS * BLOCK) as u64) }.unwrap()).unwrap();
        }),
        ("it is put", BLOCKS * BLOCK, |session, _| session.unprotect("x").unwrap()),
    ];
    for (name, bytes, change) in changes {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        let mut memory = Pages::new();
        let mut session = open(Box::new(Solo), folder.path(), config(Predictor::Told));
        let at = memory.all().as_mut_ptr();
        session.protect(region(at, BLOCKS * BLOCK)).unwrap();
        memory.all().fill(1);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        memory.all().fill(2);
        session.settled("x", 0, (BLOCKS * BLOCK) as u64).unwrap();
        assert!(saved(&mut session).saved > 0 || !has_pages(&mut session), "{name}");
        change(&mut session, at);
        memory.all()[..bytes].fill(3);
        if name == "it is put" {
            session.put("x", memory.all()).unwrap();
        } else {
            session.checkpoint().unwrap();
        }
        session.wait().unwrap();
        let mut back = vec![0; bytes];
        session.get(None, "x", &mut back).unwrap().unwrap();
        let wrong = back.iter().filter(|byte| **byte != 3).count();
        assert_eq!(wrong, 0, "{name}: {wrong} of {bytes} bytes are wrong");
        session.close().unwrap();
    }
}

/// A disk that takes no data while the flag is set.
#[derive(Debug, Default)]
struct Refusing(AtomicBool);

impl Between for Refusing {
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if self.0.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        file.write_at(bytes, offset)
    }
}

#[test]
fn what_could_not_be_saved_early_is_saved_at_the_checkpoint() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let device = Arc::new(Watched::new(Disk::make(&folder.path().join("space")).unwrap(), Refusing::default()));
    let mut memory = Pages::new();
    let mut session = Session::open_on(Box::new(Solo), device.clone(), config(Predictor::Told)).unwrap();
    memory.protect(&mut session);
    session.checkpoint().unwrap();
    session.wait().unwrap();
    if !has_pages(&mut session) {
        return;
    }
    memory.write(0..200);
    device.between.0.store(true, Ordering::Relaxed);
    session.settled("x", 0, 200 * BLOCK as u64).unwrap();
    let told = saved(&mut session);
    assert!(told.saved == 0 && told.off.contains("Input/output error"), "{told:?}");
    device.between.0.store(false, Ordering::Relaxed);
    session.checkpoint().unwrap();
    session.wait().unwrap();
    holds(&mut session, &mut memory);
    assert_eq!(session.speculation().unwrap().early, 0);
    session.close().unwrap();
}

/// A space that was made without a predictor is full once it has the revisions that it must keep.
#[test]
fn where_the_portion_has_too_little_room_that_is_told_and_all_is_saved_at_the_checkpoint() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let mut memory = Pages::new();
    let without = Config { predictor: Predictor::Off, ..config(Predictor::Off) };
    let mut session = open(Box::new(Solo), folder.path(), without);
    memory.protect(&mut session);
    for _ in 0..4 {
        memory.write(0..BLOCKS);
        session.checkpoint().unwrap();
    }
    session.close().unwrap();
    let mut session = open(Box::new(Solo), folder.path(), Config { start: Start::Restored, ..config(Predictor::Told) });
    memory.protect(&mut session);
    session.restore().unwrap();
    memory.write(0..BLOCKS);
    session.checkpoint().unwrap();
    session.wait().unwrap();
    if !has_pages(&mut session) {
        return;
    }
    memory.write(0..400);
    session.settled("x", 0, 400 * BLOCK as u64).unwrap();
    let told = bounded("a word on the room", || {
        loop {
            let told = session.speculation().unwrap();
            if !told.off.is_empty() || told.saved == 400 {
                return told;
            }
            thread::sleep(Duration::from_micros(100));
        }
    });
    assert!(told.saved < 400 && told.off.contains("no more room"), "{told:?}");
    session.checkpoint().unwrap();
    session.wait().unwrap();
    holds(&mut session, &mut memory);
    session.close().unwrap();
    let survey = SpaceSurvey::open(folder.path()).unwrap();
    let newest = survey.newest().unwrap();
    let annex = newest.manifest(&newest.shards[0]).unwrap().unwrap().annex;
    let expected = SavedEarly { dirty: 400, early: told.saved, saved: told.saved, wasted: 0, off: EarlyOff::NoRoom };
    assert_eq!(annex.saved_early, Some(expected));
}

/// A program that always gives wrong hints: the session stops using them.
#[test]
fn nothing_more_is_saved_early_while_more_is_wasted_than_saved() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let mut memory = Pages::new();
    let mut session = open(Box::new(Solo), folder.path(), config(Predictor::Told));
    memory.protect(&mut session);
    session.checkpoint().unwrap();
    if !has_pages(&mut session) {
        return;
    }
    for round in 0..6 {
        memory.write(0..100);
        session.settled("x", 0, 100 * BLOCK as u64).unwrap();
        let told = saved(&mut session);
        // After some time the session tries again.
        assert_eq!(told.saved, if round < 4 { 100 } else { 200 }, "round {round}: {told:?}");
        memory.write(0..100);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        holds(&mut session, &mut memory);
    }
    assert!(session.speculation().unwrap().off.contains("in vain"));
    session.close().unwrap();
}

#[test]
fn what_is_called_settled_must_be_there() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    for predictor in [Predictor::Told, Predictor::Off] {
        let mut memory = Pages::new();
        let mut session = open(Box::new(Solo), &folder.path().join(format!("{predictor:?}")), config(predictor));
        memory.protect(&mut session);
        let all = (BLOCKS * BLOCK) as u64;
        session.settled("x", 0, all).unwrap();
        session.settled("x", all, 0).unwrap();
        for (offset, bytes) in [(1, all), (all + 1, 0), (u64::MAX, 2)] {
            assert_eq!(session.settled("x", offset, bytes).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(session.settled("z", 0, 0).unwrap_err().kind(), ErrorKind::RegionMissing);
        // A region that the session follows may have grown since the last call.
        let followed = |region: &Region| Ok(region.clone());
        session.follow("x", followed).unwrap();
        for (offset, bytes) in [(1, all), (all, BLOCK as u64), (all + 1, 0), (0, 1 << 60)] {
            session.settled("x", offset, bytes).unwrap();
        }
        assert_eq!(session.settled("x", u64::MAX, 2).unwrap_err().kind(), ErrorKind::InvalidArgument);
        session.checkpoint().unwrap();
        session.close().unwrap();
    }
}

/// Blocks that were saved early do not hinder a checkpoint that is given up, a restore, or a rank with neighbours that
/// save nothing early.
#[test]
fn what_was_saved_early_is_given_up_where_the_program_goes_elsewhere() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let space = folder.path().join("space");
    run(2, |rank, group| {
        let mut memory = Pages::new();
        let mut session = open(group, &space, config(Predictor::Told));
        memory.protect(&mut session);
        session.checkpoint().unwrap();
        for round in 0..12 {
            memory.write(0..300);
            if rank == 0 {
                session.settled("x", 0, 200 * BLOCK as u64).unwrap();
                if round % 2 == 0 {
                    saved(&mut session);
                }
            }
            match round % 4 {
                0 => {
                    session.begin(0).unwrap();
                    session.abandon().unwrap();
                }
                1 => {
                    session.restore().unwrap().unwrap();
                    memory.write(10..20);
                }
                2 => {
                    session.begin(BLOCK as u64).unwrap();
                    session.write("s", 0, &[1; 100]).unwrap();
                }
                _ => {
                    session.put("p", &[round as u8; 100]).unwrap();
                }
            }
            session.checkpoint().unwrap();
            session.wait().unwrap();
            holds(&mut session, &mut memory);
        }
        session.close().unwrap();
    });
}

/// The record of a run shows the pages that the next run does not write again, at any address of its memory.
#[test]
fn the_oracle_knows_what_a_recorded_run_has_written() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let traces = folder.path().join("traces");
    let job = |space: &str, config: Config| {
        let mut memory = Pages::new();
        let mut session = open(Box::new(Solo), &folder.path().join(space), config);
        memory.protect(&mut session);
        session.restore().unwrap();
        for interval in 0..4 {
            for tick in 0..8 {
                // The first half is written once more.
                memory.write(50 * tick..50 * tick + 50);
                memory.write((tick % 2) * 30..(tick % 2) * 30 + 10);
                session.tick().unwrap();
                saved(&mut session);
            }
            session.checkpoint().unwrap();
            session.wait().unwrap();
            holds(&mut session, &mut memory);
            assert!(interval > 0 || session.speculation().unwrap().early == 0);
        }
        let told = session.speculation().unwrap();
        session.close().unwrap();
        told
    };
    job("recorded", Config { trace: Some(traces.clone()), ..config(Predictor::Off) });
    let told = job("replayed", Config { oracle: Some(traces.clone()), ..config(Predictor::Oracle) });
    if !told.off.is_empty() {
        return;
    }
    assert!(told.dirty == 3 * 400 && told.early == told.dirty && told.wasted == 0, "{told:?}");
    std::fs::write(traces.join("rank-0.trace"), [7; 100]).unwrap();
    let told = job("damaged", Config { oracle: Some(traces), ..config(Predictor::Oracle) });
    assert!(told.early == 0 && told.off.contains("trace"), "{told:?}");
}

/// Early blocks get room beside the revisions that are kept. The checkpoint looks at the room again, because meanwhile
/// a hold may keep a revision that was to be removed.
#[test]
fn a_hold_that_comes_after_blocks_were_saved_early_takes_no_room_from_any_revision() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let mut memory = Pages::new();
    // As tight as a portion that was made without a predictor.
    let mut session = open(Box::new(Solo), folder.path(), config(Predictor::Off));
    memory.protect(&mut session);
    session.checkpoint().unwrap();
    session.close().unwrap();
    let mut session = open(Box::new(Solo), folder.path(), Config { start: Start::Restored, ..config(Predictor::Told) });
    memory.protect(&mut session);
    session.restore().unwrap();
    let mut held: Option<(u64, Vec<u8>)> = None;
    let mut was_early = 0;
    for round in 0..24 {
        memory.write(0..BLOCKS);
        session.settled("x", 0, (100 + 30 * (round % 13)) as u64 * BLOCK as u64).unwrap();
        saved(&mut session);
        let survey = SpaceSurvey::open(folder.path()).unwrap();
        if let Some((number, _)) = held.take_if(|_| round % 4 == 3) {
            assert_eq!(tend::release(folder.path(), Some(number)).unwrap().len(), 1);
        } else if held.is_none() && round % 4 == 1 {
            let key = survey.newest().unwrap().key;
            let mut then = vec![0; BLOCKS * BLOCK];
            session.get(Some(key.number), "x", &mut then).unwrap().unwrap();
            tend::hold(folder.path(), key, "a test", 0, Duration::ZERO).unwrap();
            held = Some((key.number, then));
        }
        session.checkpoint().unwrap();
        session.wait().unwrap();
        holds(&mut session, &mut memory);
        was_early = session.speculation().unwrap().early;
        if let Some((number, then)) = &held {
            let mut back = vec![0; BLOCKS * BLOCK];
            session.get(Some(*number), "x", &mut back).unwrap().unwrap();
            assert!(back == *then, "round {round}: revision {number} is held, and other bytes are there");
        }
    }
    tell!("{was_early} early");
    assert!(!has_pages(&mut session) || was_early > 0);
    session.close().unwrap();
}

const BY_NAME: [Predictor; 6] =
    [Predictor::Told, Predictor::Auto, Predictor::Infrequent, Predictor::Idle, Predictor::Phase, Predictor::Count];

/// Jobs that save early, on levels and nodes chosen by `seed`. Each revision is the memory at its checkpoint, for every
/// reader. Returns the number of blocks that were saved early.
fn random_levels(seed: u64) -> u64 {
    let mut random = Rng::with_seed(seed);
    let seats: &[usize] = [&[0][..], &[0, 0], &[0, 1], &[0, 1, 0]][random.usize(0..4)];
    let config = Config {
        capture: [Capture::Incremental, Capture::IncrementalSnapshot][random.usize(0..2)],
        compress: compress_of(random.usize(0..3)),
        snapshot_bytes: Some(0),
        stage: [Stage::Pool, Stage::Direct, Stage::Node, Stage::Rank][random.usize(0..4)],
        per: [Per::App, Per::Node, Per::Rank][random.usize(0..3)],
        predictor: BY_NAME[seed as usize % BY_NAME.len()],
        stagger: Stagger::Off,
        tick_every: Duration::from_millis(random.u64(0..2)),
        buffer_bytes: 64 << 10,
        shard_bytes: 3 << 20,
        ..config(Predictor::Off)
    };
    let (keep, pfs_every, in_pieces) = (random.u32(1..=2), random.u32(1..=2), random.bool());
    let told = format!("seed {seed}: {seats:?}, keep {keep}, every {pfs_every}, pieces {in_pieces}, {config:?}");
    let nodes = Nodes::new(seats, LevelKind::Disk, pfs_every, keep, config);
    let (saved_by, early) = (Mutex::new(std::collections::HashMap::new()), AtomicU64::new(0));
    for job in 0..2 {
        run(seats.len(), |rank, group| {
            // Random choices that all ranks share, and those of each rank.
            let mut alike = Rng::with_seed(seed << 8 | job);
            let mut own = Rng::with_seed(seed << 16 | job << 8 | rank as u64);
            let mut session = nodes.session(group);
            let mut memory = Pages::new();
            memory.protect(&mut session);
            if let Some(restored) = session.restore().unwrap() {
                let saved = saved_by.lock().unwrap();
                assert!(memory.all() == saved[&(restored.revision, rank)], "{told}: other bytes in {restored:?}");
            }
            for _ in 0..alike.usize(3..7) {
                for tick in 0..own.usize(0..5) {
                    let from = own.usize(0..BLOCKS);
                    memory.write(from..(from + own.usize(1..200)).min(BLOCKS));
                    let offset = own.u64(0..(BLOCKS * BLOCK) as u64);
                    session.settled("x", offset, own.u64(0..=(BLOCKS * BLOCK) as u64 - offset)).unwrap();
                    if tick % 2 == 0 {
                        session.tick().unwrap();
                    }
                    if own.bool() {
                        saved(&mut session);
                    }
                }
                if in_pieces && alike.bool() {
                    session.begin(1 << 20).unwrap();
                    session.write("s", 0, &[7; 10_000]).unwrap();
                    memory.write(0..own.usize(1..50));
                }
                let then = memory.all().to_vec();
                let number = session.checkpoint().unwrap();
                if own.bool() {
                    memory.write(0..own.usize(1..BLOCKS));
                }
                saved_by.lock().unwrap().insert((number, rank), then.clone());
                session.wait().unwrap();
                let mut back = vec![0; BLOCKS * BLOCK];
                session.get(Some(number), "x", &mut back).unwrap().unwrap();
                assert!(back == then, "{told}: other bytes in {number} on rank {rank}");
                if alike.u8(0..5) == 0 {
                    let restored = session.restore().unwrap().unwrap();
                    let saved = saved_by.lock().unwrap();
                    assert!(memory.all() == saved[&(restored.revision, rank)], "{told}: other bytes in {restored:?}");
                }
            }
            early.fetch_add(session.speculation().unwrap().early, Ordering::Relaxed);
            if alike.bool() {
                session.close().unwrap();
            }
        });
        // The farther level is as whole, although nothing was saved early there.
        let far = SpaceSurvey::open(nodes.pfs.path()).unwrap();
        for revision in far.revisions.iter().filter(|revision| revision.complete) {
            assert_eq!(revision.verify(&|_| ()).unwrap(), Verified::Whole, "{told}");
        }
    }
    early.into_inner()
}

#[test]
fn random_jobs_that_save_early_get_back_what_they_saved_on_all_levels() {
    let early = (0..often(4, 18)).map(|seed| bounded(&format!("seed {seed}"), || random_levels(seed))).sum::<u64>();
    tell!("{early} blocks went early");
}

#[test]
#[ignore = "long; make campaign runs it"]
fn many_random_jobs_that_save_early_get_back_what_they_saved_on_all_levels() {
    for seed in 18..500 {
        bounded(&format!("seed {seed}"), || random_levels(seed));
    }
}

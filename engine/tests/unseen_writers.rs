//! The kernel writes to buffers registered with io_uring past the pages of the process, as a device writes to pinned
//! memory. One such buffer switches the whole process: this test is alone in its file.
#![expect(unsafe_code, reason = "regions are memory of the program")]

#[macro_use]
mod support;

use io_uring::{IoUring, opcode, types};
use mainstay_engine::{
    Allocated, Capture, Config, Predictor, Region, Session, SpaceSurvey,
    group::Solo,
    space::format::{CopiedBy, FoundBy, Profile},
};
use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use support::bounded;
use tempfile::TempDir;

const BYTES: usize = 32 << 20;

/// Memory of the program. The kernel writes to it once it is `registered`.
struct Memory {
    at: *mut u8,
    ring: Option<IoUring>,
}

impl Memory {
    fn new(at: *mut u8) -> Memory {
        Memory { at, ring: None }
    }

    fn registered(&mut self) -> io::Result<()> {
        let ring = IoUring::new(8)?;
        let buffer = libc::iovec { iov_base: self.at.cast(), iov_len: BYTES };
        // SAFETY: the memory stays as long as the ring.
        unsafe { ring.submitter().register_buffers(&[buffer]) }?;
        self.ring = Some(ring);
        Ok(())
    }

    /// Makes the kernel fill `bytes` bytes, from byte `from` on, with those of `file`.
    fn read_from(&mut self, file: &File, from: usize, bytes: usize) {
        let ring = self.ring.as_mut().unwrap();
        // SAFETY: in the buffer that was registered.
        let to = unsafe { self.at.add(from) };
        let entry = opcode::ReadFixed::new(types::Fd(file.as_raw_fd()), to, bytes as u32, 0).build();
        // SAFETY: the buffer and the file stay until the read has ended, below.
        unsafe { ring.submission().push(&entry) }.unwrap();
        ring.submit_and_wait(1).unwrap();
        assert_eq!(ring.completion().next().unwrap().result(), bytes as i32);
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: nobody writes while the test looks.
        unsafe { std::slice::from_raw_parts(self.at, BYTES) }
    }

    fn region(&self) -> Region {
        // SAFETY: the memory stays for as long as it is protected.
        unsafe { Region::new("x", self.at, BYTES as u64) }.unwrap()
    }
}

/// A file of random bytes on a disk.
fn random_file(folder: &Path, seed: u64) -> File {
    let path: PathBuf = folder.join(format!("random.{seed}"));
    let mut bytes = vec![0; BYTES];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    File::open(path).unwrap()
}

fn saved(session: &mut Session) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    session.get(None, "x", &mut bytes).unwrap();
    bytes
}

/// The profile of the newest revision in the space.
fn profile(space: &Path) -> Profile {
    let survey = SpaceSurvey::open(space).unwrap();
    let newest = survey.revisions.iter().max_by_key(|revision| revision.key.number).unwrap();
    newest.shards[0].manifest().unwrap().unwrap().annex.profile.unwrap()
}

/// The way in which a job finds changes, until Mainstay knows of a writer past the page tables.
#[derive(Debug, Clone, Copy)]
struct Case {
    capture: Capture,
    predictor: Predictor,
    in_pieces: bool,
    /// The ring is closed before the checkpoint.
    is_closed: bool,
}

fn checkpoint(session: &mut Session, in_pieces: bool) {
    if in_pieces {
        session.begin(4096).unwrap();
        session.write("piece", 0, &[7; 4096]).unwrap();
    }
    session.checkpoint().unwrap();
    session.wait().unwrap();
}

/// Returns `false` if no buffer can be registered here.
fn what_changed_is_found(case: Case, folder: &Path, files: &[File]) -> bool {
    let Case { capture, predictor, in_pieces, is_closed } = case;
    let space = folder.join(format!("{capture:?}-{predictor:?}-{in_pieces}-{is_closed}"));
    let mut plain = vec![1; BYTES];
    let mut memory = Memory::new(plain.as_mut_ptr());
    let tick_every = Duration::ZERO;
    let config = Config { capture, predictor, tick_every, snapshot_bytes: Some(0), ..Config::default() };
    let mut session = Session::open(Box::new(Solo), &space, config).unwrap();
    session.protect(memory.region()).unwrap();
    for value in 2..4 {
        plain[..4 << 20].fill(value);
        checkpoint(&mut session, in_pieces);
    }
    let before = profile(&space).found_by;
    if let Err(error) = memory.registered() {
        tell!("nothing tested: no buffer can be registered with io_uring here: {error}");
        return false;
    }
    if predictor == Predictor::Told {
        plain[..8 << 20].fill(4);
        session.settled("x", 0, 8 << 20).unwrap();
        bounded("what is saved early", || {
            while session.speculation().unwrap().waiting > 0 {
                thread::sleep(Duration::from_millis(1));
            }
        });
    }
    // Registration marks all pages as written. When the second file comes, no page is marked.
    for (file, from) in files.iter().zip([100 << 10, 3 << 20]) {
        if memory.ring.is_none() {
            memory.registered().unwrap();
        }
        memory.read_from(file, from, 5 << 20);
        if is_closed {
            memory.ring = None;
        }
        checkpoint(&mut session, in_pieces);
        assert!(saved(&mut session) == memory.bytes(), "{case:?}: stale pages, which were found by {before:?} before");
    }
    // When a ring closes, the system marks its pinned pages as written.
    assert_eq!(profile(&space).found_by == FoundBy::Hashes, !is_closed, "{case:?}");
    session.close().unwrap();
    true
}

/// A snapshot protects memory from writes until it is copied, but these writes do not fault.
fn snapshots_are_of_one_moment(folder: &Path, files: &[File]) {
    let space = folder.join("snapshot");
    let config = Config { capture: Capture::Snapshot, snapshot_bytes: Some(0), ..Config::default() };
    let mut session = Session::open(Box::new(Solo), &space, config).unwrap();
    let own = session.allocate("x", BYTES as u64, Allocated::default()).unwrap();
    let mut memory = Memory::new(own.address());
    session.protect(memory.region()).unwrap();
    memory.registered().unwrap();
    for file in files {
        let now = memory.bytes().to_vec();
        session.checkpoint().unwrap();
        memory.read_from(file, 0, BYTES);
        session.wait().unwrap();
        assert!(saved(&mut session) == now, "bytes of after the checkpoint were saved");
    }
    assert_eq!(profile(&space).copied_by, CopiedBy::Clone);
    session.close().unwrap();
}

#[test]
fn what_is_written_past_the_pages_is_saved_as_it_is_all_the_same() {
    let folder = TempDir::new().unwrap();
    let files = [1, 2].map(|seed| random_file(folder.path(), seed));
    let by_pages =
        Case { capture: Capture::Incremental, predictor: Predictor::Off, in_pieces: false, is_closed: false };
    let cases = [
        by_pages,
        Case { in_pieces: true, ..by_pages },
        Case { predictor: Predictor::Told, ..by_pages },
        Case { is_closed: true, ..by_pages },
        Case { predictor: Predictor::Told, is_closed: true, ..by_pages },
        Case { capture: Capture::IncrementalSnapshot, ..by_pages },
    ];
    if cases.into_iter().all(|case| what_changed_is_found(case, folder.path(), &files)) {
        snapshots_are_of_one_moment(folder.path(), &files);
    }
}

//! The kernel writes to buffers that are registered with io_uring past the pages of the process, as a device writes to memory
//! that is pinned for it. One such buffer switches the whole process: this test is alone in its file.
#![expect(unsafe_code, reason = "regions are memory of the program")]

#[macro_use]
mod support;

use io_uring::{IoUring, opcode, types};
use mainstay_engine::{
    Allocated, Capture, Config, Region, Session, SpaceSurvey, Track,
    group::Solo,
    space::format::{CopiedBy, FoundBy, Profile},
};
use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const BYTES: usize = 32 << 20;

/// Memory of the program, which the kernel writes once it is `registered`.
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

    /// Has the kernel fill `bytes` bytes from byte `from` on with those of `file`.
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

/// A file of random bytes, on a disk.
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

/// What the newest revision of the space says of how its shard was staged.
fn profile(space: &Path) -> Profile {
    let survey = SpaceSurvey::open(space).unwrap();
    let newest = survey.revisions.iter().max_by_key(|revision| revision.key.number).unwrap();
    newest.shards[0].manifest().unwrap().unwrap().annex.profile.unwrap()
}

#[test]
fn what_is_written_past_the_pages_is_saved_as_it_is_all_the_same() {
    let folder = TempDir::new().unwrap();
    let files = [1, 2].map(|seed| random_file(folder.path(), seed));
    // By pages at first, where they are told.
    let mut plain = vec![1; BYTES];
    let mut memory = Memory::new(plain.as_mut_ptr());
    let space = folder.path().join("pages");
    let config = Config { capture: Capture::Incremental, track: Track::Auto, ..Config::default() };
    let mut session = Session::open(Box::new(Solo), &space, config).unwrap();
    session.protect(memory.region()).unwrap();
    session.checkpoint().unwrap();
    session.checkpoint().unwrap();
    session.wait().unwrap();
    let before = profile(&space).found_by;
    if let Err(error) = memory.registered() {
        tell!("nothing tested: no buffer can be registered with io_uring here: {error}");
        return;
    }
    // All pages count as written when they are registered, and none when the second file comes.
    for (file, from) in files.iter().zip([100 << 10, 3 << 20]) {
        memory.read_from(file, from, 5 << 20);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        assert!(saved(&mut session) == memory.bytes(), "stale pages, which were found by {before:?} before");
    }
    assert_eq!(profile(&space).found_by, FoundBy::Hashes);
    session.close().unwrap();

    // Memory that is protected from writes until it is copied.
    let space = folder.path().join("snapshot");
    let config = Config { capture: Capture::Snapshot, snapshot_bytes: Some(0), ..Config::default() };
    let mut session = Session::open(Box::new(Solo), &space, config).unwrap();
    let own = session.allocate("x", BYTES as u64, Allocated::default()).unwrap();
    let mut memory = Memory::new(own.address());
    session.protect(memory.region()).unwrap();
    memory.registered().unwrap();
    for file in &files {
        let now = memory.bytes().to_vec();
        session.checkpoint().unwrap();
        memory.read_from(file, 0, BYTES);
        session.wait().unwrap();
        assert!(saved(&mut session) == now, "bytes of after the checkpoint were saved");
    }
    assert_eq!(profile(&space).copied_by, CopiedBy::Clone);
    session.close().unwrap();
}

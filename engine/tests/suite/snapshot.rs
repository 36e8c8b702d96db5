//! With `capture = "snapshot"` the program goes on before its memory is copied, and the revision has the memory of the
//! checkpoint, even if the program writes meanwhile.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::{bounded, often, run};
use fastrand::Rng;
use mainstay_engine::{
    Allocated, Capture, Config, ErrorKind, LevelPlace, Region, Session, SpaceSurvey, Stage, Start, group::Group,
    space::format::CopiedBy,
};
use std::{
    cmp::Reverse,
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    ptr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap()
}

/// Snapshots of all memory that allows them.
fn snapshots() -> Config {
    Config { capture: Capture::Snapshot, snapshot_bytes: Some(0), start: Start::Fresh, ..Config::default() }
}

fn open(group: Box<dyn Group>, space: &Path, config: &Config) -> Session {
    Session::open(group, space, config.clone()).unwrap()
}

/// Memory of a program, written by several threads.
#[derive(Clone, Copy)]
struct Memory {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: the tests decide which thread writes where.
unsafe impl Send for Memory {}
// SAFETY: see above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(bytes: usize) -> Memory {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Memory { at: at.cast(), bytes }
    }

    fn filled(bytes: usize, seed: u64) -> Memory {
        let memory = Memory::new(bytes);
        Rng::with_seed(seed).fill(memory.bytes_mut());
        memory
    }

    #[expect(clippy::mut_from_ref, reason = "one thread at a time asks")]
    fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: mapped, and only the caller uses it.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }

    fn region(&self, name: &str) -> Region {
        // SAFETY: the tests keep the memory for as long as it is protected.
        unsafe { Region::new(name, self.at, self.bytes as u64) }.unwrap()
    }

    /// Writes all of it, beginning with a word of each page.
    fn scribble(&self, value: u8) {
        for at in (0..self.bytes).step_by(4096) {
            // SAFETY: in the mapping.
            unsafe { self.at.add(at).write_volatile(value) };
        }
        self.bytes_mut().fill(value);
    }

    fn unmap(self) {
        // SAFETY: nothing refers to it any more.
        assert_eq!(0, unsafe { libc::munmap(self.at.cast(), self.bytes) });
    }
}

/// The way in which each shard of revision `number` was copied.
fn copied_by(space: &Path, number: u64) -> Vec<CopiedBy> {
    let survey = SpaceSurvey::open(space).unwrap();
    let revision = survey.revisions.iter().find(|revision| revision.key.number == number).unwrap();
    let of =
        |manifest: Option<mainstay_engine::space::format::Manifest>| manifest.unwrap().annex.profile.unwrap().copied_by;
    revision.shards.iter().map(|shard| of(shard.manifest().unwrap())).collect()
}

/// Clones that are children of this process and copy for it.
fn clones() -> Vec<i32> {
    newest_clones().collect()
}

/// The same, one by one, newest first: each comes as soon as it is found.
fn newest_clones() -> impl Iterator<Item = i32> {
    let own = std::process::id();
    let is_clone = move |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("Name:\tmainstay-clone\n") && status.contains(&format!("PPid:\t{own}\n"))
    };
    let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut pids: Vec<i32> = entries.collect();
    pids.sort_unstable_by_key(|pid| Reverse(*pid));
    pids.into_iter().filter(is_clone)
}

/// Waits until none of `clones` is left; other tests in this process have clones, too.
fn await_end_of(mut clones_left: Vec<i32>) {
    while !clones_left.is_empty() {
        thread::sleep(Duration::from_millis(10));
        let now = clones();
        clones_left.retain(|clone| now.contains(clone));
    }
}

fn kill(clone: i32) {
    // SAFETY: a child of this process that is not reaped yet, or no process at all.
    let _ = unsafe { libc::kill(clone, libc::SIGKILL) };
}

/// Four threads write all memory of the program from the moment at which the checkpoint returns.
#[test]
fn what_is_saved_is_the_memory_at_the_checkpoint() {
    let ways = [
        (Stage::Pool, false, CopiedBy::Clone),
        (Stage::Pool, true, CopiedBy::Clone),
        (Stage::Node, false, CopiedBy::Clone),
        (Stage::Rank, false, CopiedBy::Program),
        (Stage::Direct, false, CopiedBy::Program),
    ];
    for (index, (stage, in_memory, expected)) in (0..).zip(ways) {
        bounded(&format!("{stage:?}, in memory: {in_memory}"), || {
            let folder = folder();
            let memory = if in_memory { LevelPlace::At(folder.path().join("memory")) } else { LevelPlace::Off };
            // With stage node, data that goes straight to storage is no part of a snapshot.
            let threshold_bytes = Some(1 << 30);
            let config = Config { stage, memory, threshold_bytes, memory_copies: 1, pfs_every: 1, ..snapshots() };
            let space = folder.path().join("space");
            let mut session = open(Box::new(mainstay_engine::group::Solo), &space, &config);
            let all: Vec<Memory> =
                [5 * MIB + 77, 3 * MIB, 100, 70_000].iter().map(|bytes| Memory::filled(*bytes, index)).collect();
            for (number, memory) in all.iter().enumerate() {
                session.protect(memory.region(&format!("r{number}"))).unwrap();
            }
            for round in 1..=4 {
                let saved: Vec<Vec<u8>> = all.iter().map(|memory| memory.bytes_mut().to_vec()).collect();
                let (goes, written) = (AtomicBool::new(false), AtomicUsize::new(0));
                thread::scope(|scope| {
                    for memory in &all {
                        let (goes, written) = (&goes, &written);
                        scope.spawn(move || {
                            while !goes.load(Ordering::Acquire) {
                                std::hint::spin_loop();
                            }
                            memory.scribble(round);
                            written.fetch_add(1, Ordering::Release);
                        });
                    }
                    let number = session.checkpoint();
                    goes.store(true, Ordering::Release);
                    assert_eq!(number.unwrap(), u64::from(round));
                });
                assert_eq!(written.load(Ordering::Acquire), all.len());
                session.wait().unwrap();
                for (number, saved) in saved.iter().enumerate() {
                    let mut found = vec![0; saved.len()];
                    session.get(None, &format!("r{number}"), &mut found).unwrap();
                    assert!(found == *saved, "{stage:?}, in memory {in_memory}, round {round}, region {number}");
                }
                assert_eq!(copied_by(&space, round.into()), [expected], "{stage:?}, in memory {in_memory}");
            }
            session.close().unwrap();
            all.into_iter().for_each(Memory::unmap);
            await_end_of(clones());
        });
    }
}

/// The memory is gone, and other memory is in its place, while the clone copies.
#[test]
fn memory_may_go_while_it_is_copied() {
    let folder = folder();
    let mut session = open(Box::new(mainstay_engine::group::Solo), folder.path(), &snapshots());
    for round in 0..5 {
        let memory = Memory::filled(8 * MIB, round);
        let saved = memory.bytes_mut().to_vec();
        session.protect(memory.region("x")).unwrap();
        session.checkpoint().unwrap();
        session.unprotect("x").unwrap();
        memory.unmap();
        let other = Memory::new(8 * MIB);
        other.scribble(3);
        session.wait().unwrap();
        let mut found = vec![0; saved.len()];
        session.get(None, "x", &mut found).unwrap();
        assert!(found == saved, "round {round}");
        other.unmap();
    }
    assert_eq!(copied_by(folder.path(), 5), [CopiedBy::Clone]);
}

/// The pool holds only a part of the shard: the chunks for a snapshot are needed before.
#[test]
fn a_pool_that_is_too_small_takes_a_plain_copy() {
    let folder = folder();
    let config = Config { pool_bytes: Some(MIB as u64), chunk_bytes: Some(256 << 10), ..snapshots() };
    run(2, |rank, group| {
        let memory = Memory::filled(5 * MIB, rank as u64);
        let mut session = open(group, folder.path(), &config);
        session.protect(memory.region("x")).unwrap();
        for round in 0..3 {
            let saved = memory.bytes_mut().to_vec();
            session.checkpoint().unwrap();
            memory.scribble(round);
            session.wait().unwrap();
            let mut found = vec![0; saved.len()];
            session.get(None, "x", &mut found).unwrap();
            assert!(found == saved, "round {round}");
        }
        session.close().unwrap();
        memory.unmap();
    });
    assert_eq!(copied_by(folder.path(), 3), [CopiedBy::Program; 2]);
}

/// Memory that Mainstay allocated is copied under protection, beside other memory that a clone copies. The program's
/// threads write at once. Memory that is freed meanwhile is copied all the same.
#[test]
fn memory_of_our_own_is_copied_under_protection() {
    let expected = |capture, with_other| match (capture, with_other) {
        (Capture::Snapshot, false) => CopiedBy::Protection,
        _ => CopiedBy::Clone,
    };
    let ways = [(Capture::Snapshot, false), (Capture::Snapshot, true), (Capture::IncrementalSnapshot, false)];
    for ((capture, with_other), in_memory) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let named = format!("{capture:?}, other: {with_other}, in memory: {in_memory}");
        bounded(&named, || {
            let folder = folder();
            let space = folder.path().join("space");
            let memory = if in_memory { LevelPlace::At(folder.path().join("memory")) } else { LevelPlace::Off };
            let config = Config { capture, memory, memory_copies: 1, pfs_every: 1, ..snapshots() };
            let mut session = open(Box::new(mainstay_engine::group::Solo), &space, &config);
            let how = Allocated { same_address: true, ..Allocated::default() };
            let own =
                session.allocate(&named.replace([' ', ','], "/").replace("//", "/"), 6 * MIB as u64, how).unwrap();
            let own = Memory { at: own.address(), bytes: 5 * MIB + 1000 };
            assert!(own.bytes_mut().iter().all(|byte| *byte == 0));
            let other = Memory::filled(if with_other { 3 * MIB } else { 8 }, 9);
            session.protect(own.region("own")).unwrap();
            session.protect(other.region("other")).unwrap();
            for round in 1..=6 {
                Rng::with_seed(round).fill(own.bytes_mut());
                let saved = [own, other].map(|memory| memory.bytes_mut().to_vec());
                session.checkpoint().unwrap();
                thread::scope(|scope| {
                    for quarter in 0..4 {
                        let bytes = own.bytes / 4;
                        // SAFETY: a part of the memory that only this thread uses.
                        let part = Memory { at: unsafe { own.at.add(quarter * bytes) }, bytes };
                        scope.spawn(move || part.scribble(round as u8));
                    }
                });
                other.scribble(round as u8);
                session.wait().unwrap();
                for (name, saved) in ["own", "other"].into_iter().zip(saved) {
                    let mut found = vec![0; saved.len()];
                    session.get(None, name, &mut found).unwrap();
                    assert!(found == saved, "{named}: {name} in round {round}");
                }
                assert_eq!(copied_by(&space, round), [expected(capture, with_other)], "{named}");
            }
            session.close().unwrap();
            other.unmap();
        });
    }
}

#[test]
fn memory_of_our_own_comes_back_where_it_was() {
    let folder = folder();
    let config = Config { start: Start::Restored, ..snapshots() };
    let how = Allocated { same_address: true, ..Allocated::default() };
    let mut places = Vec::new();
    for round in 0..3_u8 {
        let mut session = open(Box::new(mainstay_engine::group::Solo), folder.path(), &config);
        let own = session.allocate("comes/back", 3 * MIB as u64, how).unwrap();
        let error = session.allocate("comes/back", 8, how).unwrap_err();
        assert!(error.to_string().contains("memory already"), "{error}");
        places.push(own.address() as usize);
        let memory = Memory { at: own.address(), bytes: 3 * MIB };
        drop(own);
        session.protect(memory.region("comes/back")).unwrap();
        let restored = session.restore().unwrap().is_some();
        assert_eq!(restored, round > 0);
        assert!(memory.bytes_mut().iter().all(|byte| *byte == round));
        memory.bytes_mut().fill(round + 1);
        session.checkpoint().unwrap();
        // A copy of it is under way.
        session.free("comes/back").unwrap();
        assert!(session.free("comes/back").is_err());
        session.close().unwrap();
    }
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
}

/// A refused allocation removed the region of that name: the next revision lacked it.
#[test]
fn memory_for_a_name_that_a_region_has_is_refused_and_the_region_stays() {
    let folder = folder();
    let memory = Memory::filled(MIB, 1);
    let mut session = open(Box::new(mainstay_engine::group::Solo), folder.path(), &snapshots());
    session.protect(memory.region("x")).unwrap();
    let error = session.allocate("x", 8, Allocated::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateName);
    assert_eq!(session.free("x").unwrap_err().kind(), ErrorKind::RegionMissing);
    session.checkpoint().unwrap();
    session.unprotect("x").unwrap();
    session.close().unwrap();
    memory.unmap();
}

/// The program copies a small state itself, because a clone would take longer, unless a setting says otherwise.
#[test]
fn little_memory_is_copied_by_the_program() {
    let folder = folder();
    let config = Config { snapshot_bytes: None, ..snapshots() };
    let memory = Memory::filled(MIB, 1);
    let mut session = open(Box::new(mainstay_engine::group::Solo), folder.path(), &config);
    session.protect(memory.region("x")).unwrap();
    session.checkpoint().unwrap();
    session.close().unwrap();
    assert_eq!(copied_by(folder.path(), 1), [CopiedBy::Program]);
    memory.unmap();
}

/// The copying process is killed. All ranks get the error of the failed revision once. The revision before is there,
/// and the next one has all changes.
#[test]
fn a_clone_that_is_killed_costs_its_revision_alone() {
    let folder = folder();
    // In a process of its own: the test kills all clones of its process, and other tests have clones.
    let ran = job("job_whose_clones_are_killed", folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by the other tests"]
fn job_whose_clones_are_killed() {
    if task().is_none() {
        return;
    }
    for capture in [Capture::Snapshot, Capture::IncrementalSnapshot] {
        bounded(&format!("{capture:?}"), || {
            let folder = folder();
            let config = Config { capture, ..snapshots() };
            // In one of these tries, a clone is killed before it is done.
            let has_failed = run(2, |rank, group| {
                let memory = Memory::filled(24 * MIB, rank as u64);
                let mut session = open(group, folder.path(), &config);
                session.protect(memory.region("x")).unwrap();
                let mut failed = 0;
                // On a busy machine a clone is often done before it is found.
                for round in 0..400_u16 {
                    memory.bytes_mut().iter_mut().step_by(8192).for_each(|byte| *byte ^= (round % 255) as u8 + 1);
                    // A rank that learns of the failure before its checkpoint returns gets the error from that
                    // checkpoint.
                    let saved = session.checkpoint().map(drop);
                    if rank == 1 {
                        newest_clones().take(2).for_each(kill);
                    }
                    let awaited = session.wait();
                    if let Err(error) = saved.and(awaited) {
                        assert!(error.to_string().contains("ended by signal 9"), "{error}");
                        failed += 1;
                        // The error comes once.
                        session.wait().unwrap();
                    }
                    let saved = memory.bytes_mut().to_vec();
                    memory.bytes_mut()[5 * 4096] ^= 0x55;
                    let saved = if round % 2 == 0 { memory.bytes_mut().to_vec() } else { saved };
                    if round % 2 == 1 {
                        memory.bytes_mut()[5 * 4096] ^= 0x55;
                    }
                    session.checkpoint().unwrap();
                    session.wait().unwrap();
                    let mut found = vec![0; saved.len()];
                    session.get(None, "x", &mut found).unwrap();
                    assert!(found == saved, "{capture:?}, round {round}");
                    if failed > 1 {
                        break;
                    }
                }
                session.close().unwrap();
                memory.unmap();
                failed
            });
            assert!(has_failed[0] > 0 && has_failed[0] == has_failed[1], "{has_failed:?}");
        });
    }
}

const TASK: &str = "MAINSTAY_TEST_SNAPSHOT";

fn job(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", &format!("snapshot::{name}"), "--ignored", "--nocapture"]).env(TASK, folder);
    command
}

fn task() -> Option<PathBuf> {
    env::var_os(TASK).map(PathBuf::from)
}

/// The system refuses new processes: everything is saved all the same, and a line on standard error says how.
#[test]
fn without_room_for_a_clone_the_program_copies_and_says_so() {
    let folder = folder();
    let ran = job("job_without_clones", folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("no snapshot could be taken")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].starts_with("mainstay: "), "{said}");
    assert_eq!(copied_by(&folder.path().join("space"), 3), [CopiedBy::Program]);
}

#[test]
#[ignore = "run by the other tests"]
fn job_without_clones() {
    let Some(folder) = task() else { return };
    let memory = Memory::filled(6 * MIB, 2);
    let mut session = open(Box::new(mainstay_engine::group::Solo), &folder.join("space"), &snapshots());
    session.protect(memory.region("x")).unwrap();
    refuse_clones();
    for round in 0..3 {
        let saved = memory.bytes_mut().to_vec();
        session.checkpoint().unwrap();
        memory.scribble(round);
        session.wait().unwrap();
        let mut found = vec![0; saved.len()];
        session.get(None, "x", &mut found).unwrap();
        assert!(found == saved);
    }
    session.close().unwrap();
}

/// In this thread, the system now refuses the call that makes a process by copying this one. Another call makes
/// threads.
fn refuse_clones() {
    let code = |code: u32| code as u16;
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut filter = [
        step(code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), 0, 0),
        step(code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K), 1, libc::SYS_clone as u32),
        step(code(libc::BPF_RET | libc::BPF_K), 0, libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32),
        step(code(libc::BPF_RET | libc::BPF_K), 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program outlives the calls, which confine only this thread.
    unsafe {
        assert_eq!(0, libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        assert_eq!(0, libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program));
    }
}

/// If a program is killed while its clone copies, the revision before is left, with no process and nothing in memory.
#[test]
fn a_kill_while_the_clone_copies_loses_that_revision_alone() {
    let all = [(false, Capture::Snapshot), (true, Capture::IncrementalSnapshot), (true, Capture::Snapshot)];
    for (in_memory, capture) in all.into_iter().take(often(2, 3)) {
        bounded("a job that is killed", || {
            let mut left = 0;
            for round in 0..3 {
                let folder = folder();
                let named = format!("{in_memory} {capture:?} {round}");
                let mut command = job("job_that_is_killed", folder.path());
                command.env("IN_MEMORY", if in_memory { "1" } else { "0" });
                command.env("CAPTURE", if capture == Capture::Snapshot { "snapshot" } else { "both" });
                assert!(!command.output().unwrap().status.success());
                // No process copies any more: a child ends with its parent, or at its next check.
                let begun = std::time::Instant::now();
                while orphans_remain() {
                    assert!(begun.elapsed().as_secs() < 20, "a clone remains");
                    thread::yield_now();
                }
                let config = killed_config(folder.path(), in_memory, capture);
                let memory = Memory::new(16 * MIB);
                let mut session = open(Box::new(mainstay_engine::group::Solo), &folder.path().join("space"), &config);
                session.protect(memory.region("x")).unwrap();
                let restored = session.restore().unwrap().unwrap().revision;
                assert!(restored == 2 || restored == 3, "{named}: {restored}");
                left += u64::from(restored == 2);
                let expected = Memory::filled(16 * MIB, restored);
                assert!(expected.bytes_mut() == memory.bytes_mut(), "{named}: revision {restored}");
                session.checkpoint().unwrap();
                session.close().unwrap();
                memory.unmap();
                expected.unmap();
                let pools = fs::read_dir(folder.path().join("pools")).unwrap();
                let kept: u64 =
                    pools.map(|file| std::os::unix::fs::MetadataExt::blocks(&file.unwrap().metadata().unwrap())).sum();
                assert_eq!(kept, 0, "{named}: something is left of the pool");
            }
            assert!(left > 0, "{in_memory}, {capture:?}: never killed while a clone copied");
        });
    }
}

fn killed_config(folder: &Path, in_memory: bool, capture: Capture) -> Config {
    let pool_directory = folder.join("pools");
    fs::create_dir_all(&pool_directory).unwrap();
    let memory = if in_memory { LevelPlace::At(folder.join("memory")) } else { LevelPlace::Off };
    let memory_after = mainstay_engine::MemoryAfter::Kept;
    let start = Start::Restored;
    Config { capture, memory, memory_copies: 1, pool_directory, memory_after, pfs_every: 5, start, ..snapshots() }
}

/// Whether a clone is left without its program.
fn orphans_remain() -> bool {
    let field = |status: &str, name| {
        status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned())).unwrap_or_default()
    };
    let is_orphan = |pid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = fs::read_link(format!("/proc/{}/exe", field(&status, "PPid:"))).unwrap_or_default();
        let is_clone = field(&status, "Name:") == "mainstay-clone" && !field(&status, "State:").starts_with('Z');
        is_clone && parent != env::current_exe().unwrap()
    };
    let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    entries.into_iter().any(is_orphan)
}

#[test]
#[ignore = "run by the other tests"]
fn job_that_is_killed() {
    let Some(folder) = task() else { return };
    let capture =
        if env::var("CAPTURE").unwrap() == "snapshot" { Capture::Snapshot } else { Capture::IncrementalSnapshot };
    let config = killed_config(&folder, env::var("IN_MEMORY").unwrap() == "1", capture);
    let memory = Memory::filled(16 * MIB, 1);
    let mut session = open(Box::new(mainstay_engine::group::Solo), &folder.join("space"), &config);
    session.protect(memory.region("x")).unwrap();
    for step in 1..=3 {
        Rng::with_seed(step).fill(memory.bytes_mut());
        session.checkpoint().unwrap();
        if step < 3 {
            session.wait().unwrap();
        }
    }
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    panic!("{}", io::Error::last_os_error());
}

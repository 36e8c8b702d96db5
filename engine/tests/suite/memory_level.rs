//! Memory as the nearest level: the program's data is copied straight into its portions, and nowhere else.

use crate::support::{
    bounded,
    program::{Mark, Program},
    run,
    stuck::stuck,
};
use mainstay_engine::{
    Capture, Config, ErrorKind, LevelKind, LevelPlan, MemoryAfter, Region, Session, SpaceSurvey,
    device::{Device, Disk},
    group::Group,
};
use nix::sys::signal::{Signal, raise};
use std::{
    env,
    ffi::CString,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    ptr,
    sync::{Arc, Barrier},
};
use tempfile::TempDir;

const RANKS: usize = 2;
/// The job is killed in the revision of this step. By then it writes again to memory that earlier roots have freed.
const LAST: u64 = 4;
/// More bytes than Mainstay hashes at a time.
const BYTES: usize = 5_000_000;

/// The memory of a node with its pools, and the space behind it.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir_in("/dev/shm").unwrap());
        ["memory", "pools", "space"].iter().for_each(|name| fs::create_dir(place.path(name)).unwrap());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn job<T: Send>(&self, ranks: usize, work: impl Fn(usize, Program, Session) -> T + Sync) -> Vec<T> {
        self.job_with(ranks, Capture::Whole, work)
    }

    fn job_with<T: Send>(
        &self,
        ranks: usize,
        capture: Capture,
        work: impl Fn(usize, Program, Session) -> T + Sync,
    ) -> Vec<T> {
        bounded("a job in memory", || {
            run(ranks, |rank, group| {
                let memory = Arc::new(Disk::existing(&self.path("memory")));
                let (program, session) = begin(group, self.0.path(), memory, capture);
                work(rank, program, session)
            })
        })
    }

    /// The restored step, equal on all ranks.
    fn restored(&self, ranks: usize) -> Option<u64> {
        let restored = self.job(ranks, |_, mut program, mut session| {
            let mark = program.restore(&mut session).unwrap();
            session.close().unwrap();
            mark.map(|mark| mark.step)
        });
        assert!(restored.iter().all(|other| *other == restored[0]), "{restored:?}");
        restored[0]
    }

    /// The layout files in memory.
    fn layouts(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.path("memory")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut layouts: Vec<String> = names.filter(|name| name.starts_with("layout-")).collect();
        layouts.sort();
        layouts
    }

    /// The memory that the files of pools take.
    fn pool_bytes(&self) -> u64 {
        let files = fs::read_dir(self.path("pools")).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
    }
}

/// Opens a session with memory in `folder` as its nearest level, and a space behind it that takes no revision.
fn begin(group: Box<dyn Group>, folder: &Path, memory: Arc<dyn Device>, capture: Capture) -> (Program, Session) {
    let mut program = Program::new(group.rank());
    let space: Arc<dyn Device> = Arc::new(Disk::existing(&folder.join("space")));
    let plan = |kind, device, every| LevelPlan { kind, device, every, keep: 1, copies: Vec::new(), former: Vec::new() };
    let plans = vec![plan(LevelKind::Memory, memory, 1), plan(LevelKind::Pfs, space, 0)];
    let pool_directory = folder.join("pools");
    let config = Config { capture, pool_directory, memory_after: MemoryAfter::Kept, ..Config::default() };
    let mut session = Session::open_levels(group, plans, config).unwrap();
    program.protect(&mut session).unwrap();
    (program, session)
}

fn save(program: &mut Program, session: &mut Session, step: u64, bytes: usize) {
    program.fill(session, Mark { run: 1, step }, bytes).unwrap();
    session.checkpoint().unwrap();
}

#[test]
fn what_is_saved_lies_in_the_portions_alone() {
    for (ranks, capture) in [(1, Capture::Whole), (3, Capture::Whole), (2, Capture::Incremental)] {
        let place = Place::new();
        place.job_with(ranks, capture, |rank, mut program, mut session| {
            // Several revisions of each size, because each goes to other blocks than the last. The large ones need a
            // larger layout.
            for (step, bytes) in (1..).zip([BYTES, BYTES, BYTES - 3, BYTES, 3 * BYTES, 3 * BYTES, 1]) {
                save(&mut program, &mut session, step, bytes + rank);
                // The tables of the pool, and a record for each rank.
                assert!(place.pool_bytes() < 1 << 20, "{} bytes in the pool", place.pool_bytes());
                session.wait().unwrap();
            }
            session.close().unwrap();
        });
        let survey = SpaceSurvey::open(&place.path("memory")).unwrap();
        let newest = survey.newest().unwrap();
        let profile = newest.shards[0].manifest().unwrap().unwrap().annex.profile.unwrap();
        assert_eq!((profile.pool_bytes, newest.shards[0].phases.chunks), (0, 0));
        assert_eq!(place.restored(ranks), Some(7));
        assert_eq!(place.pool_bytes(), 0, "nothing is left of the pool");
    }
}

/// Story: the first checkpoint made the portions, and waited for memory that nobody had touched.
#[test]
fn a_restore_makes_the_portions_for_what_is_protected() {
    for (ranks, protected) in [(1, BYTES), (3, BYTES), (1, 10), (3, 10)] {
        let place = Place::new();
        place.job(ranks, |_, mut program, mut session| {
            program.fill(&mut session, Mark { run: 0, step: 0 }, protected).unwrap();
            assert_eq!(program.restore(&mut session).unwrap(), None);
            let made = place.layouts();
            assert_eq!(made.len(), ranks);
            save(&mut program, &mut session, 1, BYTES);
            session.wait().unwrap();
            // Portions that are too small are removed: they have no revision, and there might be no room for both.
            let now = place.layouts();
            assert_eq!((now == made, now.len()), (protected == BYTES, ranks), "{made:?}, then {now:?}");
            session.close().unwrap();
        });
        assert_eq!(place.restored(ranks), Some(1));
    }
}

/// A job is killed at some writes of a revision. The next start completes the staged data from the blocks where it was
/// staged.
#[test]
fn what_was_staged_in_memory_survives_a_kill() {
    for capture in ["whole", "incremental"] {
        let completed = (0..14).step_by(2).filter(|writes| is_completed(*writes, capture)).count();
        assert!(completed > 0, "{capture}: none was killed between t2 and t3");
    }
}

/// Runs a job that is killed after so many writes of its last revision. Returns whether the next start had to complete
/// that revision.
fn is_completed(writes: u64, capture: &str) -> bool {
    let place = Place::new();
    let job = Command::new(env::current_exe().unwrap())
        .args(["--exact", "memory_level::job_that_is_killed", "--ignored", "--nocapture"])
        .env("MEMORY_FOLDER", place.0.path())
        .env("MEMORY_WRITES", writes.to_string())
        .env("MEMORY_CAPTURE", capture)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(!job.success(), "{job}");
    let published = SpaceSurvey::open(&place.path("memory")).unwrap().newest().map(|newest| newest.key.number);
    let staged = place.path("staged").exists();
    let restored = place.restored(RANKS).unwrap();
    // All data may have been staged without a record of it.
    assert!(restored == LAST || restored == LAST - 1 && !staged, "{restored} after {writes} writes");
    assert_eq!(place.pool_bytes(), 0, "after {writes} writes something is left of the pool");
    assert_eq!(place.restored(RANKS), Some(restored), "and again");
    staged && published == Some(LAST - 1)
}

#[test]
#[ignore = "run by the other tests"]
fn job_that_is_killed() {
    let Some(folder) = env::var_os("MEMORY_FOLDER").map(PathBuf::from) else { return };
    let writes = env::var("MEMORY_WRITES").unwrap().parse().unwrap();
    let is_incremental = env::var("MEMORY_CAPTURE").is_ok_and(|capture| capture == "incremental");
    let capture = if is_incremental { Capture::Incremental } else { Capture::Whole };
    let memory = stuck(Disk::existing(&folder.join("memory")));
    let together = Barrier::new(RANKS);
    let rank = |rank, group| {
        let (mut program, mut session) = begin(group, &folder, Arc::new(memory.clone()), capture);
        for step in 1..LAST {
            save(&mut program, &mut session, step, BYTES);
            session.wait().unwrap();
        }
        together.wait();
        if rank == 0 {
            memory.between.kills_after(writes);
        }
        together.wait();
        save(&mut program, &mut session, LAST, BYTES);
        together.wait();
        if rank == 0 {
            // The process must not end before this file exists.
            fs::write(folder.join("staged"), "").unwrap();
            raise(Signal::SIGKILL).unwrap();
        }
        together.wait();
    };
    bounded("a job that is killed", || run(RANKS, rank));
}

/// This thread, and those that it starts, see the control groups in `folder`. Returns false if that is not permitted.
#[expect(unsafe_code, reason = "calls of the system")]
fn sees_control_groups(folder: &Path) -> bool {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let (folder, groups, root) = (text(folder), text(Path::new("/sys/fs/cgroup")), text(Path::new("/")));
    let mount = |from: &CString, at: &CString, flags| {
        // SAFETY: texts that end with a zero byte.
        unsafe { libc::mount(from.as_ptr(), at.as_ptr(), ptr::null(), flags, ptr::null()) == 0 }
    };
    // SAFETY: the call takes no memory.
    let is_apart = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
    is_apart && mount(&root, &root, libc::MS_REC | libc::MS_PRIVATE) && mount(&folder, &groups, libc::MS_BIND)
}

/// Files in memory count for the control group, and the system kills a job above the limit. Story: the kill came within
/// the restore.
#[test]
fn a_control_group_without_room_is_told_by_the_restore() {
    const LIMIT: &str = "9000000\n";
    let (place, groups) = (Place::new(), TempDir::new().unwrap());
    fs::create_dir(groups.path().join("memory")).unwrap();
    for (name, text) in [
        ("memory.max", LIMIT),
        ("memory.current", "1000\n"),
        ("memory/memory.limit_in_bytes", LIMIT),
        ("memory/memory.usage_in_bytes", "1000\n"),
    ] {
        fs::write(groups.path().join(name), text).unwrap();
    }
    if !sees_control_groups(groups.path()) {
        return;
    }
    let restored = |bytes: usize| {
        place.job(RANKS, move |_, _, mut session| {
            let mut state = vec![0_u8; bytes];
            // SAFETY: it stays as long as the session.
            #[expect(unsafe_code, reason = "a region is memory")]
            let region = unsafe { Region::new("state", state.as_mut_ptr(), bytes as u64) }.unwrap();
            session.protect(region).unwrap();
            let restored = session.restore();
            session.unprotect("state").unwrap();
            restored
        })
    };
    for told in restored(3_000_000) {
        let error = told.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        let text = error.to_string();
        let words = ["within the limit on the memory of this job's control group", "8999000 are free"];
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    restored(100_000).into_iter().for_each(|told| assert_eq!(told.unwrap(), None));
}

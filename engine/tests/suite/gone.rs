//! Files of a space that differ from the job's: anything but a regular file counts as gone, a file that is too long is
//! cut, and data that has another source is found.
#![expect(unsafe_code, reason = "regions are memory of the program, and file systems are mounted")]

use crate::support::run;
use mainstay_engine::{
    Config, ErrorKind, LevelPlace, MemoryAfter, Region, Result, Session, Stage,
    group::{Group, Solo},
    predict::{Ends, Kind, Moment, Reader, Replay, Speed, Writer, Written},
    status::{Event, Journal, Status},
};
use nix::{
    sys::stat::{Mode, SFlag, mknod},
    unistd::mkfifo,
};
use std::{
    env,
    ffi::CString,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    ptr,
    sync::Barrier,
    thread,
};
use tempfile::TempDir;

const BYTES: usize = 300_000;

/// A space with a level in memory before it. The level takes every revision, the space every second one.
struct Place(TempDir);

impl Place {
    /// A place with three revisions. The second is the newest in the space.
    fn saved() -> Place {
        let place = Place(tempfile::tempdir_in("/dev/shm").unwrap());
        assert_eq!(place.job(3).unwrap(), None);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Opens the session, restores and saves. Returns the number of the restored revision.
    fn job(&self, saves: u64) -> Result<Option<u64>> {
        job_with_memory(self.0.path(), saves)
    }

    fn level(&self) -> PathBuf {
        only(&self.path("memory"), "mainstay-level-")
    }

    fn journal(&self) -> Journal {
        Journal::read(&self.path("space")).unwrap().unwrap()
    }
}

fn job_with_memory(folder: &Path, saves: u64) -> Result<Option<u64>> {
    let memory = LevelPlace::At(folder.join("memory"));
    let config = Config { memory, memory_after: MemoryAfter::Kept, pfs_every: 2, ..Config::default() };
    job(Box::new(Solo), &folder.join("space"), config, saves)
}

fn job(group: Box<dyn Group>, space: &Path, config: Config, saves: u64) -> Result<Option<u64>> {
    let mut state = vec![0_u8; BYTES];
    let mut session = Session::open(group, space, config)?;
    // SAFETY: the state outlives the session.
    let region = unsafe { Region::new("x", state.as_mut_ptr(), BYTES as u64) }?;
    session.protect(region)?;
    let restored = session.restore()?.map(|restored| restored.revision);
    assert!(state.iter().all(|byte| u64::from(*byte) == restored.unwrap_or(0)), "{restored:?}");
    for step in restored.unwrap_or(0) + 1..=restored.unwrap_or(0) + saves {
        state.fill(step as u8);
        session.checkpoint()?;
        session.wait()?;
    }
    session.close()?;
    Ok(restored)
}

/// The only entry of `folder` with a name that begins like this.
fn only(folder: &Path, begin: &str) -> PathBuf {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(begin)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

type Replace = fn(&Path);

type PathIn = fn(&Place) -> PathBuf;

const OTHERS: [(&str, Replace); 4] = [
    ("a directory", |path| fs::create_dir_all(path.join("within")).unwrap()),
    ("a pipe", |path| mkfifo(path, Mode::S_IRWXU).unwrap()),
    ("a socket", |path| mknod(path, SFlag::S_IFSOCK, Mode::S_IRWXU, 0).unwrap()),
    ("a link", |path| symlink("/dev/zero", path).unwrap()),
];

/// Story: the start was refused, though the copy beside the file was whole.
#[test]
fn what_is_no_regular_file_counts_as_gone() {
    for (what, replace) in OTHERS {
        let files: [(&str, Option<u64>, PathIn); 6] = [
            ("the layout in memory", Some(2), |place| only(&place.level(), "layout-")),
            ("the layout in the space", Some(3), |place| only(&place.path("space"), "layout-")),
            ("the lock in memory", Some(3), |place| place.level().join("lock")),
            ("the lock in the space", Some(3), |place| place.path("space/lock")),
            ("levels", Some(3), |place| place.path("space/levels")),
            ("levels.copy", Some(3), |place| place.path("space/levels.copy")),
        ];
        for (file, expected, path) in files {
            let place = Place::saved();
            let path = path(&place);
            fs::remove_file(&path).unwrap();
            replace(&path);
            let told = |job: Result<Option<u64>>| job.unwrap_or_else(|error| panic!("{file} is {what}: {error}"));
            assert_eq!(told(place.job(2)), expected, "{file} is {what}");
            assert_eq!(told(place.job(0)), expected.map(|number| number + 2), "{file} was {what}");
        }
        let place = Place::saved();
        for name in ["status", "journal"] {
            fs::remove_file(place.path("space").join(name)).unwrap();
            replace(&place.path("space").join(name));
        }
        assert!(Status::read(&place.path("space")).unwrap().is_none(), "{what}");
        assert!(Journal::read(&place.path("space")).unwrap().is_none(), "{what}");
        assert_eq!(place.job(1).unwrap(), Some(3), "{what}");
        assert!(Status::read(&place.path("space")).unwrap().is_some(), "{what}");
        assert!(place.journal().entries.iter().any(|entry| matches!(entry.event, Event::Opened(_))), "{what}");
    }
}

/// Story: the thread that touches the pages of a level filled the memory of the machine.
#[test]
fn a_file_in_memory_that_is_too_long_is_given_no_more_memory_than_it_was_made_for() {
    let place = Place::saved();
    let layout = only(&place.level(), "layout-");
    let before = layout.metadata().unwrap();
    File::options().write(true).open(&layout).unwrap().set_len(before.len() + (1 << 28)).unwrap();
    assert_eq!(place.job(2).unwrap(), Some(3));
    let after = layout.metadata().unwrap();
    assert!(after.blocks() * 512 <= before.len() + (4 << 20), "{} bytes have memory", after.blocks() * 512);
    assert_eq!(place.job(0).unwrap(), Some(5));
}

/// Story: the close read the zeros of the file for ever.
#[test]
fn a_journal_that_is_too_long_is_made_shorter() {
    let place = Place::saved();
    let journal = place.path("space/journal");
    let before = place.journal().entries.len();
    File::options().write(true).open(&journal).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(place.journal().entries.len(), 0, "only the end is read");
    assert_eq!(place.job(1).unwrap(), Some(3));
    assert!(journal.metadata().unwrap().len() < 1 << 20);
    assert!((1..before).contains(&place.journal().entries.len()));
    assert_eq!(place.job(1).unwrap(), Some(4));
}

/// Story: a replay took gigabytes for a trace of 1.8 KB with one flipped bit. For a trace with overlapping stretches it
/// did not end.
#[test]
fn a_trace_that_lies_is_refused_or_costs_no_more_than_its_pages() {
    let record = |at_us: u64, stretches: Vec<(u64, u64)>| {
        let moment = if at_us == 0 { Moment::Iteration } else { Moment::Tick };
        Written { moment, at_us, resident: 100, stretches }
    };
    let replayed = |records: &[Written]| {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        records.iter().for_each(|record| writer.write(record).unwrap());
        let ends = Ends { iterations: 1, inside: false, ticks: None };
        let mut replay = Replay::new(ends, Speed::Share(0.25), 0, &Kind::ALL.map(|(kind, _)| kind), None).unwrap();
        Reader::new(&bytes[..], "it").try_for_each(|record| replay.record(&record?))
    };
    let sound = |at_us| record(at_us, vec![(1 << 30, 10)]);
    replayed(&[sound(0), sound(1), sound(2)]).unwrap();
    let flipped = replayed(&[sound(0), record(1, vec![(1 << 30, 10 | 1 << 27)])]).unwrap_err().to_string();
    assert!(flipped.contains("more pages than any process writes"), "{flipped}");
    let twice: Vec<(u64, u64)> = (0..1 << 14).map(|number| ((1 << 30) + number % 3, 4)).collect();
    replayed(&(0..200).map(|at_us| record(at_us, twice.clone())).collect::<Vec<_>>()).unwrap();
}

/// Story: the job went on from an older revision without a message, and the directories of the levels stayed for ever.
#[test]
fn levels_are_found_by_the_copy_of_their_file() {
    type Harm = fn(&Path);
    let harms: [Harm; 2] = [|path| fs::remove_file(path).unwrap(), |path| fs::write(path, "id = \"").unwrap()];
    for harm in harms {
        for name in ["levels", "levels.copy"] {
            let place = Place::saved();
            harm(&place.path("space").join(name));
            assert_eq!(place.job(1).unwrap(), Some(3));
            only(&place.path("memory"), "mainstay-level-");
            let [file, copy] = ["levels", "levels.copy"].map(|name| fs::read(place.path("space").join(name)).unwrap());
            assert_eq!(file, copy);
        }
    }
    let place = Place::saved();
    ["levels", "levels.copy"].iter().for_each(|name| harms[1](&place.path("space").join(name)));
    let told = place.job(1).unwrap_err().to_string();
    assert!(told.contains("are only in memory or on the nodes' disks are lost"), "{told}");
}

const TASK: &str = "MAINSTAY_TEST_GONE";

/// Story: the job went on from an older revision without a message.
#[test]
fn levels_that_no_file_leads_to_are_named() {
    let place = Place::saved();
    let lost = place.level();
    ["levels", "levels.copy"].iter().for_each(|name| fs::remove_file(place.path("space").join(name)).unwrap());
    let told = said_by_job_that_goes_back(&place);
    assert!(told.contains(&format!("so revisions in {} are not found", lost.display())), "{told}");
}

/// Story: only the program could find out, by a look at `skipped`.
#[test]
fn a_restore_that_passes_over_damage_says_so() {
    let place = Place::saved();
    let layout = only(&place.level(), "layout-");
    let mut bytes = fs::read(&layout).unwrap();
    let newest = bytes.windows(100).position(|window| window == [3; 100]).unwrap();
    bytes[newest] ^= 1;
    fs::write(&layout, bytes).unwrap();
    let told = said_by_job_that_goes_back(&place);
    assert!(told.contains("mainstay: revision 2 came back; passed over: revision 3"), "{told}");
}

/// The standard error of a job that restores the second revision of `place`.
fn said_by_job_that_goes_back(place: &Place) -> String {
    let mut job = Command::new(env::current_exe().unwrap());
    job.args(["--exact", "gone::job_that_goes_back", "--ignored", "--nocapture"]).env(TASK, place.0.path());
    let ran = job.output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{told}");
    told
}

#[test]
#[ignore = "run by the other tests"]
fn job_that_goes_back() {
    let Some(folder) = env::var_os(TASK).map(PathBuf::from) else { return };
    assert_eq!(job_with_memory(&folder, 1).unwrap(), Some(2));
}

/// Story: the start was refused, though the files of the node were in the same directory.
#[test]
fn files_of_a_node_that_is_gone_are_found_in_a_directory_that_all_see() {
    for ranks in ["1", "2"] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        for (node, expected) in [("a", "None"), ("b", "Some(3)"), ("c", "Some(6)")] {
            let mut job = Command::new(env::current_exe().unwrap());
            job.args(["--exact", "gone::job_of_a_node", "--ignored", "--nocapture"]);
            job.env(TASK, folder.path()).env("RANKS", ranks).env("EXPECTED", expected).env("MAINSTAY_NODE", node);
            let ran = job.output().unwrap();
            let told = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success(), "{ranks} ranks on node {node}: {told}");
        }
    }
}

#[test]
#[ignore = "run by the other test"]
fn job_of_a_node() {
    let Some(folder) = env::var_os(TASK).map(PathBuf::from) else { return };
    let ranks = env::var("RANKS").unwrap().parse().unwrap();
    run(ranks, |_, group| {
        let disk = LevelPlace::At(folder.join("disk"));
        let config = Config { disk, disk_every: 1, pfs_every: 0, ..Config::default() };
        let restored = job(group, &folder.join("space"), config, 3).unwrap();
        assert_eq!(format!("{restored:?}"), env::var("EXPECTED").unwrap());
    });
}

/// Story: a start makes a file for an instant, so every start was refused. No message said that inodes were lacking.
#[test]
fn a_job_of_one_rank_starts_without_a_free_inode() {
    let folder = TempDir::new().unwrap();
    thread::scope(|scope| {
        let started = scope.spawn(|| {
            if let Err(error) = mount(folder.path(), "size=16m,nr_inodes=16") {
                eprintln!("skipped: mounting a small file system: {error}");
                return;
            }
            let (space, config) = (folder.path().join("space"), Config { stage: Stage::Direct, ..Config::default() });
            assert_eq!(job(Box::new(Solo), &space, config.clone(), 1).unwrap(), None);
            let full =
                (0..).map(|number| File::create_new(space.join(format!("file-{number}")))).find_map(io::Result::err);
            assert_eq!(full.unwrap().raw_os_error(), Some(libc::ENOSPC));
            assert_eq!(job(Box::new(Solo), &space, config.clone(), 1).unwrap(), Some(1));
            let new = job(Box::new(Solo), &folder.path().join("new"), config, 1).unwrap_err();
            assert!(new.to_string().contains("it has no more inodes (df -i)"), "{new}");
        });
        started.join().unwrap();
    });
}

/// Story: the checkpoint failed with the error of the one before, which had been reported, although there was room.
#[test]
fn a_checkpoint_is_taken_once_there_is_room_again() {
    let folder = TempDir::new().unwrap();
    let [pools, space] = ["pools", "space"].map(|name| folder.path().join(name));
    fs::create_dir(&pools).unwrap();
    thread::scope(|scope| {
        let saved = scope.spawn(|| {
            if let Err(error) = mount(&pools, "size=16m") {
                eprintln!("skipped: mounting a small file system: {error}");
                return;
            }
            let filler = pools.join("filler");
            let config = Config { pool_directory: pools.clone(), ..Config::default() };
            for ranks in [1, 2] {
                let meet = Barrier::new(ranks);
                run(ranks, |rank, group| {
                    let mut state = vec![1_u8; 2 << 20];
                    let mut session = Session::open(group, &space.join(ranks.to_string()), config.clone()).unwrap();
                    // SAFETY: the state outlives the session.
                    let region = unsafe { Region::new("x", state.as_mut_ptr(), state.len() as u64) };
                    session.protect(region.unwrap()).unwrap();
                    session.restore().unwrap();
                    meet.wait();
                    if rank == 0 {
                        let mut file = File::create(&filler).unwrap();
                        while file.write_all(&[1; 4096]).is_ok() {}
                    }
                    meet.wait();
                    let full = session.checkpoint().unwrap_err();
                    assert_eq!(full.kind(), ErrorKind::PoolFull, "{full}");
                    meet.wait();
                    if rank == 0 {
                        fs::remove_file(&filler).unwrap();
                    }
                    meet.wait();
                    session.checkpoint().unwrap();
                    session.close().unwrap();
                });
            }
        });
        saved.join().unwrap();
    });
}

/// Story: the message counted only the bytes that a layout writes, although all of a file in memory is allocated. It
/// said that these were free, and blamed the inodes.
#[test]
fn a_layout_in_memory_without_room_names_all_bytes_that_it_takes() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = Config { stage: Stage::Direct, ..Config::default() };
    job(Box::new(Solo), folder.path(), config.clone(), 1).unwrap();
    let bytes = only(folder.path(), "layout-").metadata().unwrap().len();
    let small = TempDir::new().unwrap();
    thread::scope(|scope| {
        let started = scope.spawn(|| {
            if let Err(error) = mount(small.path(), &format!("size={bytes}")) {
                eprintln!("skipped: mounting a small file system: {error}");
                return;
            }
            let full = job(Box::new(Solo), &small.path().join("space"), config, 1).unwrap_err();
            let told = full.to_string();
            assert_eq!(full.kind(), ErrorKind::DiskFull, "{told}");
            assert!(told.contains(&format!("{bytes} bytes were to go there")) && !told.contains("inodes"), "{told}");
        });
        started.join().unwrap();
    });
}

/// Mounts a small file system. Only this thread, and the threads that it starts, see the mount.
fn mount(at: &Path, options: &str) -> io::Result<()> {
    let text = |text: &str| CString::new(text).unwrap();
    let (tmpfs, options) = (text("tmpfs"), text(options));
    let (at, root, none) = (text(at.to_str().unwrap()), text("/"), ptr::null());
    // SAFETY: the strings end in zeros, and outlive the calls.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, root.as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) == 0
            && libc::mount(tmpfs.as_ptr(), at.as_ptr(), tmpfs.as_ptr(), 0, options.as_ptr().cast()) == 0
    };
    if mounted { Ok(()) } else { Err(io::Error::last_os_error()) }
}

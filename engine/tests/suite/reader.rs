//! Reading a revision from outside a job: any byte of any item of any shard, verified, or an error.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::bytes::Layout;
use crate::support::{in_sessions, spread::Part};
use mainstay_engine::{
    Config, ErrorKind, Reader, Region, Session, SpaceSurvey,
    space::format::{ElementType, Entry, ItemKind},
    tend,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, mpsc},
    thread,
};
use tempfile::TempDir;

const GLOBAL: [u64; 3] = [7, 50, 90];

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

/// The bytes that rank `rank` writes into its stream.
fn stream(rank: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(rank as u64);
    std::iter::repeat_with(|| random.u8(..)).take(200_000 + rank).collect()
}

fn cell(revision: u64) -> impl Fn(u64) -> u64 {
    move |number| number * 1000 + revision
}

/// Runs `ranks` ranks on `space`, each with its slab and `work`.
fn job(space: &Path, ranks: usize, config: &Config, work: impl Fn(usize, &mut Session, &mut Part) + Sync) {
    in_sessions(space, ranks, config, |rank, session| {
        let mut part = Part::slab(&GLOBAL, rank, ranks);
        session.protect(part.region("u").unwrap()).unwrap();
        work(rank, session, &mut part);
        session.unprotect("u").unwrap();
    });
}

/// Saves revisions 1 to `last` of three ranks, with a stream each.
fn saved(last: u64, keep: u32) -> TempDir {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    job(folder.path(), 3, &Config { keep, ..small() }, |rank, session, part| {
        let step = Box::leak(Box::new([0_u64]));
        // SAFETY: the memory is leaked and outlives everything.
        let region = unsafe { Region::array("step", step.as_mut_ptr().cast(), ElementType::U64, &[]) };
        session.protect(region.unwrap()).unwrap();
        session.note("who", &format!("rank {rank}")).unwrap();
        for revision in 1..=last {
            step[0] = revision;
            part.fill(cell(revision));
            session.begin(1 << 20).unwrap();
            for (index, piece) in stream(rank).chunks(777).enumerate().rev() {
                session.write("log", index as u64 * 777, piece).unwrap();
            }
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
    folder
}

fn layout(space: &Path) -> PathBuf {
    let files = fs::read_dir(space).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "mainstay")).unwrap()
}

/// A path with a zero byte was called a device that fails.
#[test]
fn a_path_that_no_directory_has_is_an_argument() {
    for (path, why) in [("", "it is empty"), ("a\0b", "it has a zero byte")] {
        let refused = Reader::open(Path::new(path), None, "test").err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().starts_with(&format!("path: {why}")), "{refused}");
    }
}

#[test]
fn any_bytes_of_any_item_of_any_shard_are_those_that_were_saved() {
    let folder = saved(2, 2);
    let mut random = fastrand::Rng::with_seed(31);
    for (wanted, revision) in [(None, 2), (Some(1), 1), (Some(2), 2)] {
        let mut reader = Reader::open(folder.path(), wanted, "test").unwrap();
        assert_eq!((reader.key().number, reader.shard_count()), (revision, 3));
        for shard in 0..3 {
            let manifest = reader.shard(shard).unwrap();
            assert_eq!(manifest.annex.notes[0].value, format!("rank {shard}"));
            let log = reader.item(shard, "log").unwrap();
            assert_eq!((log.kind, log.bytes), (ItemKind::Stream, stream(shard as usize).len() as u64));
            let u = reader.item(shard, "u").unwrap();
            let part = Part::slab(&GLOBAL, shard as usize, 3);
            assert_eq!((u.element, u.kind), (ElementType::U64, ItemKind::Region));
            let place = u.place.clone().unwrap();
            assert_eq!((place.global_shape, place.offset[0]), (GLOBAL.to_vec(), part.sides[0].start));
            let u: Vec<u8> = part.numbers().into_iter().map(cell(revision)).flat_map(u64::to_le_bytes).collect();
            for (name, all) in [("u", u), ("log", stream(shard as usize)), ("step", revision.to_le_bytes().to_vec())] {
                for _ in 0..30 {
                    let from = random.usize(..=all.len() + 1);
                    let most = [10, 5000, 300_000][random.usize(..3)];
                    let mut into = vec![0; random.usize(..most)];
                    let got = reader.read(shard, name, from as u64, &mut into).unwrap();
                    let rest = &all[from.min(all.len())..];
                    assert_eq!(got, into.len().min(rest.len()), "{name} from {from}");
                    assert!(into[..got] == rest[..got], "{name} from {from}");
                }
            }
        }
    }
    // No job is at work: nothing is held, and nothing was written.
    assert!(SpaceSurvey::open(folder.path()).unwrap().holds.is_empty());
}

#[test]
fn a_box_of_the_global_array_is_put_together_from_the_shards() {
    let folder = saved(1, 1);
    let mut reader = Reader::open(folder.path(), None, "test").unwrap();
    assert_eq!(reader.global("u").unwrap(), (ElementType::U64, &GLOBAL[..]));
    let mut random = fastrand::Rng::with_seed(32);
    for _ in 0..50 {
        let sides = GLOBAL.map(|side| {
            let from = random.u64(..=side);
            from..random.u64(from..=side)
        });
        let part = Part::new(&GLOBAL, sides.to_vec());
        let offset: Vec<u64> = sides.iter().map(|side| side.start).collect();
        let shape: Vec<u64> = sides.iter().map(|side| side.end - side.start).collect();
        let mut into = vec![0; part.cells.len() * 8];
        reader.read_box("u", &offset, &shape, &mut into).unwrap();
        let expected: Vec<u8> = part.numbers().into_iter().map(cell(1)).flat_map(u64::to_le_bytes).collect();
        assert!(into == expected, "{sides:?}");
    }
    for (offset, shape, bytes, says) in [
        (vec![0, 0, 1], vec![1, 1, 90], 720, "along side 2"),
        (vec![0, 0], vec![1, 1], 8, "dimensions"),
        (vec![u64::MAX, 0, 0], vec![2, 1, 1], 16, "along side 0"),
        (vec![0, 0, 0], vec![1, 1, 2], 8, "the buffer has 8 bytes"),
    ] {
        let error = reader.read_box("u", &offset, &shape, &mut vec![0; bytes]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = reader.read_box("log", &[0], &[1], &mut [0]).unwrap_err();
    assert!(error.to_string().contains("no shard of revision 1 has a box of this name"), "{error}");
}

#[test]
fn what_is_not_there_is_told() {
    let folder = saved(2, 1);
    let open = |revision| Reader::open(folder.path(), revision, "test").err().unwrap();
    let error = open(Some(7));
    assert_eq!(error.kind(), ErrorKind::RevisionMissing);
    assert!(error.to_string().contains("no revision 7; there are: 2"), "{error}");
    let mut reader = Reader::open(folder.path(), None, "test").unwrap();
    for (shard, name, says) in [(3, "u", "shards 0 to 2"), (0, "v", "it has: log, u, step")] {
        let error = reader.read(shard, name, 0, &mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(says), "{error}");
    }
    let empty = TempDir::new().unwrap();
    assert_eq!(Reader::open(empty.path(), None, "test").err().unwrap().kind(), ErrorKind::NotASpace);
    Session::open(Box::new(mainstay_engine::group::Solo), empty.path(), small()).unwrap().close().unwrap();
    let error = Reader::open(empty.path(), None, "test").err().unwrap();
    assert!(error.kind() == ErrorKind::RevisionMissing && error.to_string().contains("no complete"), "{error}");
}

/// A flipped byte: a read of its stretch is refused, all other data is read, and no box that needs the byte is filled.
#[test]
fn damage_is_told_and_the_rest_is_read() {
    let folder = saved(1, 1);
    let mut layout = Layout::read(&layout(folder.path()));
    let item = layout.manifest(1, 1).items.into_iter().find(|item| item.name == "u").unwrap();
    layout.flip((layout.place(1).at + item.extents[0].at + 3000) as usize);
    layout.write();
    let mut reader = Reader::open(folder.path(), None, "test").unwrap();
    let mut into = [0; 10];
    let error = reader.read(1, "u", 2995, &mut into).unwrap_err();
    assert_eq!((error.kind(), into), (ErrorKind::Damaged, [0; 10]));
    assert!(error.to_string().contains("shard 1") && error.to_string().contains("mainstay verify"), "{error}");
    assert_eq!(reader.read(0, "u", 0, &mut into).unwrap(), 10);
    let rows = Part::slab(&GLOBAL, 1, 3).sides[0].clone();
    let mut line = vec![0; 90 * 8];
    let error = reader.read_box("u", &[rows.start, 0, 0], &[1, 1, 90], &mut line).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    reader.read_box("u", &[0, 0, 0], &[1, 1, 90], &mut line).unwrap();
}

/// The manifests of a shard were read once and verified: a later box is filled without reading them again.
#[test]
fn boxes_are_read_without_the_manifests_anew() {
    let folder = saved(1, 1);
    let mut layout = Layout::read(&layout(folder.path()));
    let mut reader = Reader::open(folder.path(), None, "test").unwrap();
    for shard in 0..3 {
        layout.flip(layout.manifest_range(shard, 1).start + 70);
    }
    layout.write();
    let mut into = vec![0; (GLOBAL.iter().product::<u64>() * 8) as usize];
    reader.read_box("u", &[0; 3], &GLOBAL, &mut into).unwrap();
    assert_eq!(Reader::open(folder.path(), None, "test").err().unwrap().kind(), ErrorKind::Damaged);
}

/// A root lists a revision a second time, with fewer shards. The whole revision is read.
#[test]
fn a_forged_count_of_shards_hides_nothing() {
    let folder = saved(2, 2);
    let mut layout = Layout::read(&layout(folder.path()));
    let index = layout.newest_slot(0);
    let (range, mut catalogue) = (layout.catalogue_range(0, index), layout.catalogue(0, index));
    let (first, second) = (layout.entry(0, 1), layout.entry(0, 2));
    let forged = Entry { shards: 2, ..second };
    let place = catalogue.entries.iter_mut().find(|entry| entry.number == first.number).unwrap();
    *place = forged;
    layout.forge_catalogue(0, index, range, &catalogue.build());
    layout.write();
    for wanted in [None, Some(2)] {
        let mut reader = Reader::open(folder.path(), wanted, "test").unwrap();
        assert_eq!((reader.key().number, reader.shard_count()), (2, 3));
        assert_eq!(reader.read(2, "step", 0, &mut [0; 8]).unwrap(), 8);
    }
}

/// The points where a job stops and waits until it may go on. A failing test drops `go`, so nothing waits forever.
struct Stops {
    told: mpsc::Sender<u64>,
    goes: Mutex<mpsc::Receiver<()>>,
}

impl Stops {
    fn new() -> (Stops, mpsc::Receiver<u64>, mpsc::Sender<()>) {
        let ((told, tells), (go, goes)) = (mpsc::channel(), mpsc::channel());
        (Stops { told, goes: Mutex::new(goes) }, tells, go)
    }

    fn stop(&self, revision: u64) {
        let _ = self.told.send(revision);
        let _ = self.goes.lock().unwrap().recv();
    }

    /// Two ranks save revisions 1 to `last`; they stop at the revisions in `at`.
    fn job(&self, space: &Path, config: &Config, last: u64, at: [u64; 2]) {
        job(space, 2, config, |rank, session, part| {
            for revision in 1..=last {
                part.fill(cell(revision));
                session.checkpoint().unwrap();
                session.wait().unwrap();
                if rank == 0 && at.contains(&revision) {
                    self.stop(revision);
                }
            }
        });
    }
}

/// A job keeps one revision. A revision that a reader has open stays, once the job has taken over the hold. The hold is
/// released with the reader.
#[test]
fn beside_a_job_what_is_open_stays() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let config = Config { portion_bytes: 4 << 20, ..small() };
    let (stops, tells, go) = Stops::new();
    thread::scope(|scope| {
        let go = go;
        scope.spawn(|| stops.job(folder.path(), &config, 12, [2, 10]));
        assert_eq!(tells.recv().unwrap(), 2);
        let mut reader = Reader::open(folder.path(), None, "beside").unwrap();
        assert_eq!(reader.key().number, 2);
        let holds = SpaceSurvey::open(folder.path()).unwrap().holds;
        assert_eq!((holds.len(), &*holds[0].hold.note), (1, "beside"));
        go.send(()).unwrap();
        assert_eq!(tells.recv().unwrap(), 10);
        let mut into = [0; 8];
        reader.read(1, "u", 0, &mut into).unwrap();
        let first = Part::slab(&GLOBAL, 1, 2).numbers()[0];
        assert_eq!(u64::from_le_bytes(into), cell(2)(first));
        drop(reader);
        assert!(SpaceSurvey::open(folder.path()).unwrap().holds.is_empty());
        go.send(()).unwrap();
    });
}

/// The hold belongs to the parent. A child that drops its copy, as a process does at its end, does not release it.
#[test]
fn a_forked_child_releases_nothing() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let (stops, tells, go) = Stops::new();
    thread::scope(|scope| {
        let go = go;
        scope.spawn(|| stops.job(folder.path(), &small(), 2, [1, 2]));
        assert_eq!(tells.recv().unwrap(), 1);
        let reader = Reader::open(folder.path(), None, "parent").unwrap();
        // SAFETY: the child drops its copies, and ends without another step.
        match unsafe { libc::fork() } {
            0 => {
                drop(reader);
                // SAFETY: ends the child, which has no more work.
                unsafe { libc::_exit(0) }
            }
            // SAFETY: no status is requested.
            child => assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child),
        }
        assert_eq!(SpaceSurvey::open(folder.path()).unwrap().holds.len(), 1);
        drop(reader);
        assert!(SpaceSurvey::open(folder.path()).unwrap().holds.is_empty());
        go.send(()).unwrap();
        assert_eq!(tells.recv().unwrap(), 2);
        go.send(()).unwrap();
    });
}

/// If the hold of a reader was released, the reader reports removed data as removed, not as damage.
#[test]
fn what_a_job_let_go_is_no_damage() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let (stops, tells, go) = Stops::new();
    thread::scope(|scope| {
        let go = go;
        scope.spawn(|| stops.job(folder.path(), &small(), 8, [1, 8]));
        assert_eq!(tells.recv().unwrap(), 1);
        let mut reader = Reader::open(folder.path(), Some(1), "test").unwrap();
        assert_eq!(tend::release(folder.path(), None).unwrap().len(), 1);
        go.send(()).unwrap();
        assert_eq!(tells.recv().unwrap(), 8);
        let error = reader.read(0, "u", 0, &mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RevisionMissing, "{error}");
        assert!(error.to_string().contains("removed the revision"), "{error}");
        let error = Reader::open(folder.path(), Some(1), "test").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::RevisionMissing, "{error}");
        go.send(()).unwrap();
    });
}

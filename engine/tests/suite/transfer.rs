//! Revisions copied to another space: each byte comes back there, with a cut at any point, with any damage, and with
//! any former contents of the other space.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::{
    between::{Between, Watched},
    bytes::Layout,
    faulty::{Durable, Faulty, Medium},
    in_sessions,
    program::Mark,
    recording::{Shape, expect, job, losses},
    small_pool,
    spread::Part,
    whole,
};
use mainstay_engine::{
    Capture, Config, Error, ErrorKind, LevelPlace, MemoryAfter, Reader, Region, SpaceSurvey, Stage, Start, Track,
    Verified,
    device::{Device, Disk, File},
    space::{
        Per,
        format::{BLOCK, Item},
    },
    transfer::{Became, Copied, Transfer, copy_on},
};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};
use tempfile::TempDir;

const GLOBAL: [u64; 3] = [7, 50, 90];
const RANKS: usize = 3;
/// Blocks of each rank's `pages`. Most are zeros, and few change from one revision to the next.
const PAGES: usize = 150;

fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap()
}

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), start: Start::Fresh, ..Config::default() }
}

fn incremental() -> Config {
    Config { capture: Capture::Incremental, track: Track::Hashes, ..small() }
}

fn cell(revision: u64) -> impl Fn(u64) -> u64 {
    move |number| number * 1000 + revision
}

/// Fills the `pages` of a rank for `revision`.
fn change(pages: &mut [u8], rank: usize, revision: u64) {
    let mut random = fastrand::Rng::with_seed(rank as u64 + 1000 * revision);
    for _ in 0..if revision == 1 { 50 } else { 5 } {
        let block = random.usize(..PAGES);
        random.fill(&mut pages[block * BLOCK..(block + 1) * BLOCK]);
    }
}

/// A job that saves the revisions `from` to `last`, with a part of an array, a stream, a note and pages in each.
fn saves(space: &Path, ranks: usize, config: &Config, last: u64) {
    in_sessions(space, ranks, config, |rank, session| {
        let (mut part, mut pages) = (Part::slab(&GLOBAL, rank, ranks), vec![0; PAGES * BLOCK + 100]);
        session.protect(part.region("u").unwrap()).unwrap();
        // SAFETY: the pages live longer than the session protects them.
        let region = unsafe { Region::new("pages", pages.as_mut_ptr(), pages.len() as u64) };
        session.protect(region.unwrap()).unwrap();
        session.note("who", &format!("rank {rank}")).unwrap();
        for revision in 1..=last {
            part.fill(cell(revision));
            change(&mut pages, rank, revision);
            session.begin(1 << 16).unwrap();
            for (index, piece) in pages[..30_000 + rank].chunks(777).enumerate().rev() {
                session.write("log", index as u64 * 777, piece).unwrap();
            }
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
        session.unprotect("u").unwrap();
        session.unprotect("pages").unwrap();
    });
}

fn complete(space: &Path) -> Vec<u64> {
    let survey = SpaceSurvey::open(space).unwrap();
    survey.revisions.iter().filter(|revision| revision.complete).map(|revision| revision.key.number).collect()
}

fn copy(from: &Path, to: &Path, numbers: &[u64]) -> Result<Vec<Copied>, Error> {
    Transfer::begin(from, to, numbers)?.carry_out(&|_| ())
}

fn became(copied: &[Copied]) -> Vec<(u64, Became)> {
    copied.iter().map(|copied| (copied.revision.key.number, copied.became.clone())).collect()
}

/// All bytes of a revision, item by item, with their descriptions.
fn all_of(reader: &mut Reader) -> Vec<(Item, Vec<u8>)> {
    let mut all = Vec::new();
    for shard in 0..reader.shard_count() {
        for item in reader.shard(shard).unwrap().items.clone() {
            let mut bytes = vec![0; item.bytes as usize];
            assert_eq!(reader.read(shard, &item.name, 0, &mut bytes).unwrap(), bytes.len());
            all.push((Item { extents: Vec::new(), ..item }, bytes));
        }
    }
    all
}

/// Checks that the revisions `numbers` of both spaces are alike in everything that a user sees.
#[track_caller]
fn are_alike(from: &Path, to: &Path, numbers: &[u64]) {
    for number in numbers {
        let open = |space: &Path| Reader::open(space, Some(*number), "test").unwrap();
        let (mut one, mut other) = (open(from), open(to));
        assert_eq!(one.key(), other.key());
        assert!(all_of(&mut one) == all_of(&mut other), "revision {number}");
        for shard in 0..one.shard_count() {
            assert_eq!(one.shard(shard).unwrap().annex, other.shard(shard).unwrap().annex, "{number}, {shard}");
        }
    }
}

/// Checks that the times of their checkpoints are alike, too.
#[track_caller]
fn have_the_same_times(from: &Path, to: &Path, numbers: &[u64]) {
    for number in numbers {
        let times = |space: &Path| -> Vec<_> {
            let survey = SpaceSurvey::open(space).unwrap();
            survey.revision(*number).unwrap().shards.iter().map(|shard| shard.phases).collect()
        };
        assert_eq!(times(from), times(to), "revision {number}");
    }
}

fn is_whole(space: &Path) {
    let survey = SpaceSurvey::open(space).unwrap();
    assert_eq!(survey.damage, Vec::<String>::new());
    for revision in survey.revisions.iter().filter(|revision| revision.complete) {
        assert_eq!(revision.verify(&|_| ()).unwrap(), Verified::Whole, "revision {}", revision.key.number);
    }
}

#[test]
fn copies_are_bit_identical_whatever_made_the_space() {
    let ways = [
        Config { keep: 3, ..small() },
        Config { keep: 2, per: Per::Rank, ..incremental() },
        Config { keep: 3, per: Per::Node, ..incremental() },
        Config { keep: 2, ..small_pool() },
        Config { keep: 2, stage: Stage::Direct, ..small() },
    ];
    for config in ways {
        let (from, to) = (folder(), folder());
        let (from, to) = (from.path(), to.path().join("made/there"));
        saves(from, RANKS, &config, 5);
        let there = complete(from);
        assert!(there.len() >= config.keep as usize && there[0] == 5, "{there:?}");
        let (all, mut oldest_first) = (AtomicU64::new(0), there.clone());
        oldest_first.reverse();
        let transfer = Transfer::begin(from, &to, &[]).unwrap();
        let bytes = transfer.bytes();
        assert!(!to.exists(), "nothing is made before it is carried out");
        let copied = transfer
            .carry_out(&|bytes| {
                all.fetch_add(bytes, Ordering::Relaxed);
            })
            .unwrap();
        assert_eq!(became(&copied), oldest_first.iter().map(|n| (*n, Became::Copied)).collect::<Vec<_>>());
        assert_eq!((bytes, complete(&to)), (all.into_inner(), there.clone()));
        is_whole(&to);
        are_alike(from, &to, &there);
        have_the_same_times(from, &to, &there);
        // Nothing is held any more, nothing is staged, and a second copy has nothing to do.
        assert!(SpaceSurvey::open(from).unwrap().holds.is_empty() && SpaceSurvey::open(&to).unwrap().clean);
        let before = fs::metadata(to.join("lock")).unwrap().mtime();
        let again = copy(from, &to, &[]).unwrap();
        assert!(again.iter().all(|copied| copied.became == Became::WasThere), "{again:?}");
        assert_eq!(fs::metadata(to.join("lock")).unwrap().mtime(), before);
        // A job goes on from the copy as from the space, and finds the same room.
        in_sessions(&to, RANKS, &Config { start: Start::default(), ..config }, |rank, session| {
            let (mut part, mut pages) = (Part::slab(&GLOBAL, rank, RANKS), vec![9; PAGES * BLOCK + 100]);
            session.protect(part.region("u").unwrap()).unwrap();
            // SAFETY: the pages live longer than the session protects them.
            let region = unsafe { Region::new("pages", pages.as_mut_ptr(), pages.len() as u64) };
            session.protect(region.unwrap()).unwrap();
            assert_eq!(session.restore().unwrap().unwrap().revision, 5);
            let mut was = vec![0; PAGES * BLOCK + 100];
            (1..=5).for_each(|revision| change(&mut was, rank, revision));
            assert!(part.holds(cell(5)) && pages == was);
            for _ in 0..4 {
                session.begin(1 << 16).unwrap();
                session.write("log", 0, &pages[..30_000]).unwrap();
                session.checkpoint().unwrap();
                session.wait().unwrap();
            }
            session.unprotect("u").unwrap();
            session.unprotect("pages").unwrap();
        });
        is_whole(&to);
        // From there on, the two spaces are separate runs.
        let error = copy(from, &to, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("gone on") || error.to_string().contains("another run"), "{error}");
    }
}

/// Bytes that the files of a space take.
fn taken(space: &Path) -> u64 {
    fs::read_dir(space).unwrap().map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

/// Revisions share blocks, and so do their copies, even if the second is copied later. Zeros take no room.
#[test]
fn what_revisions_share_is_copied_once() {
    let (from, to, one) = (folder(), folder(), folder());
    saves(from.path(), RANKS, &Config { keep: 4, ..incremental() }, 4);
    copy(from.path(), one.path(), &[1]).unwrap();
    copy(from.path(), to.path(), &[1, 2]).unwrap();
    copy(from.path(), to.path(), &[]).unwrap();
    are_alike(from.path(), to.path(), &[1, 2, 3, 4]);
    assert_eq!(complete(one.path()), [1]);
    // The array and the stream change completely, the pages by 5 in 150.
    let (whole, all) = (taken(one.path()), taken(to.path()));
    let changes = 3 * (GLOBAL.iter().product::<u64>() * 8 + RANKS as u64 * (30_000 + 60 * BLOCK as u64));
    assert!(all < whole + changes, "{whole} for one, {all} for four");
}

#[test]
fn shards_are_read_from_whichever_level_has_them_whole() {
    let (from, to, memory) = (folder(), folder(), folder());
    let config = Config {
        memory: LevelPlace::At(memory.path().to_owned()),
        memory_copies: 1,
        memory_keep: 1,
        memory_after: MemoryAfter::Kept,
        keep: 2,
        pfs_every: 2,
        ..small()
    };
    // Revisions 2 and 4 are in the space, 5 is only in memory.
    saves(from.path(), RANKS, &config, 5);
    let level = fs::read_dir(memory.path()).unwrap().map(|entry| entry.unwrap().path());
    let level: Vec<PathBuf> = level.filter(|path| path.join("lock").exists()).collect();
    assert_eq!(level.len(), 1);
    let copied = copy(from.path(), to.path(), &[]).unwrap();
    assert_eq!(became(&copied).last().unwrap(), &(5, Became::Copied));
    let there: Vec<u64> = copied.iter().map(|copied| copied.revision.key.number).collect();
    assert!(there.contains(&4), "{there:?}");
    are_alike(from.path(), to.path(), &there);
    // The command refuses the space itself, and the directory of its level, as a target.
    for own in [from.path(), &level[0]] {
        let error = copy(from.path(), own, &[]).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("are there"), "{error}");
    }
}

/// The file with the portion of rank 0.
fn layout(space: &Path) -> PathBuf {
    let mut files = fs::read_dir(space).unwrap().map(|entry| entry.unwrap().path());
    let is_first = |path: &PathBuf| path.to_string_lossy().contains("layout-000001-000000");
    files.find(is_first).unwrap()
}

/// Flips a byte of a rank's array, in the file `path`.
fn damage(path: &Path, rank: usize, revision: u64) {
    let mut layout = Layout::read(path);
    let item = layout.manifest(rank, revision).items.into_iter().find(|item| item.name == "u").unwrap();
    layout.flip((layout.place(rank).at + item.extents[0].at + 3000) as usize);
    layout.write();
}

/// Damage is reported, and never copied. If another level has the shard whole, the copy reads it there. Other revisions
/// are copied all the same.
#[test]
fn damage_is_named_and_read_elsewhere_where_that_can_be() {
    let (from, to) = (folder(), folder());
    saves(from.path(), RANKS, &Config { keep: 2, ..small() }, 2);
    damage(&layout(from.path()), 1, 1);
    let copied = became(&copy(from.path(), to.path(), &[]).unwrap());
    let (1, Became::Lost(why)) = &copied[0] else { panic!("{copied:?}") };
    assert!(why.contains("shard 1") && why.contains("checksum"), "{why}");
    assert_eq!(copied[1], (2, Became::Copied));
    assert_eq!(complete(to.path()), [2]);
    are_alike(from.path(), to.path(), &[2]);

    let (from, to, memory) = (folder(), folder(), folder());
    let config = Config {
        memory: LevelPlace::At(memory.path().to_owned()),
        memory_copies: 1,
        memory_after: MemoryAfter::Kept,
        ..small()
    };
    saves(from.path(), RANKS, &config, 1);
    let level = fs::read_dir(memory.path()).unwrap().map(|entry| entry.unwrap().path());
    let level = level.into_iter().find(|path| path.join("lock").exists()).unwrap();
    damage(&layout(&level), 0, 1);
    let copied = copy(from.path(), to.path(), &[]).unwrap();
    assert_eq!(became(&copied), [(1, Became::Copied)]);
    assert!(copied[0].elsewhere[0].contains("read from space instead"), "{copied:?}");
    are_alike(from.path(), to.path(), &[1]);
}

/// With any wrong byte in a space, no copied revision has a wrong byte. Each revision with good blocks is copied.
#[test]
fn wrong_bytes_anywhere_never_become_a_revision() {
    let (from, good) = (folder(), folder());
    saves(from.path(), 2, &Config { keep: 2, ..incremental() }, 2);
    let path = layout(from.path());
    let original = fs::read(&path).unwrap();
    copy(from.path(), good.path(), &[]).unwrap();
    let used: Vec<usize> = (0..original.len()).filter(|at| original[*at] != 0).collect();
    let whole = Layout::read(&path);
    let [first, second] =
        [1, 2].map(|revision| -> Vec<_> { (0..2).flat_map(|rank| whole.item_ranges(rank, revision)).collect() });
    let of_items = |revision| if revision == 1 { &first } else { &second };
    let is_wrong = |revision, at: usize| of_items(revision).iter().any(|range| range.contains(&at));
    // A block is verified as a whole, and holds bytes of only one revision.
    let blocks = |range: &Range<usize>| range.start / BLOCK..range.end.div_ceil(BLOCK);
    let is_beside = |revision, at: usize| of_items(revision).iter().any(|range| blocks(range).contains(&(at / BLOCK)));
    let mut random = fastrand::Rng::with_seed(5);
    let (mut came, mut stayed) = (0, 0);
    let alone =
        |revision: u64| *used.iter().find(|at| is_wrong(revision, **at) && !is_beside(3 - revision, **at)).unwrap();
    for round in 0..32 {
        let (mut bytes, to) = (original.clone(), folder());
        // Hashes, manifests and catalogues have few bytes: half of the flips are in the blocks at the end.
        let mut anywhere = |_| {
            let from = if random.bool() { used.len() / 2 } else { 0 };
            used[random.usize(from..used.len())]
        };
        let flipped: Vec<usize> = match round {
            0 | 1 => vec![alone(round + 1)],
            _ => (0..1 + round % 3).map(&mut anywhere).collect(),
        };
        flipped.iter().for_each(|at| bytes[*at] ^= 1 << (at % 8));
        fs::write(&path, &bytes).unwrap();
        let done = copy(from.path(), to.path(), &[]);
        fs::write(&path, &original).unwrap();
        let there = if to.path().join("lock").exists() {
            let there = complete(to.path());
            is_whole(to.path());
            are_alike(good.path(), to.path(), &there);
            there
        } else {
            assert!(done.is_err() || done.unwrap().iter().all(|copied| copied.became != Became::Copied));
            Vec::new()
        };
        for revision in [1, 2] {
            let is_there = there.contains(&revision);
            let told = || format!("revision {revision} is there: {is_there}, with wrong bytes at {flipped:?}");
            // Two flips of the same bit would undo each other.
            let changed = |at: &usize| bytes[*at] != original[*at];
            if flipped.iter().any(|at| changed(at) && is_wrong(revision, *at)) {
                assert!(!is_there, "{}", told());
                stayed += 1;
            } else if flipped.iter().all(|at| is_beside(3 - revision, *at) && !is_beside(revision, *at)) {
                assert!(is_there, "{}", told());
                came += 1;
            }
        }
    }
    assert!(came >= 2 && stayed >= 2, "{came} came, {stayed} stayed away");
}

/// An older revision of a copy may be damaged before the next one is copied: nothing is shared with it.
#[test]
fn what_is_damaged_in_a_copy_is_not_shared() {
    let (from, to) = (folder(), folder());
    saves(from.path(), 2, &Config { keep: 3, ..incremental() }, 3);
    copy(from.path(), to.path(), &[1]).unwrap();
    let mut bytes = Layout::read(&layout(to.path()));
    let pages = bytes.manifest(0, 1).items.into_iter().find(|item| item.name == "pages").unwrap();
    let stored: Vec<_> = pages.extents.iter().filter(|extent| !extent.is_zeros()).collect();
    for extent in &stored {
        bytes.flip((bytes.place(0).at + extent.at + 9) as usize);
    }
    bytes.write();
    let copied = became(&copy(from.path(), to.path(), &[]).unwrap());
    assert_eq!(copied, [(1, Became::WasThere), (2, Became::Copied), (3, Became::Copied)]);
    let survey = SpaceSurvey::open(to.path()).unwrap();
    let verified = survey.revisions.iter().map(|revision| revision.verify(&|_| ()).unwrap() == Verified::Whole);
    assert_eq!(verified.collect::<Vec<_>>(), [true, true, false]);
    are_alike(from.path(), to.path(), &[2, 3]);
}

/// The names in a directory, without the journal that a job writes in the background; `None` if it is no directory.
fn names(directory: &Path) -> Option<BTreeSet<OsString>> {
    let names = fs::read_dir(directory).ok()?.map(|entry| entry.unwrap().file_name());
    Some(names.filter(|name| name != "journal").collect())
}

#[test]
fn what_belongs_to_others_is_refused() {
    let (from, to) = (folder(), folder());
    saves(from.path(), RANKS, &small(), 1);
    let is_refused = |to: &Path, kind, says: &str| {
        let before = names(to);
        let error = copy(from.path(), to, &[]).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(says), "{error}");
        assert_eq!(names(to), before);
    };
    // From another run.
    saves(to.path(), RANKS, &small(), 3);
    is_refused(to.path(), ErrorKind::InvalidArgument, "revisions of another run");
    assert_eq!(complete(to.path())[0], 3);
    // No directory, or one without the right to write.
    let file = folder();
    fs::write(file.path().join("file"), "x").unwrap();
    is_refused(&file.path().join("file"), ErrorKind::NotASpace, "not a directory");
    is_refused(&file.path().join("file/below"), ErrorKind::NotASpace, "not a directory");
    is_refused(Path::new(""), ErrorKind::InvalidArgument, "empty");
    // A job has the space open, with any saved revisions.
    let used = folder();
    in_sessions(used.path(), 2, &small(), |rank, _| {
        if rank == 0 {
            is_refused(used.path(), ErrorKind::InUse, "in use");
        }
    });
    for number in [0, 7] {
        let error = copy(from.path(), folder().path(), &[1, number]).unwrap_err();
        assert!(error.kind() == ErrorKind::RevisionMissing && error.to_string().contains("there are: 1"), "{error}");
    }
    let empty = folder();
    assert_eq!(copy(empty.path(), to.path(), &[]).unwrap_err().kind(), ErrorKind::NotASpace);
}

/// The job goes on saving, and keeps one revision. A revision is held until it is copied.
#[test]
fn beside_a_job_copies_are_whole() {
    let (from, to) = (folder(), folder());
    let config = Config { portion_bytes: 4 << 20, ..small() };
    let (stop, over, meeting, first) =
        (AtomicBool::new(false), AtomicBool::new(false), Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            first.wait();
            // Any failure ends the job, too.
            let _stop = StopAtEnd(&stop);
            let mut copies = 0;
            while copies < 6 {
                // A revision that was removed before the copy could hold it is no damage.
                for copied in copy(from.path(), to.path(), &[]).unwrap() {
                    match copied.became {
                        Became::Copied => copies += 1,
                        Became::WasThere | Became::Gone(_) => {}
                        Became::Lost(why) => panic!("{why}"),
                    }
                }
            }
        });
        in_sessions(from.path(), 2, &config, |rank, session| {
            let mut part = Part::slab(&GLOBAL, rank, 2);
            session.protect(part.region("u").unwrap()).unwrap();
            for revision in 1.. {
                part.fill(cell(revision));
                assert_eq!(session.checkpoint().unwrap(), revision);
                session.wait().unwrap();
                if (rank, revision) == (0, 2) {
                    first.wait();
                }
                if rank == 0 {
                    over.store(stop.load(Ordering::Acquire), Ordering::Release);
                }
                meeting.wait();
                if over.load(Ordering::Acquire) {
                    break;
                }
                meeting.wait();
            }
            session.unprotect("u").unwrap();
        });
    });
    assert!(SpaceSurvey::open(from.path()).unwrap().holds.is_empty());
    is_whole(to.path());
    let there = complete(to.path());
    assert!(there.len() >= 6, "{there:?}");
    for number in there {
        let mut reader = Reader::open(to.path(), Some(number), "test").unwrap();
        let mut bytes = [0; 8];
        reader.read(1, "u", 0, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), cell(number)(Part::slab(&GLOBAL, 1, 2).numbers()[0]));
    }
}

/// The job ends even if the copying fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn device(medium: &Medium) -> Arc<dyn Device> {
    Arc::new(Faulty(medium.view()))
}

fn keys(medium: &Medium) -> Vec<u64> {
    SpaceSurvey::open_on(&*device(medium)).map_or(Vec::new(), |survey| {
        survey.revisions.iter().filter(|revision| revision.complete).map(|revision| revision.key.number).collect()
    })
}

/// A kill or a loss of power cuts a copy off at any point. All complete revisions there are whole, no earlier one is
/// gone, and the next copy copies the rest.
#[test]
fn a_copy_that_is_cut_off_is_gone_on_with() {
    for (ranks, capture) in [(1, Capture::Whole), (2, Capture::Incremental)] {
        let shape = Shape { ranks, keep: 2, stage: Stage::Direct, capture, ..Shape::ALONE };
        let source = Medium::new(true);
        job(&source, shape, |mut program, mut session| {
            for step in 1..=3 {
                program.fill(&mut session, Mark { run: 1, step }, 20_000 + 4096 * step as usize)?;
                session.checkpoint()?;
                session.wait()?;
            }
            Ok(session.close()?)
        })
        .unwrap();
        let source = source.end_processes();
        let target = Medium::new(true);
        // One revision is there before, and the others are added.
        let oldest = *keys(&source).last().unwrap();
        copy_on(&device(&source), &*device(&target), &[oldest], &|_| ()).unwrap();
        let begun = target.operations();
        copy_on(&device(&source), &*device(&target), &[], &|_| ()).unwrap();
        let all = keys(&source);
        assert_eq!(keys(&target), all);
        let (mut durable, mut cases, mut seen) = (Durable::default(), 0, [0; 2]);
        for (point, operation) in target.log().iter().enumerate() {
            durable.apply(operation);
            for loss in losses(&durable, point, 2) {
                cases += 1;
                let medium = Medium::resume(Durable::of(durable.image(loss)), true);
                let told = format!("power lost after {point} operations, {loss:?}");
                let there = keys(&medium);
                assert!(point < begun || there.contains(&oldest), "{told}: {there:?}");
                seen[usize::from(there == all)] += 1;
                check(&medium, &told);
                let mut known = copy_on(&device(&source), &*device(&medium), &[], &|_| ()).unwrap();
                known.retain(|copied| copied.became == Became::WasThere);
                assert_eq!(known.len(), there.len(), "{told}");
                assert_eq!(keys(&medium), all, "{told}");
                check(&medium, &told);
                if cases % 7 == 0 {
                    job(&medium, shape, |mut program, mut session| {
                        expect(program.restore(&mut session), Mark { run: 1, step: 3 })?;
                        program.fill(&mut session, Mark { run: 2, step: 1 }, 20_000)?;
                        session.checkpoint()?;
                        Ok(session.wait()?)
                    })
                    .unwrap_or_else(|trouble| panic!("{told}: {trouble}"));
                }
            }
        }
        assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
        tell!("{shape:?}: {} operations, {cases} cases", target.operations());
    }
}

fn check(medium: &Medium, told: &str) {
    let Ok(survey) = SpaceSurvey::open_on(&*device(medium)) else { return };
    whole::check(&medium.files()).unwrap_or_else(|why| panic!("{told}: {why}"));
    for revision in survey.revisions.iter().filter(|revision| revision.complete) {
        assert_eq!(revision.verify(&|_| ()).unwrap(), Verified::Whole, "{told}: revision {}", revision.key.number);
    }
}

/// The fault of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// One bit arrives wrong.
    Wrong,
    Full,
}

#[derive(Debug)]
struct Faults {
    fault: Fault,
    /// The number of writes before the fault.
    left: AtomicU64,
    /// All later writes fail alike.
    lasts: bool,
}

impl Between for Faults {
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let left = self.left.load(Ordering::Acquire);
        self.left.store(left.saturating_sub(1), Ordering::Release);
        match (left, self.fault) {
            (1, Fault::Wrong) => {
                let mut wrong = bytes.to_vec();
                wrong[bytes.len() / 3] ^= 4;
                file.write_at(&wrong, offset)
            }
            (1, Fault::Full) => {
                self.left.store(u64::from(self.lasts), Ordering::Release);
                Err(io::Error::from_raw_os_error(libc::ENOSPC))
            }
            _ => file.write_at(bytes, offset),
        }
    }
}

/// A write that arrives wrong is noticed before the revision counts. A write without room ends the copy. The next copy
/// adds everything that is missing.
#[test]
fn what_cannot_be_written_never_counts() {
    let from = folder();
    saves(from.path(), 2, &Config { keep: 2, ..small() }, 1);
    let source: Arc<dyn Device> = Arc::new(Disk::existing(from.path()));
    let (mut refused, mut wrong_roots) = (0, 0);
    for fault in [Fault::Wrong, Fault::Full] {
        for write in 1.. {
            let to = folder();
            let faults = Faults { fault, left: AtomicU64::new(write), lasts: fault == Fault::Full };
            let watched = Watched::new(Disk::make(to.path()).unwrap(), faults);
            let done = copy_on(&source, &watched, &[], &|_| ());
            let told = format!("{fault:?}, write {write}");
            let there = SpaceSurvey::open(to.path()).map(|survey| survey.newest().map(|newest| newest.key.number));
            match done {
                Err(error) => {
                    refused += 1;
                    let kinds = [ErrorKind::Damaged, ErrorKind::NotASpace, ErrorKind::SyncFailed, ErrorKind::DiskFull];
                    assert!(kinds.contains(&error.kind()), "{told}: {error}");
                    assert!(fault == Fault::Wrong || error.to_string().contains("room"), "{told}: {error}");
                    // The wrong root may be the one before the last: then the revision is there, although the copy
                    // reported an error.
                    if let Ok(Some(_)) = there {
                        wrong_roots += 1;
                    }
                }
                Ok(copied) => {
                    assert_eq!(became(&copied), [(1, Became::Copied)], "{told}");
                    is_whole_or_torn(to.path());
                    are_alike(from.path(), to.path(), &[1]);
                }
            }
            if watched.between.left.load(Ordering::Acquire) > 1 {
                break;
            }
            if fault == Fault::Full {
                let copied = became(&copy(from.path(), to.path(), &[]).unwrap());
                assert!(copied.len() == 1 && !matches!(copied[0].1, Became::Lost(_)), "{told}: {copied:?}");
                are_alike(from.path(), to.path(), &[1]);
            }
        }
    }
    assert!(refused > 20 && wrong_roots < refused / 2, "{refused} refused, {wrong_roots} whole");
}

/// The same as `is_whole`, but one slot may be wrong if another leads to everything.
fn is_whole_or_torn(space: &Path) {
    let survey = SpaceSurvey::open(space).unwrap();
    assert!(survey.newest().is_some_and(|newest| newest.verify(&|_| ()).unwrap() == Verified::Whole));
}

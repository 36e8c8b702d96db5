//! Spaces that are reserved before the first checkpoint, and given more room later.

use crate::support::{
    between::{Between, Watched},
    counting::counting,
    often, run,
};
use mainstay_engine::{
    Config, Error, ErrorKind, Region, Session, SpaceSurvey, Stage, Start, Verified,
    device::{Access, Allocate, Device, Disk, File, FileSystem, NewFile, Stripes},
    space::Per,
    tend::{self, Reservation, Reserved, ShardSize, grow, grow_on, reserve, reserve_on},
};
use std::{fs, io, ops::RangeInclusive, path::Path, sync::Arc};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Jobs with shards of other sizes follow each other here, and no restore undoes them.
fn config() -> Config {
    Config { start: Start::Fresh, pool_bytes: Some(512 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

fn shards(bytes: &[u64]) -> Vec<ShardSize> {
    bytes.iter().map(|bytes| ShardSize::of(*bytes, 0).unwrap()).collect()
}

fn nothing(_: u64) {}

/// One rank of a job that saves this many bytes.
struct Rank {
    rank: usize,
    session: Session,
    memory: Vec<u8>,
}

impl Rank {
    fn fill(&mut self, step: u64) {
        let mut random = fastrand::Rng::with_seed((self.rank as u64) << 32 | step);
        self.memory.fill_with(|| random.u8(..));
    }

    fn save(&mut self, step: u64) -> Result<u64, Error> {
        self.fill(step);
        let number = self.session.checkpoint()?;
        self.session.wait()?;
        Ok(number)
    }

    fn saves(&mut self, mut steps: RangeInclusive<u64>) {
        steps.try_for_each(|step| self.save(step).map(drop)).unwrap();
    }

    fn restores(&mut self, step: u64) {
        self.session.restore().unwrap().expect("there is something to restore");
        let found = self.memory.clone();
        self.fill(step);
        assert!(found == self.memory, "rank {} did not come back to step {step}", self.rank);
    }
}

/// A job with the given bytes on each rank does `work` on all ranks, and ends in order.
#[allow(unsafe_code)]
fn job(device: &Arc<dyn Device>, config: &Config, bytes: &[u64], work: impl Fn(&mut Rank) + Sync) {
    run(bytes.len(), |rank, group| {
        let session = Session::open_on(group, device.clone(), config.clone()).unwrap();
        let mut rank = Rank { rank, session, memory: vec![0; bytes[rank] as usize] };
        // SAFETY: the memory outlives the session. Nothing else uses it during its calls.
        let region = unsafe { Region::new("state", rank.memory.as_mut_ptr(), rank.memory.len() as u64) };
        rank.session.protect(region.unwrap()).unwrap();
        work(&mut rank);
        rank.session.close().unwrap();
    });
}

fn disk(directory: &TempDir) -> Arc<dyn Device> {
    Arc::new(Disk::existing(directory.path()))
}

fn layouts(directory: &TempDir) -> Vec<String> {
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("layout-")).collect();
    names.sort();
    names
}

fn names(reserved: &Reserved) -> Vec<String> {
    reserved.files.iter().map(|file| file.name.clone()).collect()
}

#[test]
fn a_job_goes_on_in_what_was_reserved() {
    // Outside the campaign each way to share files has one way to allocate.
    for (number, (per, files)) in (0..).zip([(Per::Auto, 1), (Per::App, 1), (Per::Node, 2), (Per::Rank, 4)]) {
        let all = [Allocate::Sparse, Allocate::Blocks, Allocate::Zero].into_iter();
        for allocate in all.cycle().skip(number).take(often(1, 3)) {
            let directory = TempDir::new().unwrap();
            let bytes = [300_000, 700_000, 100_000, 300_000];
            let wanted =
                Reservation { per, allocate, ranks_per_node: Some(2), ..Reservation::for_shards(&shards(&bytes), 1) };
            let reserved = reserve(directory.path(), &wanted, &nothing).unwrap();
            assert_eq!(reserved.files.len(), files);
            let ranks: Vec<u32> = reserved.files.iter().flat_map(|file| file.ranks.clone()).collect();
            assert_eq!(ranks, [0, 1, 2, 3]);
            assert_eq!(layouts(&directory), names(&reserved));
            let survey = SpaceSurvey::open(directory.path()).unwrap();
            assert!(survey.revisions.is_empty() && survey.clean && survey.damage.is_empty());
            job(&disk(&directory), &config(), &bytes, |rank| {
                assert!(rank.session.restore().unwrap().is_none());
                rank.saves(1..=5);
            });
            job(&disk(&directory), &config(), &bytes, |rank| {
                rank.restores(5);
                rank.save(6).unwrap();
            });
            assert_eq!(layouts(&directory), names(&reserved), "{per:?}, {allocate:?}");
        }
    }
}

/// The one promise with a physical effect: every block is allocated.
#[test]
fn what_is_granted_is_told() {
    let directory = TempDir::new().unwrap();
    for (allocate, granted) in [(Allocate::Sparse, false), (Allocate::Blocks, true), (Allocate::Zero, true)] {
        let wanted = Reservation { allocate, ..Reservation::for_shards(&shards(&[2 * MIB; 2]), 1) };
        let written = std::cell::Cell::new(0);
        let reserved = reserve(directory.path(), &wanted, &|bytes| written.set(written.get() + bytes)).unwrap();
        let file = &reserved.files[0];
        assert_eq!(file.allocated_bytes.unwrap() >= file.used_bytes, granted, "{allocate:?}: {file:?}");
        assert_eq!(written.get(), if allocate == Allocate::Zero { file.used_bytes } else { 0 });
        assert!(file.used_bytes >= 2 * 3 * 2 * MIB);
    }
    let ceph = counting(Disk::existing(directory.path()), FileSystem::Ceph, 0);
    let reserved = reserve_on(&ceph, &Reservation::for_shards(&shards(&[MIB]), 1), &nothing).unwrap();
    assert_eq!(reserved.files[0].allocated_bytes, None, "its blocks say nothing there");
}

/// Under 1 % of blocks beyond the data, for shards of 20 MB, even if slots are on stripes of their own.
#[test]
fn blocks_beyond_the_data_are_under_one_percent() {
    const SHARD: u64 = 20_000_000;
    for stripe_bytes in [4 * MIB, 0].into_iter().take(often(1, 2)) {
        let directory = TempDir::new().unwrap();
        let device = counting(Disk::existing(directory.path()), FileSystem::Other, stripe_bytes);
        let data = 2 * 3 * SHARD;
        let reserved = reserve_on(&device, &Reservation::for_shards(&shards(&[SHARD; 2]), 1), &nothing).unwrap();
        let blocks: u64 = reserved.files.iter().map(|file| file.allocated_bytes.unwrap()).sum();
        let beyond = blocks as f64 / data as f64 - 1.0;
        assert!((0.0..0.01).contains(&beyond), "reserved, stripes of {stripe_bytes}: {beyond}");
        assert_eq!(reserved.stripe_bytes, stripe_bytes);

        // A layout that a job makes has the same size, with all revisions in it.
        let directory = TempDir::new().unwrap();
        let device: Arc<dyn Device> =
            Arc::new(counting(Disk::existing(directory.path()), FileSystem::Other, stripe_bytes));
        job(&device, &config(), &[SHARD; 2], |rank| rank.saves(1..=4));
        let file = Disk::existing(directory.path()).open(&layouts(&directory)[0], Access::Read, None).unwrap();
        let beyond = file.allocated_bytes().unwrap() as f64 / data as f64 - 1.0;
        assert!((0.0..0.01).contains(&beyond), "made by a job, stripes of {stripe_bytes}: {beyond}");
        let survey = SpaceSurvey::open(directory.path()).unwrap();
        let header = &survey.layouts[0].header;
        let stripe = stripe_bytes.max(64 << 10);
        assert_eq!(header.slot_stride, stripe);
        assert!(header.portions.iter().all(|place| place.at.is_multiple_of(stripe)));
    }
}

#[test]
fn sizes_are_learned_from_a_checkpoint() {
    let (before, after) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bytes = [5 * MIB, 100_000, 0];
    // So no part of it has room to spare.
    let first = [&bytes[..], &[MIB]].concat();
    job(&disk(&before), &config(), &first, |rank| rank.saves(1..=1));
    let like = ShardSize::like(before.path()).unwrap();
    assert_eq!(like.len(), 4);
    let reserved = reserve(after.path(), &Reservation::for_shards(&like, 2), &nothing).unwrap();
    let keeps_two = Config { keep: 2, ..config() };
    job(&disk(&after), &keeps_two, &first, |rank| rank.saves(1..=6));
    assert_eq!(layouts(&after), names(&reserved));
    assert!(reserved.files[0].used_bytes < 4 * (6 * MIB + 500_000), "{reserved:?}");
    let error = ShardSize::like(TempDir::new().unwrap().path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotASpace);
    let unused = TempDir::new().unwrap();
    reserve(unused.path(), &Reservation::for_shards(&like, 1), &nothing).unwrap();
    assert!(ShardSize::like(unused.path()).unwrap_err().to_string().contains("no complete revision"));
}

/// For streams, the list of extents takes room beyond the bytes.
#[test]
fn pieces_have_room_where_they_were_announced() {
    let bytes = 2 * MIB;
    let [plain, pieces] = [0, bytes].map(|in_pieces| {
        let sizes = [ShardSize::of(bytes, in_pieces).unwrap()];
        Reservation::for_shards(&sizes, 1)
    });
    // An extent of 16 bytes for each 256, in each of three shards.
    assert!(pieces.bytes() >= plain.bytes() + 3 * bytes / 16);
    let directory = TempDir::new().unwrap();
    let reserved = reserve(directory.path(), &pieces, &nothing).unwrap();
    job(&disk(&directory), &config(), &[0], |rank| {
        let piece = vec![7; bytes as usize];
        for _ in 0..5 {
            rank.session.begin(bytes).unwrap();
            rank.session.write("stream", 0, &piece).unwrap();
            rank.session.checkpoint().unwrap();
        }
    });
    assert_eq!(layouts(&directory), names(&reserved));
}

#[test]
fn a_space_that_grew_takes_larger_shards() {
    for per in [Per::App, Per::Node, Per::Rank] {
        let directory = TempDir::new().unwrap();
        let (small, large) = ([MIB, MIB], [MIB, 3 * MIB]);
        let own = Config { per, ..config() };
        job(&disk(&directory), &own, &small, |rank| rank.saves(1..=2));
        let old = layouts(&directory);
        let needed = std::sync::Mutex::new(0);
        // A job that sets the size of portions gets an error.
        let fixed = Config { portion_bytes: MIB, ..own.clone() };
        job(&disk(&directory), &fixed, &large, |rank| {
            let error = rank.save(3).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PortionTooSmall);
            let text = error.to_string();
            let space = directory.path().display();
            let way =
                text.split(&format!("mainstay grow {space} --per-rank ")).nth(1).unwrap_or_else(|| panic!("{text}"));
            let bytes: u64 = way.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
            *needed.lock().unwrap() = bytes;
        });
        let needed = needed.into_inner().unwrap();
        assert!((3 * MIB..4 * MIB).contains(&needed), "{needed}");
        // The message gave this size.
        let wanted = Reservation { per, ..Reservation::for_shards(&shards(&[needed; 2]), 1) };
        let grown = grow(directory.path(), &wanted, &nothing).unwrap();
        assert_eq!(grown.removed, Vec::<String>::new());
        let both = [&old[..], &names(&grown)].concat();
        assert_eq!(layouts(&directory), both);
        assert_eq!(SpaceSurvey::open(directory.path()).unwrap().newest().unwrap().key.number, 2);
        job(&disk(&directory), &own, &small, |rank| {
            rank.restores(2);
            rank.save(3).unwrap();
            // Only complete revisions in the new layout are kept now.
            rank.save(4).unwrap();
        });
        assert_eq!(layouts(&directory), names(&grown), "{per:?}");
        job(&disk(&directory), &own, &large, |rank| rank.saves(5..=8));
        job(&disk(&directory), &own, &large, |rank| rank.restores(8));
        assert_eq!(layouts(&directory), names(&grown), "{per:?}");
    }
}

/// Makes the layout of a space by a checkpoint that is given up.
fn gives_up(directory: &TempDir, config: &Config, bytes: u64) {
    job(&disk(directory), config, &[bytes; 2], |rank| {
        rank.session.begin(0).unwrap();
        rank.session.abandon().unwrap();
    });
}

/// The first checkpoint sized the space and was given up. Its layout is removed at once, because it has no revision.
#[test]
fn a_layout_that_came_to_nothing_makes_way_for_a_larger_one() {
    for per in [Per::App, Per::Rank] {
        let (directory, config) = (TempDir::new().unwrap(), Config { per, ..config() });
        gives_up(&directory, &config, 100_000);
        let before = layouts(&directory);
        job(&disk(&directory), &config, &[MIB; 2], |rank| rank.saves(1..=3));
        job(&disk(&directory), &config, &[MIB; 2], |rank| rank.restores(3));
        let now = layouts(&directory);
        assert!(now.len() == before.len() && now.iter().all(|name| !before.contains(name)), "{before:?}, {now:?}");
    }
    // The same in one session.
    let directory = TempDir::new().unwrap();
    job(&disk(&directory), &config(), &[100_000; 2], |rank| {
        rank.session.begin(0).unwrap();
        rank.session.abandon().unwrap();
        rank.session.begin(4 * MIB).unwrap();
        rank.session.write("piece", 0, &vec![7; 4 << 20]).unwrap();
        rank.session.checkpoint().unwrap();
        rank.session.wait().unwrap();
    });
    assert_eq!(layouts(&directory).len(), 1);
}

/// A job that sets the size of portions gets an error if they are too small. Other jobs do not, whatever made the
/// portions.
#[test]
fn a_size_stays_for_a_job_that_says_it() {
    let reserved = TempDir::new().unwrap();
    let wanted = Reservation::for_shards(&shards(&[100_000; 2]), 1);
    reserve(reserved.path(), &wanted, &nothing).unwrap();
    let fixed = Config { portion_bytes: MIB, ..config() };
    let configured = TempDir::new().unwrap();
    gives_up(&configured, &fixed, 100_000);
    for directory in [reserved, configured] {
        job(&disk(&directory), &fixed, &[MIB; 2], |rank| {
            assert_eq!(rank.save(1).unwrap_err().kind(), ErrorKind::PortionTooSmall);
        });
        assert_eq!(layouts(&directory).len(), 1);
        job(&disk(&directory), &config(), &[MIB; 2], |rank| rank.saves(1..=2));
        assert_eq!(layouts(&directory).len(), 1);
    }
}

/// There are more files than a reader leaves open: it finds files gone when it opens them again.
#[test]
fn a_layout_that_was_removed_meanwhile_was_let_go() {
    let directory = TempDir::new_in("/dev/shm").unwrap();
    let own = Config { per: Per::Rank, stage: Stage::Direct, ..config() };
    let bytes = [1000; 12];
    job(&disk(&directory), &own, &bytes, |rank| rank.saves(1..=2));
    let survey = SpaceSurvey::open(directory.path()).unwrap();
    grow(directory.path(), &Reservation::as_before(directory.path(), 12).unwrap(), &nothing).unwrap();
    job(&disk(&directory), &own, &bytes, |rank| rank.saves(3..=4));
    assert_eq!(layouts(&directory).len(), 1);
    let newest = survey.newest().unwrap();
    assert_eq!(newest.verify(&|_| ()).unwrap(), Verified::LetGo);
    // The order of the directory decides which files are still open.
    assert!(newest.shards.iter().any(|shard| shard.manifest().unwrap().is_none()));
}

#[test]
fn an_old_layout_stays_for_what_is_held_in_it() {
    let directory = TempDir::new().unwrap();
    let own = Config { per: Per::Rank, ..config() };
    let bytes = [MIB, MIB];
    job(&disk(&directory), &own, &bytes, |rank| rank.saves(1..=2));
    let key = SpaceSurvey::open(directory.path()).unwrap().newest().unwrap().key;
    let held = tend::hold(directory.path(), key, "before it grew", 0, std::time::Duration::ZERO).unwrap();
    assert!(matches!(held, tend::Holding::Counts(_)), "{held:?}");
    let old = layouts(&directory);
    let wanted = Reservation { per: Per::Rank, ..Reservation::as_before(directory.path(), 2).unwrap() };
    let grown = grow(directory.path(), &wanted, &nothing).unwrap();
    job(&disk(&directory), &own, &bytes, |rank| rank.saves(3..=6));
    assert_eq!(layouts(&directory), [&old[..], &names(&grown)].concat());
    tend::release(directory.path(), None).unwrap();
    job(&disk(&directory), &own, &bytes, |rank| rank.saves(7..=8));
    assert_eq!(layouts(&directory), names(&grown));
}

#[test]
fn a_space_that_is_reserved_anew_or_grows_unused_leaves_nothing_behind() {
    let directory = TempDir::new().unwrap();
    let wanted = |ranks| Reservation { per: Per::Rank, ..Reservation::for_shards(&shards(&vec![MIB; ranks]), 1) };
    let first = reserve(directory.path(), &wanted(3), &nothing).unwrap();
    let second = reserve(directory.path(), &wanted(2), &nothing).unwrap();
    assert_eq!((second.removed, second.files.len()), (names(&first), 2));
    let third = grow(directory.path(), &wanted(4), &nothing).unwrap();
    assert_eq!((third.removed.len(), layouts(&directory)), (2, names(&third)));
    let all = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(all, names(&third).len() + 1, "the layout and the lock file");
}

/// A disk that is full while layout 1 exists.
#[derive(Debug)]
struct Full;

impl Between for Full {
    fn create(&self, disk: &Disk, name: &str, wanted: &NewFile) -> io::Result<Arc<dyn File>> {
        if name.starts_with("layout-") && disk.list()?.iter().any(|name| name.starts_with("layout-000001-")) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        disk.open(name, Access::Write, Some(wanted))
    }
}

/// No other existing file is removed before its replacement exists.
#[test]
fn what_a_reservation_left_that_was_killed_takes_no_room_from_the_next() {
    let wanted = Reservation { per: Per::Rank, ..Reservation::for_shards(&shards(&[MIB; 3]), 1) };
    for (is_cut_off, is_used) in [(true, false), (false, false), (true, true)] {
        let directory = TempDir::new().unwrap();
        let reserved = reserve(directory.path(), &wanted, &nothing).unwrap();
        if is_used {
            job(&disk(&directory), &config(), &[MIB; 3], |_| ());
        }
        if is_cut_off {
            fs::remove_file(directory.path().join(&reserved.files[2].name)).unwrap();
        }
        let left = layouts(&directory);
        let again = reserve_on(&Watched::new(Disk::existing(directory.path()), Full), &wanted, &nothing);
        if is_cut_off && !is_used {
            let again = again.unwrap();
            assert_eq!((&again.removed, layouts(&directory)), (&left, names(&again)));
        } else {
            refused(again, ErrorKind::DiskFull, &["layout-000002", "bytes were to go there", "are free"]);
            assert_eq!(layouts(&directory), left, "it was whole, or a job has had it");
        }
    }
}

#[test]
fn a_reservation_that_fails_leaves_no_directory_that_it_made() {
    let folder = TempDir::new().unwrap();
    let huge = Reservation::for_shards(&shards(&[1 << 60]), 1000);
    let [new, there] = ["new", "there"].map(|name| folder.path().join(name));
    fs::create_dir(&there).unwrap();
    for path in [&new, &there] {
        refused(reserve(path, &huge, &nothing), ErrorKind::DiskFull, &[]);
    }
    assert!(!new.exists() && there.exists());
}

fn refused(found: mainstay_engine::Result<Reserved>, kind: ErrorKind, words: &[&str]) {
    let error = found.unwrap_err();
    let text = error.to_string();
    assert!(error.kind() == kind && words.iter().all(|word| text.contains(word)), "{:?}: {text}", error.kind());
}

#[test]
fn what_cannot_be_reserved_is_refused() {
    let directory = TempDir::new().unwrap();
    let wanted = Reservation::for_shards(&shards(&[MIB; 2]), 1);
    let path = directory.path();
    refused(grow(path, &wanted, &nothing), ErrorKind::NotASpace, &["it is empty"]);
    assert_eq!(fs::read_dir(path).unwrap().count(), 0, "a directory that is no space gets no lock");
    refused(reserve(path, &Reservation::for_shards(&[], 1), &nothing), ErrorKind::InvalidArgument, &["ranks"]);
    let per_node = Reservation { per: Per::Node, ..wanted.clone() };
    refused(reserve(path, &per_node, &nothing), ErrorKind::InvalidArgument, &["ranks_per_node"]);
    refused(reserve(Path::new(""), &wanted, &nothing), ErrorKind::InvalidArgument, &["path"]);
    assert!(ShardSize::of(u64::MAX, 0).is_err() && ShardSize::of(1, 2).is_err());
    let huge = Reservation::for_shards(&shards(&[1 << 60; 2]), 1000);
    for allocate in [Allocate::Sparse, Allocate::Blocks, Allocate::Zero] {
        let huge = Reservation { allocate, ..huge.clone() };
        refused(reserve(path, &huge, &nothing), ErrorKind::DiskFull, &["choose another place"]);
    }
    assert!(layouts(&directory).is_empty(), "nothing is left of what could not be made");

    job(&disk(&directory), &config(), &[MIB; 2], |rank| {
        rank.save(1).unwrap();
        if rank.rank == 0 {
            let by = format!("process {}", std::process::id());
            refused(reserve(path, &wanted, &nothing), ErrorKind::InUse, &["in use", &by]);
            refused(grow(path, &wanted, &nothing), ErrorKind::InUse, &["in use", &by]);
        }
        rank.save(2).unwrap();
    });
    refused(reserve(path, &wanted, &nothing), ErrorKind::InvalidArgument, &["mainstay grow"]);
    // A job that saved nothing and died may have staged something.
    let begun = TempDir::new().unwrap();
    reserve(begun.path(), &wanted, &nothing).unwrap();
    run(2, |_, group| drop(Session::open(group, begun.path(), config()).unwrap()));
    refused(reserve(begun.path(), &wanted, &nothing), ErrorKind::InvalidArgument, &["begun"]);
    assert_eq!(grow(begun.path(), &wanted, &nothing).unwrap().removed, Vec::<String>::new());
}

/// If one file makes its writers wait for each other, each node gets its own file.
#[test]
fn what_suits_the_file_system_is_one_file_a_node_on_ceph() {
    let directory = TempDir::new().unwrap();
    let ceph = counting(Disk::existing(directory.path()), FileSystem::Ceph, 0);
    let wanted = Reservation { ranks_per_node: Some(2), ..Reservation::for_shards(&shards(&[MIB; 6]), 1) };
    assert_eq!(reserve_on(&ceph, &wanted, &nothing).unwrap().files.len(), 3);
    let unknown = Reservation { ranks_per_node: None, ..wanted.clone() };
    assert_eq!(grow_on(&ceph, &unknown, &nothing).unwrap().files.len(), 1, "nobody knows the nodes");
    assert_eq!(grow(directory.path(), &wanted, &nothing).unwrap().files.len(), 1, "elsewhere all share one");
    let chosen = Reservation { stripes: Stripes { count: 4, bytes: 2 * MIB }, ..wanted };
    assert_eq!(grow_on(&ceph, &chosen, &nothing).unwrap().stripe_bytes, 2 * MIB);
    // On a file system without stripes the setting is no error, and has no effect.
    assert_eq!(grow(directory.path(), &chosen, &nothing).unwrap().stripe_bytes, 0);
}

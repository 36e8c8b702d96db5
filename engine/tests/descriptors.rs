//! More layout files than a process may have open. The limit is the whole process's: this test is alone in its file.

mod support;

use mainstay_engine::{
    Config, ErrorKind, Reader, Session, SpaceSurvey, Stage, Verified,
    device::{Access, Device, Disk},
    group::{Solo, ThreadGroup},
    space::Per,
    tend::{self, Reservation, Reserved, Rules, ShardSize, grow, reserve},
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{
    fs::{self, File},
    iter,
    path::Path,
    thread,
    time::Duration,
};
use support::spread::Part;
use tempfile::TempDir;

/// Each rank has a file of its own.
const RANKS: usize = 60;
/// Each file takes a descriptor, and one more past the page cache. This is about half of that.
const DESCRIPTORS: u64 = 64;
const GLOBAL: [u64; 2] = [120, 30];

fn cell(step: u64) -> impl Fn(u64) -> u64 {
    move |number| number << 8 | step
}

fn job(space: &Path, ranks: usize, restores: Option<u64>, saves: u64, goes_on_in_second: bool) {
    let config = Config { stage: Stage::Direct, per: Per::Rank, ..Config::default() };
    thread::scope(|scope| {
        for (rank, group) in ThreadGroup::new(ranks).into_iter().enumerate() {
            let config = config.clone();
            scope.spawn(move || {
                let mut session = Session::open(Box::new(group), space, config).unwrap();
                let mut part = Part::slab(&GLOBAL, rank, ranks);
                session.protect(part.region("u").unwrap()).unwrap();
                let found = session.restore().unwrap().map(|restored| restored.revision);
                assert_eq!(found, restores);
                assert!(found.is_none_or(|step| part.holds(cell(step))), "rank {rank} of {ranks}");
                // The job does not open the file again: a checkpoint makes no metadata operation.
                assert!(!goes_on_in_second || is_second_open(space), "it was closed by what was read since");
                let first = restores.unwrap_or(0) + 1;
                for step in first..first + saves {
                    part.fill(cell(step));
                    session.checkpoint().unwrap();
                    session.wait().unwrap();
                }
                session.close().unwrap();
            });
        }
    });
}

/// Returns whether the only file of layout 2 is open.
fn is_second_open(space: &Path) -> bool {
    let opened = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let begin = space.canonicalize().unwrap().join("layout-000002-").display().to_string();
    opened.into_iter().any(|path| path.display().to_string().starts_with(&begin))
}

type Way = fn(&Path, &Reservation, &dyn Fn(u64)) -> mainstay_engine::Result<Reserved>;

fn reserved(space: &Path, ranks: usize, way: Way) {
    let shard = ShardSize::of(100_000, 0).unwrap();
    let wanted = Reservation { per: Per::Rank, ..Reservation::alike(&shard, ranks, 1) };
    assert_eq!(way(space, &wanted, &|_| ()).unwrap().files.len(), ranks);
}

fn layouts(space: &Path) -> usize {
    SpaceSurvey::open(space).unwrap().layouts.len()
}

#[test]
fn more_files_than_may_be_open() {
    let folder = TempDir::new().unwrap();
    let [saved, unused] = ["saved", "unused"].map(|name| folder.path().join(name));
    job(&saved, RANKS, None, 2, false);
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, hard).unwrap();

    reserved(&unused, RANKS, reserve);
    reserved(&unused, RANKS, reserve);
    assert_eq!(layouts(&unused), RANKS);

    let survey = SpaceSurvey::open(&saved).unwrap();
    assert!(survey.damage.is_empty(), "{:?}", survey.damage);
    let newest = survey.newest().unwrap();
    assert_eq!((newest.shards.len(), newest.verify(&|_| ()).unwrap()), (RANKS, Verified::Whole));
    assert!(matches!(
        tend::hold(&saved, newest.key, "while few may be open", 0, Duration::ZERO).unwrap(),
        tend::Holding::Counts(_)
    ));
    assert_eq!(tend::release(&saved, None).unwrap().len(), 1);
    let mut reader = Reader::open(&saved, None, "this test").unwrap();
    let whole = Part::slab(&GLOBAL, 0, 1);
    let mut cells = vec![0; whole.cells.len() * 8];
    reader.read_box("u", &[0, 0], &GLOBAL, &mut cells).unwrap();
    let (cells, _) = cells.as_chunks::<8>();
    assert!(cells.iter().map(|cell| u64::from_ne_bytes(*cell)).eq(whole.numbers().into_iter().map(cell(2))));
    drop(reader);

    reserved(&saved, 1, grow);
    assert_eq!(layouts(&saved), RANKS + 1);
    // The rank looks after the files of all ranks and restores from them.
    job(&saved, 1, Some(2), 0, true);
    that_none_can_be_opened_is_no_damage(&saved);
    job(&saved, 2, Some(2), 1, false);
    job(&saved, 1, Some(3), 0, false);
    tend::prune(&saved, &Rules { keep_last: Some(1), ..Rules::default() }, tend::Unseen::GivenUp, &|_| ()).unwrap();
    job(&saved, 1, Some(3), 2, false);
    assert!(layouts(&saved) < RANKS);
    past_the_cache_or_not_at_all(&saved);
}

fn all_that_may_be_open() -> Vec<File> {
    iter::repeat_with(|| File::open("/dev/null")).map_while(Result::ok).collect()
}

/// Otherwise an older revision, of fewer files, would come back instead of the newest one, or the space would be
/// reported as damaged.
fn that_none_can_be_opened_is_no_damage(space: &Path) {
    let mut session = Session::open(Box::new(Solo), space, Config::default()).unwrap();
    let mut part = Part::slab(&GLOBAL, 0, 1);
    session.protect(part.region("u").unwrap()).unwrap();
    let all = all_that_may_be_open();
    let error = session.restore().unwrap_err();
    drop(all);
    assert!(error.kind() == ErrorKind::Io && error.to_string().contains("(ulimit -n)"), "{error}");
    assert_eq!(session.restore().unwrap().unwrap().revision, 2);
    assert!(part.holds(cell(2)));
    session.close().unwrap();
}

/// Without its second descriptor a file would be read and written through the page cache, and nobody would know.
fn past_the_cache_or_not_at_all(space: &Path) {
    let file = SpaceSurvey::open(space).unwrap().layouts.remove(0).file;
    let mut all = all_that_may_be_open();
    all.pop();
    let error = Disk::existing(space).open(&file, Access::Read, None).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
}

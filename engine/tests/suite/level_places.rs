//! Levels in directories, as settings name them: data there of other spaces, of jobs with other numbers of ranks or
//! copies, or of other users; and levels that a job leaves out.

use crate::support::{
    bounded,
    program::{Mark, Program},
    run,
    spread::Spread,
};
use mainstay_engine::{Config, ErrorKind, LevelPlace, MemoryAfter, Session, SpaceSurvey, Start, space::Per};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const BYTES: usize = 30_000;

/// A space, and nodes with memory of their own.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn space(&self) -> PathBuf {
        self.0.path().join("space")
    }

    fn node(&self, node: usize) -> PathBuf {
        self.0.path().join(format!("node{node}"))
    }

    /// The directories of the level and of its copies on a node.
    fn levels(&self, node: usize) -> Vec<PathBuf> {
        let mut all = entries(&self.node(node));
        all.sort();
        all
    }

    /// The layout file of the level on a node.
    fn layout(&self, node: usize) -> PathBuf {
        self.file(node, 0)
    }

    /// The layout file of the level on a node, or of the copy that the node holds for another.
    fn file(&self, node: usize, copy: usize) -> PathBuf {
        let files = entries(&self.levels(node)[copy]);
        files.into_iter().find(|file| file.extension().is_some_and(|suffix| suffix == "mainstay")).unwrap()
    }

    /// Runs one rank on each of `nodes`. Memory has `copies` of each shard, and the space takes no revision.
    fn job<T: Send>(&self, nodes: &[usize], copies: u32, work: impl Fn(usize, Session) -> T + Sync) -> Vec<T> {
        self.job_by(nodes, Config { memory_copies: copies, pfs_every: 0, ..Config::default() }, work)
    }

    /// The same with further settings.
    fn job_by<T: Send>(&self, nodes: &[usize], by: Config, work: impl Fn(usize, Session) -> T + Sync) -> Vec<T> {
        bounded("a job with levels in directories", || {
            run(nodes.len(), |rank, group| {
                let node = self.node(nodes[rank]);
                let config = Config {
                    memory: LevelPlace::At(node.clone()),
                    memory_after: MemoryAfter::Kept,
                    pool_directory: node,
                    start: Start::Fresh,
                    ..by.clone()
                };
                work(rank, Session::open(group, &self.space(), config).unwrap())
            })
        })
    }

    fn save(&self, nodes: &[usize], copies: u32, steps: std::ops::Range<u64>) {
        self.job(nodes, copies, |rank, mut session| {
            let mut program = Program::new(rank);
            program.protect(&mut session).unwrap();
            program.fill(&mut session, Mark { run: 0, step: 0 }, BYTES).unwrap();
            // Other tests look at the report of this restore.
            session.restore().unwrap();
            for step in steps.clone() {
                program.fill(&mut session, Mark { run: 1, step }, BYTES).unwrap();
                session.checkpoint().unwrap();
                session.wait().unwrap();
            }
            session.close().unwrap();
        });
    }

    /// The restored revision, equal on all ranks, and the reports of all ranks.
    fn restored(&self, nodes: &[usize], copies: u32) -> (u64, String) {
        let all = self.job(nodes, copies, |rank, mut session| {
            let mut program = Program::new(rank);
            program.protect(&mut session).unwrap();
            program.fill(&mut session, Mark { run: 0, step: 0 }, BYTES).unwrap();
            let restored = session.restore().unwrap().unwrap();
            session.close().unwrap();
            (restored.revision, restored.skipped.join("; "))
        });
        assert!(all.iter().all(|one| one.0 == all[0].0), "{all:?}");
        let told = all.iter().map(|one| &one.1[..]).collect::<Vec<_>>().join("; ");
        (all[0].0, told)
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).map_or(Vec::new(), |all| all.map(|entry| entry.unwrap().path()).collect())
}

/// Story: a file of another space refused the start (LINEAGE_CONFLICT), though each shard was whole elsewhere.
#[test]
fn a_file_of_another_space_is_passed_over() {
    for beside in [false, true] {
        let (place, other) = (Place::new(), Place::new());
        place.save(&[0, 1], 2, 1..4);
        other.save(&[0, 1], 2, 1..6);
        let (own, foreign) = (place.layout(0), other.layout(0));
        fs::copy(&foreign, own.with_file_name(foreign.file_name().unwrap())).unwrap();
        if !beside {
            fs::remove_file(own).unwrap();
        }
        let (revision, told) = place.restored(&[0, 1], 2);
        assert_eq!(revision, 3, "{told}");
        assert!(told.contains(foreign.file_name().unwrap().to_str().unwrap()), "{told}");
        assert!(told.contains("belongs to another space"), "{told}");
        // A survey passes over the file, too.
        let survey = SpaceSurvey::open(&place.levels(0)[0]).unwrap();
        assert!(survey.damage.iter().any(|what| what.contains("belongs to another space")), "{:?}", survey.damage);
        assert!(survey.revisions.iter().all(|revision| revision.key.number <= 3), "{:?}", survey.revisions);
        // The job goes on.
        place.save(&[0, 1], 2, 4..6);
        assert_eq!(place.restored(&[0, 1], 2).0, 5);
    }
    // The file is from another job of one rank. Its revisions are whole by themselves, and newer.
    let (place, other) = (Place::new(), Place::new());
    place.save(&[0], 1, 1..3);
    (0..3).for_each(|nth| other.save(&[0], 1, 1 + 2 * nth..3 + 2 * nth));
    let foreign = other.layout(0);
    fs::copy(&foreign, place.layout(0).with_file_name(foreign.file_name().unwrap())).unwrap();
    assert_eq!(place.restored(&[0], 1).0, 2);
}

/// Damage to the file with a rank's shards on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hurt {
    HeaderFlipped,
    /// The data behind the slots.
    DataFlipped,
    CutInHeader,
    CutToHalf,
    CutByABlock,
    Filled,
    OfAnotherJob,
}

const HURTS: [Hurt; 7] = [
    Hurt::HeaderFlipped,
    Hurt::DataFlipped,
    Hurt::CutInHeader,
    Hurt::CutToHalf,
    Hurt::CutByABlock,
    Hurt::Filled,
    Hurt::OfAnotherJob,
];

impl Hurt {
    fn to(self, file: &Path, of_other: &Path) {
        let mut bytes = fs::read(file).unwrap();
        let end = bytes.len();
        match self {
            Hurt::HeaderFlipped => bytes[20] ^= 1,
            Hurt::DataFlipped => bytes[(136 << 10)..end * 3 / 4].iter_mut().step_by(512).for_each(|byte| *byte ^= 1),
            Hurt::CutInHeader => bytes.truncate(100),
            Hurt::CutToHalf => bytes.truncate(end / 2),
            Hurt::CutByABlock => bytes.truncate(end - 4096),
            Hurt::Filled => bytes.fill(7),
            Hurt::OfAnotherJob => bytes = fs::read(of_other).unwrap(),
        }
        fs::write(file, bytes).unwrap();
    }
}

/// Story: a start took a shortened copy for whole, and the next checkpoint failed there.
#[test]
fn whichever_copy_is_damaged_the_other_is_taken_and_the_job_goes_on() {
    let other = Place::new();
    other.save(&[0, 1], 2, 1..6);
    for (hurt, copy) in HURTS.into_iter().flat_map(|hurt| [0, 1].map(|copy| (hurt, copy))) {
        let place = Place::new();
        place.save(&[0, 1], 2, 1..4);
        let layout = place.file(0, copy);
        hurt.to(&layout, &other.file(0, copy));
        let (revision, told) = place.restored(&[0, 1], 2);
        let case = format!("{hurt:?}, copy {copy}: {told}");
        assert_eq!(revision, 3, "{case}");
        // If nobody reads the damaged data, nobody reports it.
        if copy == 0 || hurt != Hurt::DataFlipped {
            assert!(told.contains(layout.file_name().unwrap().to_str().unwrap()), "{case}");
        }
        place.save(&[0, 1], 2, 4..6);
        assert_eq!(place.restored(&[0, 1], 2).0, 5, "{case}");
        // All shards are on both nodes again.
        fs::remove_dir_all(place.node(1)).unwrap();
        assert_eq!(place.restored(&[0, 0], 2).0, 5, "{case}");
    }
}

/// Story: the restore makes the memory before anything is saved. If one of these files was damaged, the next start was
/// refused, as if the file had held a revision.
#[test]
fn one_damaged_copy_of_a_job_that_had_saved_nothing_is_a_fresh_start() {
    let other = Place::new();
    other.save(&[0, 1], 2, 1..6);
    for (hurt, copy) in HURTS.into_iter().flat_map(|hurt| [0, 1].map(|copy| (hurt, copy))) {
        let place = Place::new();
        place.save(&[0, 1], 2, 1..1);
        hurt.to(&place.file(0, copy), &other.file(0, copy));
        let came = place.job(&[0, 1], 2, |rank, mut session| {
            let mut program = Program::new(rank);
            program.protect(&mut session).unwrap();
            program.fill(&mut session, Mark { run: 0, step: 0 }, BYTES).unwrap();
            let came = session.restore();
            session.close().unwrap();
            came.map(|restored| restored.map(|restored| restored.revision)).map_err(|error| error.to_string())
        });
        assert_eq!(came, [Ok(None), Ok(None)], "{hurt:?}, copy {copy}");
        place.save(&[0, 1], 2, 1..3);
        assert_eq!(place.restored(&[0, 1], 2).0, 2, "{hurt:?}, copy {copy}");
    }
}

/// The only file of a shard is damaged. Mainstay cannot know that it had no revision.
#[test]
fn what_may_have_been_a_revision_is_no_fresh_start() {
    for lost in [&[][..], &[1]] {
        let place = Place::new();
        place.save(&[0, 1], 2, 1..4);
        Hurt::Filled.to(&place.file(0, 0), Path::new(""));
        match lost {
            [] => Hurt::Filled.to(&place.file(1, 1), Path::new("")),
            _ => fs::remove_dir_all(place.node(1)).unwrap(),
        }
        let refused = place.job(&[0, 1], 2, |rank, mut session| {
            let mut program = Program::new(rank);
            program.protect(&mut session).unwrap();
            session.restore().map(drop).unwrap_err().kind()
        });
        assert_eq!(refused, [ErrorKind::Damaged; 2], "without {lost:?}");
    }
}

/// Story: the start was refused, though each revision was whole in memory.
#[test]
fn what_is_damaged_in_the_space_is_passed_over_where_memory_has_all() {
    for (hurt, per) in [Hurt::HeaderFlipped, Hurt::CutInHeader, Hurt::Filled]
        .into_iter()
        .flat_map(|hurt| [Per::App, Per::Rank].map(|per| (hurt, per)))
    {
        let place = Place::new();
        let by = || Config { per, pfs_every: 1, ..Config::default() };
        let restored = |steps: std::ops::Range<u64>| {
            place.job_by(&[0, 1], by(), |rank, mut session| {
                let mut program = Program::new(rank);
                program.protect(&mut session).unwrap();
                program.fill(&mut session, Mark { run: 0, step: 0 }, BYTES).unwrap();
                let came = session.restore().map_err(|error| error.kind())?;
                for step in steps.clone() {
                    program.fill(&mut session, Mark { run: 1, step }, BYTES).unwrap();
                    session.checkpoint().unwrap();
                    session.wait().unwrap();
                }
                session.close().unwrap();
                Ok(came.map(|came| (came.revision, came.skipped.join("; "))))
            })
        };
        assert_eq!(restored(1..4), [Ok(None), Ok(None)], "{hurt:?}");
        let files = entries(&place.space());
        let file = files.iter().find(|file| file.extension().is_some_and(|suffix| suffix == "mainstay")).unwrap();
        hurt.to(file, Path::new(""));
        let came = restored(4..6);
        let is_told = |told: &str| told.contains(file.file_name().unwrap().to_str().unwrap());
        let is_third = |came: &Result<Option<_>, _>| matches!(came, Ok(Some((3, _))));
        let told = |came: &Result<Option<(u64, String)>, _>| matches!(came, Ok(Some((_, told))) if is_told(told));
        assert!(came.iter().all(is_third) && came.iter().any(told), "{hurt:?}: {came:?}");
        // Beside that file the space has the later revisions.
        [0, 1].iter().for_each(|node| fs::remove_dir_all(place.node(*node)).unwrap());
        let came = restored(6..6);
        assert!(came.iter().all(|came| matches!(came, Ok(Some((5, _))))), "{hurt:?}: {came:?}");
        // Only the damaged file is left, and it may have had a complete revision.
        [0, 1].iter().for_each(|node| fs::remove_dir_all(place.node(*node)).unwrap());
        let others = entries(&place.space()).into_iter();
        let others =
            others.filter(|other| other != file && other.extension().is_some_and(|suffix| suffix == "mainstay"));
        others.for_each(|other| fs::remove_file(other).unwrap());
        assert_eq!(restored(6..6), [Err(ErrorKind::Damaged), Err(ErrorKind::Damaged)], "{hurt:?}, {per:?}");
    }
}

const GLOBAL: [u64; 2] = [12, 3000];

fn spread(place: &Place, nodes: &[usize], copies: u32, saves: &[u64]) -> Option<u64> {
    let came = place.job(nodes, copies, |rank, mut session| {
        let mut program = Spread::new(&GLOBAL, rank, nodes.len());
        program.protect(&mut session).unwrap();
        let came = program.restore(&mut session).unwrap();
        for step in saves {
            program.fill(Mark { run: 1, step: *step });
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
        session.close().unwrap();
        came.map(|mark| mark.step)
    });
    assert!(came.iter().all(|one| *one == came[0]), "{came:?}");
    came[0]
}

/// Story: a job of one rank makes no copies, and did not look at existing ones. A job with fewer ranks than copies did
/// not look at all of them.
#[test]
fn fewer_ranks_come_back_from_the_copies_that_are_there() {
    for (saved_on, copies, left) in [(2, 2, &[0][..]), (3, 3, &[1]), (3, 3, &[2, 0]), (4, 2, &[0, 1, 2])] {
        let place = Place::new();
        let nodes: Vec<usize> = (0..saved_on).collect();
        assert_eq!(spread(&place, &nodes, copies, &[1, 2]), None);
        for node in nodes.iter().filter(|node| !left.contains(node)) {
            fs::remove_dir_all(place.node(*node)).unwrap();
        }
        assert_eq!(spread(&place, left, copies, &[]), Some(2), "{saved_on} ranks, then those on {left:?}");
        // The job restores once more, and goes on.
        assert_eq!(spread(&place, left, copies, &[3, 4]), Some(2), "{saved_on} ranks, then those on {left:?}");
        assert_eq!(spread(&place, left, copies, &[]), Some(4));
    }
}

/// Story: copies that the settings no longer ask for stayed for ever, and the data that only they had was not found.
#[test]
fn copies_that_are_asked_for_no_longer_are_read_and_then_go() {
    let place = Place::new();
    place.save(&[0, 1, 2], 3, 1..4);
    assert_eq!(place.levels(1).len(), 3);
    fs::remove_file(place.layout(1)).unwrap();
    let lost_its_memory = place.restored(&[0, 1, 2], 1);
    assert_eq!(lost_its_memory.0, 3, "{lost_its_memory:?}");
    assert_eq!(place.levels(1).len(), 3, "nothing newer is there yet");
    place.save(&[0, 1, 2], 1, 4..7);
    for node in 0..3 {
        assert_eq!(place.levels(node).len(), 1, "{:?}", place.levels(node));
    }
    assert_eq!(place.restored(&[0, 1, 2], 1).0, 6);
    // One copy fewer is asked for; the other copy goes on.
    let place = Place::new();
    place.save(&[0, 1, 2], 3, 1..4);
    place.save(&[0, 1, 2], 2, 4..7);
    assert_eq!((0..3).map(|node| place.levels(node).len()).collect::<Vec<_>>(), [2; 3]);
    fs::remove_dir_all(place.node(2)).unwrap();
    assert_eq!(place.restored(&[0, 1, 2], 2).0, 6);
}

/// Story: a job without the level took a lineage number that the level had. The next job with the level restored an
/// older revision.
#[test]
fn a_job_without_the_level_is_newer_than_what_lies_there() {
    let place = Place::new();
    place.save(&[0, 1], 2, 1..6);
    run(2, |rank, group| {
        let config = Config { pool_directory: place.node(0), start: Start::Fresh, ..Config::default() };
        let mut session = Session::open(group, &place.space(), config).unwrap();
        let mut program = Program::new(rank);
        program.protect(&mut session).unwrap();
        program.fill(&mut session, Mark { run: 2, step: 1 }, BYTES).unwrap();
        session.checkpoint().unwrap();
        session.close().unwrap();
    });
    place.job(&[0, 1], 2, |rank, mut session| {
        let mut program = Program::new(rank);
        program.protect(&mut session).unwrap();
        assert_eq!(program.restore(&mut session).unwrap(), Some(Mark { run: 2, step: 1 }));
        session.close().unwrap();
    });
}

fn opened(space: &Path, memory: &Path) -> Result<Session, mainstay_engine::Error> {
    let config = Config { memory: LevelPlace::At(memory.into()), ..Config::default() };
    Session::open(Box::new(mainstay_engine::group::Solo), space, config)
}

/// Another user can have made the directory first, if its parent is open to everybody. That user could put other states
/// there.
#[test]
fn directories_that_another_user_made_where_anybody_can_are_refused() {
    if !nix::unistd::geteuid().is_root() {
        tell!("passed over: only root can give a directory to another user");
        return;
    }
    let folder = TempDir::new().unwrap();
    let [shared, own] = ["shared", "own"].map(|name| folder.path().join(name));
    fs::create_dir(&own).unwrap();
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let theirs = shared.join("theirs");
    fs::create_dir_all(theirs.join("deeper")).unwrap();
    chown(&theirs, Some(65534), None).unwrap();
    std::os::unix::fs::symlink(&own, shared.join("link")).unwrap();
    std::os::unix::fs::lchown(shared.join("link"), Some(65534), None).unwrap();
    let refused = |space: &Path, memory: &Path| {
        let error = opened(space, memory).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotASpace, "{error}");
        let told = error.to_string();
        assert!(told.contains("user 65534 made") && told.contains("give a directory of your own"), "{told}");
    };
    for directory in ["theirs", "theirs/deeper", "link/space"] {
        refused(&shared.join(directory), &own.join("memory"));
        refused(&own.join("space"), &shared.join(directory));
    }
    // Directories of this user, or of root, are accepted there.
    opened(&shared.join("mine"), &shared.join("memory")).unwrap().close().unwrap();
}

//! Data out of reach of a job. A start without the disks of the nodes is refused if the disks are known to have a
//! revision newer than all that is left, unless `disk_lost` accepts the loss. Revisions that a rollback did not see do
//! not come back.

use crate::support::{
    bounded,
    program::{Mark, Program},
    run,
    spread::Spread,
};
use mainstay_engine::{
    Config, DiskLost, Error, ErrorKind, LevelPlace, MemoryAfter, Places, Session, SpaceSurvey, Start,
    tend::{GoneOver, RolledBack, Rules, Unseen, prune_all, rollback},
};
use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Barrier,
};
use tempfile::TempDir;

const BYTES: usize = 30_000;
/// Each rank is on a node of its own.
const NODES: [usize; 2] = [0, 1];

/// A space, and nodes with memory and disks of their own. The disks get every revision, the space every second one.
struct Place {
    folder: TempDir,
    has_disks: bool,
    config: Config,
}

impl Place {
    fn new() -> Place {
        let config = Config {
            memory_copies: 1,
            memory_after: MemoryAfter::Kept,
            disk_every: 1,
            pfs_every: 2,
            start: Start::Fresh,
            ..Config::default()
        };
        Place { folder: TempDir::new_in("/dev/shm").unwrap(), has_disks: true, config }
    }

    fn space(&self) -> PathBuf {
        self.folder.path().join("space")
    }

    fn memory(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("memory{node}"))
    }

    fn disk(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("disk{node}"))
    }

    /// Runs one rank on each of `nodes`. Returns the results by rank.
    fn job<T: Send>(
        &self,
        nodes: &[usize],
        work: impl Fn(usize, Session) -> Result<T, Error> + Sync,
    ) -> Vec<Result<T, Error>> {
        bounded("a job with disks", || {
            run(nodes.len(), |rank, group| {
                let node = nodes[rank];
                let memory = self.memory(node);
                fs::create_dir_all(&memory).unwrap();
                let config = Config {
                    memory: LevelPlace::At(memory.clone()),
                    disk: if self.has_disks { LevelPlace::At(self.disk(node)) } else { LevelPlace::Off },
                    pool_directory: memory,
                    ..self.config.clone()
                };
                work(rank, Session::open(group, &self.space(), config)?)
            })
        })
    }

    /// Restores, then saves `steps`. Without `close`, the job ends like a killed one.
    fn saves(&self, nodes: &[usize], steps: Range<u64>, close: bool) {
        let end = Barrier::new(nodes.len());
        let saved = self.job(nodes, |rank, mut session| {
            let mut program = Program::new(rank);
            program.protect(&mut session)?;
            program.fill(&mut session, Mark { run: 0, step: 0 }, BYTES)?;
            session.restore()?;
            for step in steps.clone() {
                program.fill(&mut session, Mark { run: 1, step }, BYTES)?;
                session.checkpoint()?;
                session.wait()?;
            }
            if close {
                return session.close();
            }
            end.wait();
            Ok(())
        });
        saved.into_iter().for_each(|saved| saved.unwrap());
    }

    /// The step that all ranks restore, and the output for the first rank.
    fn restored(&self, nodes: &[usize]) -> (Option<u64>, String) {
        let came = self.job(nodes, |rank, mut session| {
            let mut program = Program::new(rank);
            program.protect(&mut session)?;
            program.fill(&mut session, Mark { run: 0, step: 0 }, BYTES)?;
            let came = program.restore_and_tell(&mut session).unwrap();
            session.close()?;
            Ok(came.map_or((None, String::new()), |(mark, told)| (Some(mark.step), told.join("; "))))
        });
        let came: Vec<_> = came.into_iter().map(Result::unwrap).collect();
        assert!(came.iter().all(|one| one.0 == came[0].0), "{came:?}");
        came.into_iter().next().unwrap()
    }

    /// The reason that all ranks are refused. They change no existing file.
    fn refused(&self, nodes: &[usize]) -> String {
        let before = self.files();
        let refused = self.job(nodes, |_, session| {
            drop(session);
            Ok(())
        });
        let told: Vec<String> = refused
            .into_iter()
            .map(|refused| {
                let error = refused.expect_err("the disks are out of reach");
                assert_eq!(error.kind(), ErrorKind::OutOfSight, "{error}");
                error.to_string()
            })
            .collect();
        let after = self.files();
        let changed: Vec<_> = before.iter().filter(|(path, bytes)| after.get(*path) != Some(bytes)).collect();
        assert!(changed.is_empty(), "{:?}", changed.iter().map(|(path, _)| path).collect::<Vec<_>>());
        told.into_iter().next().unwrap()
    }

    /// The files in the space and on the levels, without the name of the last opener.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                match entry.is_dir() {
                    true => folders.push(entry),
                    false if entry.file_name().is_some_and(|name| name == "lock") => {}
                    false => drop(all.insert(entry.clone(), fs::read(&entry).unwrap())),
                }
            }
        }
        all
    }

    fn lose(&self, what: fn(&Place, usize) -> PathBuf) {
        NODES.iter().for_each(|node| fs::remove_dir_all(what(self, *node)).unwrap());
    }
}

/// The start went on from revision 2, and overwrote the revisions of the disks.
#[test]
fn disks_that_are_gone_refuse_the_start_until_that_is_accepted() {
    for (close, emptied) in [(true, false), (false, false), (false, true)] {
        let mut place = Place::new();
        place.saves(&NODES, 1..4, close);
        place.lose(Place::memory);
        let away = place.folder.path().join("away");
        fs::create_dir(&away).unwrap();
        for node in NODES {
            fs::rename(place.disk(node), away.join(format!("disk{node}"))).unwrap();
            if emptied {
                fs::create_dir(place.disk(node)).unwrap();
            }
        }
        for _ in 0..2 {
            let told = place.refused(&NODES);
            let words = ["the level disk", "disk0/mainstay-level-", "revision 3 is there", "revision 2 is left"];
            for word in [&words[..], &["disk_lost = \"accepted\"", "MAINSTAY_DISK_LOST=accepted"]].concat() {
                assert!(told.contains(word), "no {word:?} in {told}");
            }
        }
        // On other nodes the result is the same. With the disks back, nothing was lost.
        place.refused(&[2, 3]);
        for node in NODES {
            let _ = fs::remove_dir_all(place.disk(node));
            fs::rename(away.join(format!("disk{node}")), place.disk(node)).unwrap();
        }
        assert_eq!(place.restored(&NODES).0, Some(3));

        place.lose(Place::memory);
        place.lose(Place::disk);
        place.refused(&NODES);
        place.config.disk_lost = DiskLost::Accepted;
        let (step, told) = place.restored(&NODES);
        assert!(step == Some(2) && told.contains("revision 3 is on the level disk"), "{step:?}: {told}");
        assert!(told.contains("accepted as lost"), "{told}");
        place.saves(&NODES, 4..6, true);
        // Accepting once is enough: nothing is missed any more.
        place.config.disk_lost = DiskLost::Refused;
        place.lose(Place::memory);
        assert_eq!(place.restored(&NODES).0, Some(5));
    }
}

/// The first revision is on its way to the disks, or on them. No other place has a revision.
#[test]
fn disks_that_had_all_there_was_refuse_the_start() {
    let mut place = Place::new();
    place.config.pfs_every = 0;
    place.saves(&NODES, 1..2, false);
    place.lose(Place::memory);
    place.lose(Place::disk);
    let told = place.refused(&NODES);
    assert!(told.contains("revision 1") && told.contains("nothing is left"), "{told}");
    place.config.disk_lost = DiskLost::Accepted;
    assert_eq!(place.restored(&NODES).0, None);
    place.config.disk_lost = DiskLost::Refused;
    place.saves(&NODES, 1..3, true);
}

/// One of two disks was gone, and the other disk's revision lacked its shards. The start was already refused, but the
/// only way to go on was to move files.
#[test]
fn a_disk_that_is_gone_can_be_accepted_as_lost_too() {
    let mut place = Place::new();
    place.saves(&NODES, 1..4, false);
    place.lose(Place::memory);
    fs::remove_dir_all(place.disk(1)).unwrap();
    let told = place.refused(&NODES);
    assert!(told.contains("revision 3") && told.contains("shard 1 of it"), "{told}");
    assert!(told.contains("disk_lost = \"accepted\""), "{told}");
    place.config.disk_lost = DiskLost::Accepted;
    let (step, told) = place.restored(&NODES);
    assert!(step == Some(2) && told.contains("shard 1 went with the nodes"), "{step:?}: {told}");
    place.saves(&NODES, 4..6, true);
    place.config.disk_lost = DiskLost::Refused;
    assert_eq!(place.restored(&NODES).0, Some(5));
}

#[test]
fn what_is_lost_in_memory_alone_or_is_elsewhere_refuses_nothing() {
    let place = Place::new();
    // A first start.
    assert_eq!(place.restored(&NODES).0, None);
    place.saves(&NODES, 1..4, false);
    place.lose(Place::memory);
    assert_eq!(place.restored(&NODES).0, Some(3));
    // The memory has the revisions that the disks had.
    place.saves(&NODES, 4..6, false);
    place.lose(Place::disk);
    assert_eq!(place.restored(&NODES).0, Some(5));
    // So has the space.
    place.saves(&NODES, 6..7, false);
    place.lose(Place::memory);
    place.lose(Place::disk);
    assert_eq!(place.restored(&NODES).0, Some(6));
}

/// A node is away with its disk, and the memory of the other has all shards.
#[test]
fn fewer_ranks_start_where_all_shards_are_elsewhere() {
    const GLOBAL: [u64; 2] = [12, 3000];
    for in_memory in [true, false] {
        let mut place = Place::new();
        (place.config.memory_copies, place.config.pfs_every) = if in_memory { (2, 0) } else { (1, 3) };
        let end = Barrier::new(2);
        let work = |ranks: usize, steps: &'static [u64]| {
            let end = &end;
            move |rank: usize, mut session: Session| {
                let mut program = Spread::new(&GLOBAL, rank, ranks);
                program.protect(&mut session)?;
                let came = program.restore(&mut session).unwrap();
                for step in steps {
                    program.fill(Mark { run: 1, step: *step });
                    session.checkpoint()?;
                    session.wait()?;
                }
                if ranks == 2 {
                    end.wait();
                }
                Ok(came.map(|mark| mark.step))
            }
        };
        place.job(&NODES, work(2, &[1, 2, 3])).into_iter().for_each(|saved| assert!(saved.is_ok(), "{saved:?}"));
        fs::remove_dir_all(place.disk(1)).unwrap();
        fs::remove_dir_all(place.memory(1)).unwrap();
        if !in_memory {
            fs::remove_dir_all(place.disk(0)).unwrap();
            fs::remove_dir_all(place.memory(0)).unwrap();
        }
        let came = place.job(&[0], work(1, &[]));
        assert_eq!(*came[0].as_ref().unwrap(), Some(3), "in memory: {in_memory}");
    }
}

/// No start asks for the revisions that a rollback has left out.
#[test]
fn after_a_rollback_or_a_prune_nothing_is_missed() {
    let place = Place::new();
    place.saves(&NODES, 1..6, true);
    type Work<'a> = &'a dyn Fn(&[(&Path, Unseen<'_>)]);
    let tended = |what: &str, work: Work<'_>| {
        let places = Places::of(&place.space());
        assert_eq!(places.all.len(), 5, "{what}: {places:?}");
        let gone_over = GoneOver::default();
        let all: Vec<_> =
            places.all.iter().rev().map(|one| (one.directory.as_path(), Unseen::Waits(&gone_over))).collect();
        work(&all);
    };
    tended("prune", &|all| drop(prune_all(all, &Rules { keep_last: Some(1), ..Rules::default() }, &|_| ()).unwrap()));
    let to = SpaceSurvey::open(&place.space()).unwrap().newest().unwrap().key;
    assert_eq!(to.number, 4);
    tended("rollback", &|all| assert!(matches!(rollback(all, to, &|_| ()).unwrap(), RolledBack::Done(_))));
    place.lose(Place::memory);
    let disks: Vec<PathBuf> = NODES.map(|node| place.disk(node)).into();
    let away: Vec<PathBuf> = disks.iter().map(|disk| disk.with_extension("away")).collect();
    disks.iter().zip(&away).for_each(|(disk, away)| fs::rename(disk, away).unwrap());
    assert_eq!(place.restored(&NODES).0, Some(4));
}

/// Memory without a directory of the last job, or on another node: revisions there that a rollback had not seen came
/// back.
#[test]
fn a_rollback_leaves_out_what_it_does_not_see() {
    for is_of_earlier_job in [true, false] {
        let mut place = Place::new();
        (place.config.memory_copies, place.has_disks) = (2, false);
        place.saves(&NODES, 1..4, false);
        let away = place.memory(1).with_extension("away");
        if is_of_earlier_job {
            // The memory of nodes 2 and 3 has nothing newer than the space.
            place.saves(&[2, 3], 0..0, false);
        } else {
            fs::rename(place.memory(1), &away).unwrap();
        }
        let places = Places::of(&place.space());
        let survey = SpaceSurvey::open_all(&place.space()).unwrap();
        let to = survey.revision(2).unwrap().key;
        let gone_over = Unseen::GivenUp;
        let all: Vec<_> = places.all.iter().rev().map(|one| (one.directory.as_path(), gone_over)).collect();
        assert!(matches!(rollback(&all, to, &|_| ()).unwrap(), RolledBack::Done(_)));
        if !is_of_earlier_job {
            fs::rename(away, place.memory(1)).unwrap();
            let survey = SpaceSurvey::open_all(&place.space()).unwrap();
            assert!(survey.revisions.iter().all(|revision| revision.key <= to), "{:?}", survey.revisions);
        }
        assert_eq!(place.restored(&NODES).0, Some(2), "of an earlier job: {is_of_earlier_job}");
        // Revisions that are saved from then on do come back.
        place.saves(&NODES, 7..8, false);
        assert_eq!(place.restored(&NODES).0, Some(7));
    }
}

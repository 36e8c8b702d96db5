//! Several levels in one session: each revision is complete on the nearest first, and goes from there to the others at
//! their own pace. A restore brings the newest revision that is whole on any of them.

use crate::support::{
    bounded,
    faulty::{Failure, Faulty, Gate, Loss, Medium, View},
    often,
    program::{Mark, Program},
    recording::{Checked, Trouble},
    ways::{capture_of, compress_of},
    whole,
};
use mainstay_engine::{
    Config, ErrorKind, LevelKind, LevelPlan, MemoryAfter, Session, Signal, SpaceSurvey, Start,
    device::Disk,
    group::{Group, Solo, ThreadGroup},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const BYTES: usize = 30_000;

/// The media of a job, the nearest first, each with `every` and `keep`.
struct Levels {
    media: Vec<(Medium, u32, u32)>,
    ranks: usize,
}

impl Levels {
    /// Memory takes all revisions, a disk every second, and a third level every third.
    fn three(ranks: usize) -> Levels {
        Levels { media: vec![(Medium::new(true), 1, 1), (Medium::new(true), 2, 1), (Medium::new(true), 3, 2)], ranks }
    }

    fn views(&self) -> Vec<Vec<Arc<View>>> {
        let of_rank = |_| self.media.iter().map(|(medium, ..)| medium.view()).collect();
        (0..self.ranks).map(of_rank).collect()
    }

    /// Opens the levels on each rank by its `views`, and does `work`.
    fn job_by(
        &self,
        views: &[Vec<Arc<View>>],
        work: impl Fn(usize, Program, Session) -> Result<(), Trouble> + Sync,
    ) -> Checked<()> {
        let kinds = [LevelKind::Memory, LevelKind::Disk, LevelKind::Pfs];
        let run = |group: Box<dyn Group>| -> Result<(), Trouble> {
            let rank = group.rank();
            let plan = |level: usize| {
                let (_, every, keep) = self.media[level];
                {
                    let device = Arc::new(Faulty(views[rank][level].clone()));
                    LevelPlan { kind: kinds[level], device, every, keep, copies: Vec::new(), former: Vec::new() }
                }
            };
            let plans = (0..self.media.len()).map(plan).collect();
            let config = Config {
                pool_bytes: Some(128 << 10),
                chunk_bytes: Some(16 << 10),
                io_threads: 1,
                start: Start::Fresh,
                memory_after: MemoryAfter::Kept,
                capture: capture_of(self.ranks + self.media.len()),
                compress: compress_of(self.ranks),
                ..Config::default()
            };
            let mut session = Session::open_levels(group, plans, config)?;
            let mut program = Program::new(rank);
            program.protect(&mut session)?;
            work(rank, program, session)
        };
        let ended: Vec<Result<(), Trouble>> = bounded("a job with several levels", || {
            if self.ranks == 1 {
                return vec![run(Box::new(Solo))];
            }
            thread::scope(|scope| {
                let run = &run;
                let groups = ThreadGroup::new(self.ranks).into_iter();
                let ranks: Vec<_> = groups.map(|group| scope.spawn(move || run(Box::new(group)))).collect();
                ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
            })
        });
        ended.into_iter().collect::<Result<(), Trouble>>().map_err(Trouble::why)
    }

    fn job(&self, work: impl Fn(usize, Program, Session) -> Result<(), Trouble> + Sync) -> Checked<()> {
        self.job_by(&self.views(), work)
    }

    /// Numbers of the complete revisions on a level, newest first.
    fn complete(&self, level: usize) -> Vec<u64> {
        let survey = SpaceSurvey::open_on(&Faulty(self.media[level].0.view())).unwrap();
        survey.revisions.iter().filter(|found| found.missing().is_empty()).map(|found| found.key.number).collect()
    }

    /// The restored step, equal on all ranks.
    fn restored(&self) -> Checked<Option<u64>> {
        let found = std::sync::Mutex::new(Vec::new());
        self.job(|_, mut program, mut session| {
            let mark = program.restore(&mut session)?;
            found.lock().unwrap().push(mark.map(|mark| mark.step));
            Ok(())
        })?;
        let found = found.into_inner().unwrap();
        assert!(found.iter().all(|other| *other == found[0]), "the ranks restored {found:?}");
        Ok(found[0])
    }

    /// The same levels; those in `gone` are empty.
    fn without(&self, gone: &[usize]) -> Levels {
        let media = self.media.iter().enumerate().map(|(level, (medium, every, keep))| {
            let medium = if gone.contains(&level) { Medium::new(true) } else { medium.end_processes() };
            (medium, *every, *keep)
        });
        Levels { media: media.collect(), ranks: self.ranks }
    }
}

fn save(program: &mut Program, session: &mut Session, run: u64, step: u64, wait: bool) -> Result<(), Trouble> {
    program.fill(session, Mark { run, step }, BYTES + 5000 * (step % 3) as usize)?;
    session.checkpoint()?;
    if wait { Ok(session.wait()?) } else { Ok(()) }
}

#[test]
fn each_level_has_its_own_pace_and_number_of_revisions() {
    for ranks in [1, 3] {
        let levels = Levels::three(ranks);
        levels
            .job(|_, mut program, mut session| {
                (1..=7).try_for_each(|step| save(&mut program, &mut session, 1, step, true))?;
                Ok(session.close()?)
            })
            .unwrap();
        assert_eq!([0, 1, 2].map(|level| levels.complete(level)[0]), [7, 6, 6], "{ranks} ranks");
        assert_eq!(levels.complete(2)[..2], [6, 3], "{ranks} ranks");
        for level in 0..3 {
            whole::check(&levels.media[level].0.files()).unwrap();
        }
        let came_back =
            [&[][..], &[0], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]].map(|gone| levels.without(gone).restored());
        assert_eq!(came_back, [Some(7), Some(6), Some(6), Some(6), Some(7), None].map(Ok), "{ranks} ranks");
    }
}

/// If the nearest level is lost, the restore reads the next level, which has the same revision or an older one. Later
/// revisions are newer on all levels than the old ones.
#[test]
fn a_job_goes_on_where_the_nearest_level_was_lost() {
    let levels = Levels::three(2);
    let steps = |from: u64, to: u64| {
        move |_: usize, mut program: Program, mut session: Session| -> Result<(), Trouble> {
            program.restore(&mut session).map_err(Trouble::from)?;
            (from..=to).try_for_each(|step| save(&mut program, &mut session, from, step, true))?;
            Ok(session.close()?)
        }
    };
    levels.job(steps(1, 5)).unwrap();
    let levels = levels.without(&[0]);
    assert_eq!(levels.restored(), Ok(Some(4)));
    levels.job(steps(5, 6)).unwrap();
    assert_eq!(levels.restored(), Ok(Some(6)));
    // The disk is lost, too. Its newest revision is one that the third level does not have.
    assert_eq!(levels.without(&[0, 1]).restored(), Ok(Some(6)));
}

#[test]
fn damage_on_one_level_is_read_from_another_and_told() {
    let levels = Levels::three(1);
    levels
        .job(|_, mut program, mut session| {
            (1..=6).try_for_each(|step| save(&mut program, &mut session, 1, step, true))?;
            Ok(session.close()?)
        })
        .unwrap();
    let near = &levels.media[0].0;
    let place = whole::layouts(&near.files()).unwrap().swap_remove(0).header.portions[0];
    // All data of the portion changes; the slots stay.
    let view = near.view();
    let files = near.files();
    let bytes = place.bytes - (1 << 17);
    spoil(&view, &files, place.at + (1 << 17), bytes);
    let levels = levels.without(&[]);
    levels
        .job(|_, mut program, mut session| {
            program.fill(&mut session, Mark { run: 9, step: 9 }, BYTES)?;
            let restored = session.restore()?.expect("the disk has it");
            assert_eq!(restored.revision, 6);
            assert!(!restored.skipped.is_empty());
            Ok(())
        })
        .unwrap();
}

fn spoil(view: &Arc<View>, files: &crate::support::faulty::Files, at: u64, bytes: u64) {
    use mainstay_engine::device::{Access, Device};
    let device = Faulty(view.clone());
    let name = files.names.keys().find(|name| name.ends_with(".mainstay")).unwrap().clone();
    let file = device.open(&name, Access::Write, None).unwrap();
    let ones = vec![0xA5; 4096];
    for block in 0..bytes / 4096 {
        file.write_at(&ones, at + block * 4096).unwrap();
    }
    file.sync().unwrap();
}

/// `wait` reports the failure of a level, and the others go on. The failed level gets the next revision that is due
/// there.
#[test]
fn a_level_that_fails_harms_no_other() {
    for (ranks, failing) in [(1, 1), (2, 1), (3, 2)] {
        let levels = Levels {
            media: vec![(Medium::new(true), 1, 1), (Medium::new(true), 1, 1), (Medium::new(true), 1, 1)],
            ranks,
        };
        let views = levels.views();
        levels
            .job_by(&views, |rank, mut program, mut session| {
                (1..=2).try_for_each(|step| save(&mut program, &mut session, 1, step, true))?;
                if rank == ranks - 1 {
                    views[rank][failing].fails_in(1, Failure::Full);
                }
                program.fill(&mut session, Mark { run: 1, step: 3 }, BYTES)?;
                session.checkpoint()?;
                let told = session.wait().unwrap_err();
                assert_eq!(told.kind(), ErrorKind::DiskFull, "{told}");
                session.wait()?;
                (4..=5).try_for_each(|step| save(&mut program, &mut session, 1, step, true))?;
                Ok(session.close()?)
            })
            .unwrap();
        assert_eq!([0, 1, 2].map(|level| levels.complete(level)[0]), [5; 3]);
    }
}

/// Story: `wait` reported that the nearest level did not get a revision. The next wait, and the close, reported the
/// same for the farther levels, which are fed from there.
#[test]
fn what_the_nearest_level_did_not_get_is_told_once() {
    for ranks in [1, 3] {
        let levels = Levels { media: vec![(Medium::new(true), 1, 1), (Medium::new(true), 1, 1)], ranks };
        let views = levels.views();
        levels
            .job_by(&views, |rank, mut program, mut session| {
                save(&mut program, &mut session, 1, 1, true)?;
                if rank == ranks - 1 {
                    views[rank][0].fails_in(3, Failure::Full);
                }
                program.fill(&mut session, Mark { run: 1, step: 2 }, BYTES)?;
                // An I/O thread may meet the full device before all data is staged. That rank gets the error here, too.
                if let Err(error) = session.checkpoint() {
                    assert_eq!(error.kind(), ErrorKind::DiskFull);
                }
                assert_eq!(session.wait().unwrap_err().kind(), ErrorKind::DiskFull);
                session.wait()?;
                Ok(session.close()?)
            })
            .unwrap();
    }
}

/// One level stands still. A wait for another level returns; a wait for this level does not.
#[test]
fn a_wait_for_one_level_waits_for_that_alone() {
    for ranks in [1, 2] {
        let levels = Levels {
            media: vec![(Medium::new(true), 1, 1), (Medium::new(true), 1, 1), (Medium::new(true), 1, 2)],
            ranks,
        };
        let gate = Arc::new(Gate::new());
        let of_rank = |_| {
            let [near, middle, far] = [0, 1, 2].map(|level| &levels.media[level].0);
            vec![near.view(), middle.view(), far.gated_view(&gate)]
        };
        let views: Vec<Vec<Arc<View>>> = (0..ranks).map(of_rank).collect();
        let together = std::sync::Barrier::new(ranks);
        let newest = || [0, 1, 2].map(|level| levels.complete(level)[0]);
        levels
            .job_by(&views, |rank, mut program, mut session| {
                let first = |work: &dyn Fn()| {
                    together.wait();
                    if rank == 0 {
                        work();
                    }
                    together.wait();
                };
                save(&mut program, &mut session, 1, 1, true)?;
                first(&|| gate.close());
                save(&mut program, &mut session, 1, 2, false)?;
                session.progress()?;
                session.wait_for(LevelKind::Memory)?;
                session.wait_for(LevelKind::Disk)?;
                first(&|| assert_eq!(newest(), [2, 2, 1]));
                // The nearer levels go on while the far one still stands.
                save(&mut program, &mut session, 1, 3, false)?;
                session.wait_for(LevelKind::Disk)?;
                first(&|| {
                    assert_eq!(newest(), [3, 3, 1]);
                    gate.open();
                });
                session.wait_for(LevelKind::Pfs)?;
                first(&|| assert_eq!(newest(), [3, 3, 2]));
                Ok(session.close()?)
            })
            .unwrap();
    }
}

/// A wait for the failed level reports the failure once. A wait for another level does not.
#[test]
fn a_wait_for_one_level_tells_what_that_one_did_not_get() {
    for (ranks, failing) in [(1, 1), (2, 2), (3, 1)] {
        let levels = Levels {
            media: vec![(Medium::new(true), 1, 1), (Medium::new(true), 1, 1), (Medium::new(true), 1, 1)],
            ranks,
        };
        let views = levels.views();
        levels
            .job_by(&views, |rank, mut program, mut session| {
                save(&mut program, &mut session, 1, 1, true)?;
                if rank == ranks - 1 {
                    views[rank][failing].fails_in(1, Failure::Full);
                }
                save(&mut program, &mut session, 1, 2, false)?;
                let mut others = LevelKind::ALL.into_iter().filter(|kind| *kind != LevelKind::ALL[failing]);
                others.try_for_each(|kind| session.wait_for(kind))?;
                let told = session.wait_for(LevelKind::ALL[failing]).unwrap_err();
                assert_eq!(told.kind(), ErrorKind::DiskFull, "{told}");
                session.wait_for(LevelKind::ALL[failing])?;
                Ok(session.close()?)
            })
            .unwrap();
    }
}

/// If the nearest level did not get a revision, no farther one has it either. Story: the error of the farther level had
/// the same words twice.
#[test]
fn a_level_that_is_fed_from_one_that_failed_tells_once_that_the_revision_was_not_saved() {
    let of_farther = AtomicUsize::new(0);
    // The first writes write the staged data, the last ones sync and publish it.
    for write in 1..=8 {
        let levels = Levels { media: vec![(Medium::new(true), 1, 1), (Medium::new(true), 1, 1)], ranks: 1 };
        let views = levels.views();
        levels
            .job_by(&views, |_, mut program, mut session| {
                save(&mut program, &mut session, 1, 1, true)?;
                views[0][0].fails_in(write, Failure::Full);
                program.fill(&mut session, Mark { run: 1, step: 2 }, BYTES)?;
                let saved = session.checkpoint().map(drop);
                let nearest = session.wait_for(LevelKind::Memory);
                let farther = session.wait_for(LevelKind::Disk);
                of_farther.fetch_add(usize::from(farther.is_err()), Ordering::Relaxed);
                for told in [saved, nearest, farther].into_iter().filter_map(Result::err) {
                    let said = "revision 2 was not saved, earlier ones are unchanged: ";
                    assert!(told.to_string().matches(said).count() < 2, "write {write}: {told}");
                }
                let _ = session.close();
                Ok(())
            })
            .unwrap();
    }
    assert!(of_farther.into_inner() > 0, "no write failed that the farther level was told of");
}

#[test]
fn a_wait_for_a_level_that_is_not_there_is_refused() {
    let levels = Levels { media: vec![(Medium::new(true), 1, 1), (Medium::new(true), 1, 1)], ranks: 2 };
    levels
        .job(|rank, mut program, mut session| {
            save(&mut program, &mut session, 1, 1, false)?;
            let told = session.wait_for(LevelKind::Pfs).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::InvalidArgument);
            assert!(told.to_string().contains("no level space; it has memory and disk"), "{told}");
            let told = session.wait_for(LevelKind::ALL[rank]).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::InvalidArgument);
            assert!(told.to_string().contains("some ranks wait for memory and some for disk"), "{told}");
            session.wait_for(LevelKind::Disk)?;
            Ok(session.close()?)
        })
        .unwrap();
}

/// Checkpoints do not wait for a level that stands still. The level reads blocks that stay in place meanwhile.
#[test]
fn a_level_that_is_busy_is_passed_over() {
    for ranks in [1, 2] {
        let levels = Levels { media: vec![(Medium::new(true), 1, 1), (Medium::new(true), 1, 2)], ranks };
        let gate = Arc::new(Gate::new());
        let of_rank = |_| vec![levels.media[0].0.view(), levels.media[1].0.gated_view(&gate)];
        let views: Vec<Vec<Arc<View>>> = (0..ranks).map(of_rank).collect();
        let together = std::sync::Barrier::new(ranks);
        levels
            .job_by(&views, |rank, mut program, mut session| {
                save(&mut program, &mut session, 1, 1, true)?;
                together.wait();
                if rank == 0 {
                    gate.close();
                }
                together.wait();
                (2..=9).try_for_each(|step| save(&mut program, &mut session, 1, step, false))?;
                together.wait();
                if rank == 0 {
                    gate.open();
                }
                session.wait()?;
                save(&mut program, &mut session, 1, 10, true)?;
                Ok(session.close()?)
            })
            .unwrap();
        assert_eq!((levels.complete(0)[0], levels.complete(1)[..2].to_vec()), (10, vec![10, 2]));
        assert_eq!(levels.without(&[0]).restored(), Ok(Some(10)));
        whole::check(&levels.media[1].0.files()).unwrap();
    }
}

/// All processes end at some operation on some level. An acknowledged revision comes back if a level that has it is
/// left.
#[test]
fn a_kill_at_any_moment_loses_nothing_that_is_left() {
    for seed in 0..often(25, 150) {
        killed(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
#[ignore = "long; make campaign runs it"]
fn very_many_kills_lose_nothing_that_is_left() {
    for seed in 1_000..6_000 {
        killed(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

fn killed(seed: u64) -> Checked<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let ranks = random.usize(1..=3);
    let mut medium = || (Medium::new(true), random.u32(1..=3), random.u32(1..=2));
    let mut levels = Levels { media: vec![medium(), medium(), medium()], ranks };
    levels.media[0].1 = 1;
    levels.media.truncate(random.usize(2..=3));
    let pace: Vec<u64> = levels.media.iter().map(|(_, every, _)| u64::from(*every)).collect();
    // For each level, the newest step that all ranks know to be complete.
    let mut acknowledged = vec![0; pace.len()];
    let mut step = 0;
    for run in 1..=3 {
        let views = levels.views();
        let (victim, level) = (random.usize(0..ranks), random.usize(0..pace.len()));
        views[victim][level].dies_in(random.u64(1..120));
        let waits: Vec<bool> = (0..8).map(|_| random.bool()).collect();
        let told = std::sync::Mutex::new(vec![Vec::new(); ranks]);
        let begins = step;
        // The death of a device ends the job, so an error is no surprise.
        let _ = levels.job_by(&views, |rank, mut program, mut session| {
            program.restore(&mut session).map_err(Trouble::from)?;
            let mut all_are_idle = true;
            for (waits, step) in waits.iter().zip(begins + 1..) {
                program.fill(&mut session, Mark { run, step }, BYTES + 999 * (step % 5) as usize)?;
                let number = session.checkpoint()?;
                if *waits {
                    session.wait()?;
                    told.lock().unwrap()[rank].push((number, step, all_are_idle));
                }
                // A busy level is passed over.
                all_are_idle = *waits;
            }
            Ok(())
        });
        step += 8;
        let told = told.into_inner().unwrap();
        // `wait` has returned on one rank, so the revision is complete on all levels that it went to.
        for (number, step, all_were_idle) in told.into_iter().flatten() {
            for (level, every) in pace.iter().enumerate() {
                if level == 0 || (number % every == 0 && all_were_idle) {
                    acknowledged[level] = acknowledged[level].max(step);
                }
            }
        }
        let gone: Vec<usize> = (0..pace.len()).filter(|_| random.u8(0..3) == 0).collect();
        levels = levels.without(&gone);
        gone.iter().for_each(|level| acknowledged[*level] = 0);
        if random.bool() {
            // The power fails as well. Durable data is left; other data is lost, or a part of it.
            for (medium, ..) in &mut levels.media {
                *medium = medium.lose_power(Loss::Everything);
            }
        }
        let restored = levels.restored()?;
        let least = acknowledged.iter().copied().max().unwrap_or(0);
        if restored.unwrap_or(0) < least {
            return Err(format!(
                "run {run}: {restored:?} was restored, and {least} acknowledged: {acknowledged:?} gone {gone:?}"
            ));
        }
        levels = levels.without(&[]);
    }
    Ok(())
}

/// A level has room for its shards and little more, and makes new portions when they grow. Story: farther levels did
/// not, and got no revision any more once the state had grown.
#[test]
fn levels_grow_with_the_state() {
    for ranks in [1, 2] {
        let levels = Levels {
            media: vec![(Medium::new(true), 1, 1), (Medium::new(true), 2, 1), (Medium::new(true), 1, 2)],
            ranks,
        };
        levels
            .job(|rank, mut program, mut session| {
                for (step, bytes) in (1..).zip([20_000, 30_000, 29_000, 90_000, 10_000, 91_000, 200_000, 200_000]) {
                    program.fill(&mut session, Mark { run: 1, step }, bytes + 5000 * rank)?;
                    session.checkpoint()?;
                    session.wait()?;
                }
                Ok(session.close()?)
            })
            .unwrap();
        assert_eq!([0, 1, 2].map(|level| levels.complete(level)[0]), [8; 3]);
        for (medium, ..) in &levels.media {
            whole::check(&medium.files()).unwrap();
            let layouts = whole::layouts(&medium.files()).unwrap();
            let ids: std::collections::BTreeSet<_> = layouts.iter().map(|found| found.header.layout_id).collect();
            assert!(ids.len() <= 2, "old layouts go");
        }
        let came_back = [&[][..], &[0], &[0, 1], &[0, 2]].map(|gone| levels.without(gone).restored());
        assert_eq!(came_back, [Some(8); 4].map(Ok), "{ranks} ranks");
    }
}

/// A node is lost with its memory. The shards of the other node are useless alone, and the next level has an older
/// revision.
#[test]
fn memory_goes_with_its_node() {
    let shared = Medium::new(true);
    let nodes = [Medium::new(true), Medium::new(true)];
    let levels = Levels { media: vec![(nodes[0].clone(), 1, 1), (shared.clone(), 2, 1)], ranks: 2 };
    let views = |nodes: &[Medium; 2], shared: &Medium| -> Vec<Vec<Arc<View>>> {
        nodes.iter().map(|node| vec![node.view(), shared.view()]).collect()
    };
    levels
        .job_by(&views(&nodes, &shared), |_, mut program, mut session| {
            (1..=5).try_for_each(|step| save(&mut program, &mut session, 1, step, true))
        })
        .unwrap();
    let shared = shared.end_processes();
    let came_back = |nodes: [Medium; 2]| {
        let found = std::sync::Mutex::new(Vec::new());
        let came = levels.job_by(&views(&nodes, &shared), |rank, mut program, mut session| {
            program.fill(&mut session, Mark { run: 0, step: 0 }, BYTES + 5000)?;
            let mut restored = session.restore();
            for bytes in [BYTES, BYTES + 10_000] {
                if restored.as_ref().is_err_and(|error| error.kind() == ErrorKind::RegionChanged) {
                    program.fill(&mut session, Mark { run: 0, step: 0 }, bytes)?;
                    restored = session.restore();
                }
            }
            let restored = restored?.expect("the disk has one");
            found.lock().unwrap().push((rank, restored.revision, restored.skipped));
            Ok(())
        });
        came.map(|()| found.into_inner().unwrap())
    };
    // Both nodes are there: memory has the newest revision.
    let there = came_back([nodes[0].end_processes(), nodes[1].end_processes()]).unwrap();
    assert!(there.iter().all(|(_, revision, skipped)| *revision == 5 && skipped.is_empty()), "{there:?}");
    // One node is lost.
    let left = came_back([nodes[0].end_processes(), Medium::new(true)]).unwrap();
    assert!(left.iter().all(|(_, revision, _)| *revision == 4), "{left:?}");
    assert!(
        left.iter().all(|(.., skipped)| skipped.iter().any(|what| what.contains("went with the nodes"))),
        "{left:?}"
    );
    // The ranks have changed places: each node has the shards of the other rank.
    let swapped = came_back([nodes[1].end_processes(), nodes[0].end_processes()]).unwrap();
    assert!(swapped.iter().all(|(_, revision, skipped)| *revision == 5 && skipped.is_empty()), "{swapped:?}");
}

/// The job may end right after a requested checkpoint, so this one goes to all levels, whatever their pace.
#[test]
fn a_checkpoint_that_was_asked_for_goes_to_all_levels() {
    let signal = Signal::named("USR1").unwrap();
    for every in [0, 100] {
        let folders: Vec<tempfile::TempDir> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
        let plan = |level: usize, kind, every| LevelPlan {
            kind,
            device: Arc::new(Disk::make(folders[level].path()).unwrap()),
            every,
            keep: 1,
            copies: Vec::new(),
            former: Vec::new(),
        };
        let plans = vec![plan(0, LevelKind::Memory, 1), plan(1, LevelKind::Pfs, every)];
        let config = Config {
            checkpoint_signal: Some(signal),
            memory_after: MemoryAfter::Kept,
            agree_every: Duration::ZERO,
            ..Config::default()
        };
        let mut session = Session::open_levels(Box::new(Solo), plans, config).unwrap();
        let mut program = Program::new(0);
        program.protect(&mut session).unwrap();
        let on_pfs = || SpaceSurvey::open(folders[1].path()).unwrap().revisions.len();
        for (step, asked, there) in [(1, false, 0), (2, true, 1), (3, false, 1)] {
            if asked {
                signal_hook::low_level::raise(signal.number()).unwrap();
            }
            assert_eq!(session.due(step).unwrap(), asked, "at step {step}");
            save(&mut program, &mut session, 1, step, true).map_err(Trouble::why).unwrap();
            assert_eq!(on_pfs(), there, "every {every}, at step {step}");
        }
        // An unrequested checkpoint, before the session has noticed the signal, goes to the nearest level alone and
        // does not answer the request.
        signal_hook::low_level::raise(signal.number()).unwrap();
        save(&mut program, &mut session, 1, 4, true).map_err(Trouble::why).unwrap();
        assert_eq!(on_pfs(), 1, "every {every}");
        assert!(session.due(5).unwrap(), "every {every}");
        save(&mut program, &mut session, 1, 5, true).map_err(Trouble::why).unwrap();
        assert!(!session.due(6).unwrap(), "every {every}");
        session.close().unwrap();
    }
}

//! Stops a job that goes on with another number of ranks after every single write, sync, creation, renaming, and
//! removal, applies every kind of loss, and opens the rest with either number: the latest acknowledged revision is
//! there, or a complete newer one, and the space takes the next one.

use crate::support::{
    faulty::{Durable, Medium},
    often,
    program::Mark,
    recording::{Checked, Trouble, losses},
    spread::spread_job,
    whole,
};
use mainstay_engine::{Config, Stage};
use std::{collections::BTreeSet, path::Path, sync::Mutex};
use tempfile::TempDir;

const BEFORE: usize = 4;
/// Eleven rows: only eleven ranks get equal parts.
const GLOBAL: [u64; 2] = [11, 301];

/// `pools`: a place of this test's own, because all media have the same name.
fn config(keep: u32, stage: Stage, pools: &Path) -> Config {
    Config {
        pool_directory: pools.to_owned(),
        keep,
        stage,
        pool_bytes: Some(64 << 10),
        chunk_bytes: Some(16 << 10),
        io_threads: 1,
        portion_bytes: 1 << 20,
        ..Config::default()
    }
}

/// The operations of a job with other ranks, after a job of four had saved steps 1 and 2 and ended.
struct Recorded {
    medium: Medium,
    /// The first operation of the second job.
    from: usize,
    acknowledged: Vec<(usize, Mark)>,
}

fn record(ranks: usize, config: &Config) -> Checked<Recorded> {
    let medium = Medium::new(true);
    let acknowledged = Mutex::new(Vec::new());
    let acknowledge = |mark| acknowledged.lock().unwrap().push((medium.operations(), mark));
    spread_job(&medium, BEFORE, &GLOBAL, config, |mut program, mut session| {
        for step in 1..=2 {
            program.fill(Mark { run: 1, step });
            session.checkpoint()?;
            session.wait()?;
            acknowledge(Mark { run: 1, step });
        }
        Ok(session.close()?)
    })?;
    let from = medium.operations();
    spread_job(&medium, ranks, &GLOBAL, config, |mut program, mut session| {
        let found = program.restore(&mut session)?;
        if found != Some(Mark { run: 1, step: 2 }) {
            return Err(Trouble::new(format!("{found:?} was restored")));
        }
        for step in 1..=4 {
            program.fill(Mark { run: 2, step });
            session.checkpoint()?;
            if step != 2 {
                session.wait()?;
                acknowledge(Mark { run: 2, step });
            }
        }
        Ok(())
    })?;
    Ok(Recorded { medium, from, acknowledged: acknowledged.into_inner().unwrap() })
}

/// A job of `ranks` ranks finds a revision not older than `floor`, the same on all ranks. It saves one more and ends.
/// Another job, of `then` ranks, finds that one.
fn recover(medium: &Medium, ranks: usize, then: usize, config: &Config, floor: Option<Mark>) -> Checked<()> {
    let next = Mark { run: 9, step: 1 };
    let found = Mutex::new(BTreeSet::new());
    spread_job(medium, ranks, &GLOBAL, config, |mut program, mut session| {
        let mark = program.restore(&mut session)?;
        found.lock().unwrap().insert(mark);
        program.fill(next);
        session.checkpoint()?;
        Ok(session.wait()?)
    })?;
    let found: Vec<Option<Mark>> = found.into_inner().unwrap().into_iter().collect();
    if found.len() != 1 || found[0] < floor {
        return Err(format!("{ranks} ranks restored {found:?}, {floor:?} had been acknowledged"));
    }
    spread_job(medium, then, &GLOBAL, config, |mut program, mut session| match program.restore(&mut session)? {
        Some(mark) if mark == next => Ok(()),
        other => Err(Trouble::new(format!("{then} ranks restored {other:?} in place of {next:?}"))),
    })
}

fn everywhere(ranks: usize, keep: u32, stage: Stage, seeds: u64, stride: usize) {
    let pools = TempDir::new_in("/dev/shm").unwrap();
    let saving = config(keep, stage, pools.path());
    let recorded = record(ranks, &saving).unwrap();
    let recovering = config(keep, Stage::Direct, pools.path());
    let (mut durable, mut cases) = (Durable::default(), 0);
    let log = recorded.medium.log();
    for point in 0..=log.len() {
        if point > 0 {
            durable.apply(&log[point - 1]);
        }
        if point < recorded.from || !(point - recorded.from).is_multiple_of(often(11, 1) * stride) {
            continue;
        }
        let floor = recorded.acknowledged.iter().filter(|(at, _)| *at <= point).map(|(_, mark)| *mark).max();
        for loss in losses(&durable, point, seeds) {
            // Alternates between the number of ranks that saved first and the number that went on.
            let (first, then) = if cases % 2 == 0 { (ranks, BEFORE) } else { (BEFORE, ranks) };
            cases += 1;
            let files = durable.image(loss);
            let recovered = whole::check(&files).and_then(|()| {
                let medium = Medium::resume(Durable::of(files), true);
                recover(&medium, first, then, &recovering, floor)
            });
            recovered.unwrap_or_else(|why| {
                panic!("{BEFORE} to {ranks} ranks, keep {keep}, {stage:?}, after {point} operations, {loss:?}: {why}")
            });
        }
    }
    tell!("{BEFORE} to {ranks} ranks, keep {keep}, {stage:?}: {cases} cases");
    assert!(cases > often(5, 50));
}

#[test]
fn a_crash_of_a_job_of_other_ranks_loses_nothing_acknowledged() {
    everywhere(2, 1, Stage::Pool, 1, 1);
    everywhere(3, 2, Stage::Direct, 1, 2);
    everywhere(6, 1, Stage::Direct, 1, 2);
}

#[test]
#[ignore = "long; make campaign runs it"]
fn a_crash_of_any_job_of_other_ranks_with_many_losses() {
    for ranks in [2, 3, 6] {
        for keep in [1, 2] {
            for stage in [Stage::Pool, Stage::Direct] {
                everywhere(ranks, keep, stage, 10, 1);
            }
        }
    }
}

/// The old layout stays as long as it has a revision that is kept, and is then removed.
#[test]
fn the_old_layout_goes_once_the_new_one_has_what_is_kept() {
    let pools = TempDir::new_in("/dev/shm").unwrap();
    for (keep, left) in [(1, [1, 1, 1]), (2, [2, 1, 1])] {
        let config = config(keep, Stage::Direct, pools.path());
        let medium = Medium::new(true);
        let save = |ranks: usize, run: u64, steps: u64, layouts: &[usize]| {
            spread_job(&medium, ranks, &GLOBAL, &config, |mut program, mut session| {
                program.restore(&mut session)?;
                for step in 1..=steps {
                    program.fill(Mark { run, step });
                    session.checkpoint()?;
                    session.wait()?;
                    let there = medium.files().names.keys().filter(|name| name.starts_with("layout-")).count();
                    if there != layouts[step as usize - 1] && session.rank() == 0 {
                        return Err(Trouble::new(format!("{there} layouts after step {step} of run {run}")));
                    }
                }
                Ok(session.close()?)
            })
            .unwrap();
        };
        save(4, 1, 2, &[1, 1]);
        save(2, 2, 3, &left);
        save(6, 3, 3, &left);
    }
}

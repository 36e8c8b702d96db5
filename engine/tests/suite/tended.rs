//! The power fails during the care of a space: after every single write, sync, and removal of a prune, a reservation, a
//! growth, and of jobs beside a hold, each loss of unsynced data leaves all required revisions complete and whole.

use crate::support::{
    faulty::{Change, Durable, Failure, Faulty, Medium, Operation},
    often,
    program::{Mark, Program},
    recording::{Checked, Shape, Trouble, expect, job, losses},
    whole,
};
use mainstay_engine::{
    ErrorKind, RevisionKey, Session, SpaceSurvey, Stage, Verified,
    device::Device,
    group::{Group, ThreadGroup},
    space::{
        Per,
        format::{BLOCK, HoldAnswer, HoldAnswers},
    },
    tend::{
        GoneOver, Holding, Reason, Removed, Reservation, RolledBack, Rules, ShardSize, Unseen, fates, grow_on, hold_on,
        prune_on, remove_revisions_on, reserve_on, rollback_on,
    },
};
use std::{sync::Mutex, time::Duration};

fn shape(ranks: usize, keep: u32) -> Shape {
    Shape { ranks, keep, stage: Stage::Direct, ..Shape::ALONE }
}

fn device(medium: &Medium) -> Faulty {
    Faulty(medium.view())
}

fn save(session: &mut Session, program: &mut Program, mark: Mark, bytes: usize) -> Result<(), Trouble> {
    program.fill(session, mark, bytes)?;
    session.checkpoint()?;
    Ok(session.wait()?)
}

/// A job that saves the steps `from..=to` of its run. A run that is not closed ends like a killed one.
fn saves(medium: &Medium, shape: Shape, run: u64, steps: std::ops::RangeInclusive<u64>, close: bool) {
    let saved = job(medium, shape, |mut program, mut session| {
        for step in steps.clone() {
            save(&mut session, &mut program, Mark { run, step }, 20_000)?;
        }
        if close { Ok(session.close()?) } else { Ok(()) }
    });
    saved.unwrap();
}

fn key(device: &dyn Device, number: u64) -> RevisionKey {
    SpaceSurvey::open_on(device).unwrap().revision(number).unwrap_or_else(|| panic!("no revision {number}")).key
}

fn complete(device: &dyn Device) -> Vec<u64> {
    let survey = SpaceSurvey::open_on(device).unwrap();
    survey.revisions.iter().filter(|revision| revision.complete).map(|revision| revision.key.number).collect()
}

/// Checks that every complete revision is whole, and that all of `stay` are complete.
fn check(medium: &Medium, stay: &[RevisionKey]) -> Checked<()> {
    whole::check(&medium.files())?;
    let survey = SpaceSurvey::open_on(&device(medium)).map_err(|error| error.to_string())?;
    for revision in survey.revisions.iter().filter(|revision| revision.complete) {
        match revision.verify(&|_| ()) {
            Ok(Verified::Whole) => {}
            other => return Err(format!("revision {}: {other:?}", revision.key.number)),
        }
    }
    let gone = stay.iter().find(|key| survey.complete(**key).is_none());
    gone.map_or(Ok(()), |key| Err(format!("revision {} is gone", key.number)))
}

/// Calls `then` with the image of each loss of power after each operation of `log`, from `before` on.
fn everywhere(
    before: Durable,
    log: &[Operation],
    from: usize,
    mut then: impl FnMut(&Medium, usize) -> Checked<()>,
) -> u64 {
    let (mut durable, mut cases) = (before, 0);
    for point in 0..=log.len() {
        if point > 0 {
            durable.apply(&log[point - 1]);
        }
        if point < from || !(point - from).is_multiple_of(often(4, 1)) && point != log.len() {
            continue;
        }
        for loss in losses(&durable, point, often(1, 4)) {
            cases += 1;
            let medium = Medium::resume(Durable::of(durable.image(loss)), true);
            then(&medium, point).unwrap_or_else(|why| panic!("power lost after {point} operations, {loss:?}: {why}"));
        }
    }
    cases
}

/// All processes have ended; the power is on.
fn ended(medium: &Medium) -> (Durable, Medium) {
    let mut durable = Durable::default();
    medium.log().iter().for_each(|operation| durable.apply(operation));
    let durable = durable.orphaned();
    (durable.clone(), Medium::resume(durable, true))
}

/// Prunes by `rules`, and expects that exactly `left` stay. Then repeats it with a crash at every point, with a job
/// after each.
fn prune_everywhere(medium: &Medium, shape: Shape, rules: Rules, left: &[u64], newest: Mark) {
    let (before, medium) = ended(medium);
    // After a job that ended in order nothing is out of sight, even if a prune was cut off.
    let gone_over = GoneOver::default();
    let is_clean = SpaceSurvey::open_on(&device(&medium)).unwrap().clean;
    let unseen = if is_clean { Unseen::Waits(&gone_over) } else { Unseen::GivenUp };
    let stay: Vec<RevisionKey> = left.iter().map(|number| key(&device(&medium), *number)).collect();
    let pruned = prune_on(&device(&medium), &rules, unseen, &|_| ()).unwrap();
    assert_eq!(complete(&device(&medium)), left, "{pruned:?}");
    let cases = everywhere(before, &medium.log(), 0, |medium, _| {
        check(medium, &stay)?;
        prune_on(&device(medium), &rules, unseen, &|_| ()).map_err(|error| error.to_string())?;
        check(medium, &stay)?;
        assert_eq!(complete(&device(medium)), left);
        job(medium, shape, |mut program, mut session| {
            expect(program.restore(&mut session), newest)?;
            save(&mut session, &mut program, Mark { run: 99, step: 1 }, 20_000)
        })?;
        check(medium, &stay[..1])
    });
    tell!("{shape:?}, {rules:?}: {} operations, {cases} cases", medium.operations());
}

#[test]
fn a_crash_at_any_point_of_a_prune_loses_nothing_that_stays() {
    for (ranks, close) in [(1, false), (2, false), (2, true)] {
        let (medium, shape) = (Medium::new(true), shape(ranks, 3));
        saves(&medium, shape, 1, 1..=6, close);
        let there = complete(&device(&medium));
        // The oldest revision of a killed job is only in the older slots.
        let oldest = *there.last().unwrap();
        assert_eq!(there.len(), if close { 4 } else { 5 });
        let held = hold_on(&device(&medium), key(&device(&medium), oldest), "", 0, Duration::ZERO).unwrap();
        assert!(matches!(held, Holding::Counts(_)));
        let rules = Rules { keep_last: Some(2), ..Rules::default() };
        prune_everywhere(&medium, shape, rules, &[6, 5, oldest], Mark { run: 1, step: 6 });
    }
}

/// A rollback that is cut off leaves all newer revisions complete, or none.
#[test]
fn a_crash_at_any_point_of_a_rollback_leaves_all_that_is_newer_or_nothing() {
    for (ranks, close) in [(1, false), (2, true), (3, false)] {
        let (medium, shape) = (Medium::new(true), shape(ranks, 3));
        saves(&medium, shape, 1, 1..=6, close);
        let (before, medium) = ended(&medium);
        let (there, to) = (complete(&device(&medium)), key(&device(&medium), 4));
        assert_eq!(there[..3], [6, 5, 4]);
        let back = |medium: &Medium| {
            let done = rollback_on(&[(&device(medium), Unseen::GivenUp)], to, &|_| ());
            assert!(matches!(done.map_err(|error| error.to_string())?, RolledBack::Done(_)));
            Ok::<_, String>(())
        };
        back(&medium).unwrap();
        let left = complete(&device(&medium));
        assert!(left[0] == 4 && there.ends_with(&left), "{left:?} of {there:?}");
        let mut seen = [0, 0];
        let cases = everywhere(before, &medium.log(), 0, |medium, _| {
            check(medium, &[to])?;
            let found = complete(&device(medium));
            let is_done = !found.contains(&6);
            assert!(found[0] == if is_done { 4 } else { 6 } && found.contains(&5) != is_done, "{found:?}");
            seen[usize::from(is_done)] += 1;
            back(medium)?;
            assert_eq!(complete(&device(medium))[0], 4);
            job(medium, shape, |mut program, mut session| {
                expect(program.restore(&mut session), Mark { run: 1, step: 4 })?;
                save(&mut session, &mut program, Mark { run: 99, step: 1 }, 20_000)
            })?;
            check(medium, &[])
        });
        assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
        tell!("{shape:?}, rollback: {} operations, {cases} cases", medium.operations());
    }
}

/// If the chosen revision had been removed meanwhile, as by a prune, the rollback also removed all newer ones: nothing
/// was left.
#[test]
fn a_rollback_to_what_has_gone_meanwhile_changes_nothing() {
    let (medium, shape) = (Medium::new(true), shape(2, 3));
    saves(&medium, shape, 1, 1..=3, true);
    let to = key(&device(&medium), 1);
    let rules = Rules { keep_last: Some(2), ..Rules::default() };
    prune_on(&device(&medium), &rules, Unseen::GivenUp, &|_| ()).unwrap();
    let told = rollback_on(&[(&device(&medium), Unseen::GivenUp)], to, &|_| ()).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::RevisionMissing, "{told}");
    assert_eq!(complete(&device(&medium)), [3, 2]);
}

/// A removal that is cut off has removed both named revisions, one, or none. A second call finishes it.
#[test]
fn a_crash_at_any_point_of_a_removal_leaves_all_that_is_not_named() {
    for (ranks, close) in [(1, false), (2, true)] {
        let (medium, shape) = (Medium::new(true), shape(ranks, 3));
        saves(&medium, shape, 1, 1..=6, close);
        let (before, medium) = ended(&medium);
        let there = complete(&device(&medium));
        assert_eq!(there[..4], [6, 5, 4, 3]);
        let stay = [6, 3].map(|number| key(&device(&medium), number));
        let remove = |medium: &Medium| {
            let done = remove_revisions_on(&[(&device(medium), Unseen::GivenUp)], &[5, 4], &|_| ());
            assert!(matches!(done.map_err(|error| error.to_string())?, Removed::Done(_)));
            Ok::<_, String>(())
        };
        let refused = remove_revisions_on(&[(&device(&medium), Unseen::GivenUp)], &[6, 5], &|_| ()).unwrap();
        assert!(matches!(&refused, Removed::Stays(fates) if fates[0].key == stay[0]), "{refused:?}");
        assert_eq!(complete(&device(&medium)), there);
        remove(&medium).unwrap();
        assert_eq!(complete(&device(&medium))[..2], [6, 3]);
        let cases = everywhere(before, &medium.log(), 0, |medium, _| {
            check(medium, &stay)?;
            remove(medium)?;
            check(medium, &stay)?;
            assert_eq!(complete(&device(medium))[..2], [6, 3]);
            job(medium, shape, |mut program, mut session| {
                expect(program.restore(&mut session), Mark { run: 1, step: 6 })?;
                save(&mut session, &mut program, Mark { run: 99, step: 1 }, 20_000)
            })?;
            check(medium, &stay[..1])
        });
        tell!("{shape:?}, removal: {} operations, {cases} cases", medium.operations());
    }
}

#[test]
fn a_crash_at_any_point_of_the_removal_of_a_layout_loses_nothing_that_stays() {
    for keep_all in [false, true] {
        let medium = Medium::new(true);
        saves(&medium, shape(2, 3), 1, 1..=3, true);
        saves(&medium, shape(1, 3), 2, 4..=5, false);
        let files = || {
            let layouts = medium.files().names.keys().filter(|name| name.ends_with(".mainstay")).count();
            assert_eq!(layouts, 2, "the test wants a layout that is still needed");
        };
        files();
        // One revision of the older layout stays, or none.
        let keep_last = if keep_all { 3 } else { 1 };
        let rules = Rules { keep_last: Some(keep_last), ..Rules::default() };
        let left: &[u64] = if keep_all { &[5, 4, 3] } else { &[5] };
        prune_everywhere(&medium, shape(1, 3), rules, left, Mark { run: 2, step: 5 });
    }
}

/// A job that goes on in a layout reserved for it leaves the roots of a killed job as they were. After such a job, a
/// prune and a rollback were refused forever, although the job closed the space in order.
#[test]
fn nothing_waits_that_a_newer_job_has_gone_on_without() {
    let medium = Medium::new(true);
    saves(&medium, shape(3, 1), 1, 1..=3, false);
    let (_, medium) = ended(&medium);
    let held = key(&device(&medium), 3);
    assert!(matches!(hold_on(&device(&medium), held, "", 0, Duration::ZERO).unwrap(), Holding::Counts(_)));
    grow_on(&device(&medium), &Reservation::alike(&ShardSize::of(1 << 20, 0).unwrap(), 1, 1), &|_| ()).unwrap();
    saves(&medium, shape(1, 1), 2, 4..=5, true);
    let survey = SpaceSurvey::open_on(&device(&medium)).unwrap();
    assert!(survey.portions.iter().any(|portion| !portion.clean), "the test wants roots of the killed job");
    Unseen::Waits(&GoneOver::default()).check(&survey).unwrap();
}

/// A revision that counts as held survives a crash of the later jobs at any point, even if it was in the older slots.
#[test]
fn a_crash_at_any_point_loses_nothing_that_is_held() {
    for ranks in [1, 2] {
        let (medium, shape) = (Medium::new(true), shape(ranks, 1));
        saves(&medium, shape, 1, 1..=3, false);
        let (before, medium) = ended(&medium);
        let held = key(&device(&medium), *complete(&device(&medium)).last().unwrap());
        let holding = hold_on(&device(&medium), held, "", 0, Duration::ZERO).unwrap();
        assert!(matches!(holding, Holding::Counts(_)));
        // The bytes that the hold wrote do not look like a job that may have staged a revision.
        Unseen::Waits(&GoneOver::default()).check(&SpaceSurvey::open_on(&device(&medium)).unwrap()).unwrap();
        let counts_from = medium.operations();
        saves(&medium, shape, 2, 4..=6, true);
        saves(&medium, shape, 3, 7..=8, false);
        let cases = everywhere(before, &medium.log(), counts_from, |medium, _| {
            check(medium, &[held])?;
            saves(medium, shape, 4, 9..=10, false);
            check(medium, &[held])
        });
        tell!("{ranks} ranks: {} operations, {cases} cases", medium.operations());
    }
}

/// The hold is taken while the job is at work, and counts from the acknowledgement on. By then, revision 1 is only in
/// the older slots, which the next root overwrites. So its hold is acknowledged only with the root after that.
#[test]
fn a_crash_at_any_point_loses_nothing_that_a_job_acknowledged() {
    for (ranks, number, saves) in [(1, 3, 1), (2, 3, 1), (1, 1, 2), (2, 1, 2)] {
        let (medium, shape) = (Medium::new(true), shape(ranks, 1));
        let acknowledged = Mutex::new(None);
        job(&medium, shape, |mut program, mut session| {
            let mut next = |session: &mut Session, step| save(session, &mut program, Mark { run: 1, step }, 20_000);
            for step in 1..=2 {
                next(&mut session, step)?;
            }
            // In a small job, all ranks wait for rank 0, and this is its next collective.
            next(&mut session, 3)?;
            if session.rank() == 0 {
                let survey = SpaceSurvey::open_on(&device(&medium))?;
                assert_eq!(survey.revision(number).unwrap().is_in_newest_roots(), number == 3);
                let holding = hold_on(&device(&medium), key(&device(&medium), number), "", 0, Duration::ZERO)?;
                assert!(matches!(holding, Holding::Pending(_)), "{holding:?}");
            }
            for step in 4..=8 {
                next(&mut session, step)?;
                if session.rank() == 0 {
                    let survey = SpaceSurvey::open_on(&device(&medium))?;
                    let revision = survey.revision(number).unwrap();
                    assert_eq!(revision.held, step >= 3 + saves, "after step {step}");
                    if step == 3 + saves {
                        *acknowledged.lock().unwrap() = Some(revision.key);
                    }
                }
            }
            Ok(())
        })
        .unwrap();
        let held = acknowledged.into_inner().unwrap().unwrap();
        // From the sync of the first acknowledgement with that answer.
        let log = medium.log();
        let answered = |operation: &Operation| match &operation.change {
            Change::Write { bytes, .. } if bytes.len() == BLOCK => {
                let answers = HoldAnswers::parse(bytes[..].try_into().unwrap());
                answers.is_some_and(|answers| answers.list.iter().any(|(_, answer)| *answer == HoldAnswer::Counts))
            }
            _ => false,
        };
        let from = log.iter().position(answered).unwrap() + 2;
        let cases = everywhere(Durable::default(), &log, from, |medium, _| check(medium, &[held]));
        tell!("{ranks} ranks, revision {number}: {} operations, {cases} cases", log.len() - from);
        assert!(cases > often(12, 50));
    }
}

/// If a revision failed on one rank, the other's shard stays until the next root overwrites it.
#[test]
fn what_is_incomplete_goes_once_something_newer_is_complete() {
    let (medium, shape) = (Medium::new(true), shape(2, 3));
    saves(&medium, shape, 1, 1..=2, false);
    // Revision 3 comes from a job with a second rank that cannot write, revision 4 from the next job.
    let failed = std::thread::scope(|scope| {
        let ranks: Vec<_> =
            ThreadGroup::new(2).into_iter().map(|group| scope.spawn(|| one_cannot_write(&medium, group))).collect();
        ranks.into_iter().all(|rank| rank.join().unwrap())
    });
    assert!(failed);
    let survey = || SpaceSurvey::open_on(&device(&medium)).unwrap();
    let rules = Rules { keep_last: Some(9), ..Rules::default() };
    let reasons = |number: u64| {
        let fates = fates(&survey(), &rules);
        fates.into_iter().find(|fate| fate.key.number == number).unwrap().reasons
    };
    assert_eq!(reasons(3), [Reason::Unfinished]);
    prune_on(&device(&medium), &rules, Unseen::GivenUp, &|_| ()).unwrap();
    assert_eq!(reasons(3), [Reason::Unfinished]);
    saves(&medium, shape, 3, 4..=4, false);
    if survey().revision(3).is_some() {
        assert_eq!(reasons(3), []);
        prune_on(&device(&medium), &rules, Unseen::GivenUp, &|_| ()).unwrap();
    }
    assert!(survey().revision(3).is_none());
    assert_eq!(complete(&device(&medium)), [4, 2, 1]);
}

fn one_cannot_write(medium: &Medium, group: ThreadGroup) -> bool {
    let (rank, view) = (group.rank(), medium.view());
    let mut program = Program::new(rank);
    let mut session =
        Session::open_on(Box::new(group), std::sync::Arc::new(Faulty(view.clone())), shape(2, 3).config()).unwrap();
    program.protect(&mut session).unwrap();
    program.restore(&mut session).unwrap();
    if rank == 1 {
        view.fails_in(1, Failure::Io);
    }
    save(&mut session, &mut program, Mark { run: 2, step: 3 }, 20_000).is_err()
}

fn room(ranks: usize, bytes: u64) -> Reservation {
    let shards = vec![ShardSize::of(bytes, 0).unwrap(); ranks];
    // Two names to make. The power can fail between them.
    Reservation { per: Per::Rank, ..Reservation::for_shards(&shards, 1) }
}

fn layouts(medium: &Medium) -> usize {
    medium.files().names.keys().filter(|name| name.ends_with(".mainstay")).count()
}

/// After any crash, a job saves and restores, and an unused space is reserved again.
#[test]
fn a_crash_at_any_point_of_a_reservation_leaves_a_space_that_can_be_used() {
    let (medium, shape) = (Medium::new(true), shape(2, 1));
    let reserved = reserve_on(&device(&medium), &room(2, 30_000), &|_| ()).unwrap();
    assert_eq!((reserved.files.len(), layouts(&medium)), (2, 2));
    let cases = everywhere(Durable::default(), &medium.log(), 0, |medium, _| {
        whole::check(&medium.files())?;
        reserve_on(&device(medium), &room(2, 30_000), &|_| ()).map_err(|error| error.to_string())?;
        assert_eq!(layouts(medium), 2, "what was left of the first one is gone");
        saves(medium, shape, 1, 1..=3, true);
        assert_eq!(layouts(medium), 2);
        check(medium, &[key(&device(medium), 3)])
    });
    let unused = everywhere(Durable::default(), &medium.log(), 0, |medium, _| {
        saves(medium, shape, 1, 1..=3, true);
        // The reserved files, or one file as the job makes it.
        assert!((1..=2).contains(&layouts(medium)), "{}", layouts(medium));
        check(medium, &[key(&device(medium), 3)])
    });
    tell!("{} operations, {cases} and {unused} cases", medium.operations());
    assert!(cases > often(12, 50));
}

/// The old revisions stay until the new layout has a revision of its own, and a job goes on from the newest.
#[test]
fn a_crash_at_any_point_of_growing_loses_nothing() {
    for close in [false, true] {
        let (medium, shape) = (Medium::new(true), shape(2, 1));
        saves(&medium, shape, 1, 1..=3, close);
        let (before, medium) = ended(&medium);
        let newest = key(&device(&medium), 3);
        grow_on(&device(&medium), &room(2, 60_000), &|_| ()).unwrap();
        let grown = medium.operations();
        assert_eq!(layouts(&medium), 3);
        // The first revisions in the new layout, with the removal of the old one.
        saves(&medium, shape, 2, 4..=6, true);
        assert_eq!(layouts(&medium), 2);
        let first = key(&device(&medium), 6);
        let cases = everywhere(before, &medium.log(), 0, |medium, point| {
            let stay: &[RevisionKey] = if point <= grown { &[newest] } else { &[] };
            check(medium, stay)?;
            let there = complete(&device(medium));
            assert!(there[0] >= 3, "{there:?}");
            if point <= grown {
                grow_on(&device(medium), &room(2, 60_000), &|_| ()).map_err(|error| error.to_string())?;
                check(medium, stay)?;
            }
            job(medium, shape, |mut program, mut session| {
                let found = program.restore(&mut session)?.map(|mark| mark.step);
                assert_eq!(found, Some(there[0]));
                save(&mut session, &mut program, Mark { run: 99, step: 1 }, 20_000)?;
                save(&mut session, &mut program, Mark { run: 99, step: 2 }, 20_000)
            })?;
            check(medium, &[])?;
            if point <= grown {
                assert_eq!(layouts(medium), 2, "only the newest layout is left");
            }
            Ok(())
        });
        tell!("{grown} and {} operations, {cases} cases; the newest was {first:?}", medium.operations() - grown);
        assert!(cases > 100);
    }
}

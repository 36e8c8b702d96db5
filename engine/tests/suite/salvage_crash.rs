//! The salvage itself is killed, loses its power, and meets errors, after every single operation: the previous step or
//! the newest one is there, whole; and the newest as long as the pool exists.
//!
//! A job on a device in memory is stopped between t2 and t3. The contents of its pool are copied, as a kill at that
//! moment leaves them.

use crate::support::{
    faulty::{Durable, Failure, Faulty, Loss, Medium},
    killed::{BYTES, GROWING, Killed, LARGER, LAST, SHAPE, Shape, names, pools_like, take},
    often,
    program::{Mark, Program},
    recording::{job_of_programs, losses},
    ways::{WAYS, Way, on_one_node},
};
use mainstay_engine::{
    Capture, Compress, Config, Error, ErrorKind, Session, SpaceSurvey, Stage, Verified,
    device::{Device, RANK_BYTES},
    group::{Solo, ThreadGroup},
    space::Per,
    tend::{Holding, hold_on},
};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::Duration,
};

/// A job opens the space, and saves one more step. At each point of that, the power is lost or the processes are
/// killed.
fn everywhere(killed: &Killed, seeds: u64) {
    let shape = killed.shape;
    let (medium, pools) = (killed.medium(), pools_like(Some(killed.pools.path())));
    let (returned, saved) = (Mutex::new(0), Mutex::new(0));
    let together = Barrier::new(shape.ranks);
    let config = |rank| shape.config_of(rank, pools.path());
    let program = |rank| Program::new(rank).in_pieces(shape.in_pieces);
    job_of_programs(&medium, shape.ranks, (program, config), |mut program, mut session| {
        together.wait();
        *returned.lock().unwrap() = medium.operations();
        together.wait();
        let found = program.restore(&mut session)?;
        assert_eq!(found, Some(Mark { run: 1, step: LAST }));
        program.fill(&mut session, Mark { run: 2, step: LAST + 1 }, BYTES)?;
        program.save(&mut session)?;
        session.wait()?;
        *saved.lock().unwrap() = medium.operations();
        Ok(())
    })
    .unwrap();
    let (returned, saved) = (returned.into_inner().unwrap(), saved.into_inner().unwrap());
    let (log, mut durable, mut cases) = (medium.log(), killed.durable.clone(), 0);
    for point in 0..=log.len() {
        if point > 0 {
            durable.apply(&log[point - 1]);
        }
        if !point.is_multiple_of(often(11, 1)) && point != log.len() {
            continue;
        }
        let at_least = match point {
            _ if point >= saved => LAST + 1,
            _ if point >= returned => LAST,
            _ => LAST - 1,
        };
        for loss in losses(&durable, point, seeds) {
            cases += 1;
            let medium = Medium::resume(Durable::of(durable.image(loss)), true);
            let checked = killed.check_alone(&medium, at_least);
            checked.unwrap_or_else(|why| panic!("{shape:?}: power lost after {point} operations, {loss:?}: {why}"));
        }
        if point <= returned {
            cases += 1;
            let checked = killed.check_with_pool(&durable.clone().orphaned());
            checked.unwrap_or_else(|why| panic!("{shape:?}: killed after {point} operations: {why}"));
        }
    }
    tell!("{shape:?}: {} operations, {returned} of the opening, {cases} cases", log.len());
}

#[test]
fn a_crash_at_any_point_of_a_salvage_loses_nothing() {
    // The job has done nothing yet, or the last root that frees room is written and not synced.
    let [one, two] = [Way { per: Per::Rank, nodes: 2 }, Way { per: Per::Node, nodes: 1 }];
    let changed = Shape { ranks: 2, way: two, capture: Capture::Incremental, ..LARGER };
    let whole = [(0, Shape { way: one, ..SHAPE }), (7, Shape { ranks: 2, way: two, ..LARGER })];
    let compressed = Shape { ranks: 2, compress: Compress::Zstd, ..LARGER };
    let pieces = Shape { in_pieces: true, ..changed };
    let grown = Shape { ranks: 2, keep: 2, way: two, ..GROWING };
    for (operations, shape) in whole.into_iter().chain([(0, changed), (6, compressed), (0, pieces), (0, grown)]) {
        everywhere(&Killed::after(shape, Some(operations)).unwrap(), 1);
    }
}

/// All writes of the last step, up to the last root of rank 0, may be there.
#[test]
fn whatever_was_done_before_the_kill_is_gone_on_with() {
    let shapes = [SHAPE, LARGER, Shape { keep: 2, ..SHAPE }, Shape { ranks: 1, ..LARGER }, GROWING, LARGER, SHAPE];
    let compressed = [Compress::Lz4, Compress::Zstd].map(|compress| Shape { compress, ..LARGER });
    let pieces = [Compress::Off, Compress::Lz4].map(|compress| Shape { compress, in_pieces: true, ..LARGER });
    let pieces = pieces.into_iter().flat_map(|shape| [shape; 2]);
    let shapes = shapes.into_iter().chain(compressed).chain(pieces).zip(WAYS.into_iter().cycle()).zip(0..);
    for ((shape, way), index) in shapes.step_by(often(3, 1)) {
        let capture = if index % 2 == 0 { Capture::Incremental } else { Capture::Whole };
        let shape = Shape { capture, way: Way { nodes: way.nodes.min(shape.ranks), ..way }, ..shape };
        let killed = (0..100).step_by(often(5, 1)).map_while(|operations| Killed::after(shape, Some(operations)));
        let count = killed.map(|killed| killed.check_with_pool(&killed.durable).unwrap()).count();
        tell!("{shape:?}: after {count} operations");
        assert!(count > often(2, 10) && count < often(20, 100));
    }
}

/// The data that left the pool before t2 is in the space, and its hashes are in the record.
#[test]
fn a_shard_larger_than_the_pool_is_completed_from_both() {
    let shape = Shape { pool_bytes: 48 << 10, way: Way { per: Per::Rank, nodes: 1 }, ..SHAPE };
    for shape in [shape, Shape { pool_bytes: 72 << 10, compress: Compress::Lz4, bytes: 130_000, ..shape }] {
        let killed = Killed::after(shape, None).unwrap();
        killed.check_with_pool(&killed.durable).unwrap();
        everywhere(&killed, 1);
    }
}

/// A hold that is taken after the kill counts at once: data that was released at t1 is no longer released, and no job
/// overwrites it.
#[test]
fn what_is_held_after_the_kill_stays() {
    let mut restored = BTreeSet::new();
    for (shape, way) in [SHAPE, LARGER, Shape { bytes: 10_000, ..SHAPE }].into_iter().zip(on_one_node()) {
        let shape = Shape { way, ..shape };
        let killed = Killed::after(shape, Some(0)).unwrap();
        let medium = killed.medium();
        let device = Faulty(medium.view());
        let survey = SpaceSurvey::open_on(&device).unwrap();
        let is_let_go = |number: u64| survey.revision(number).is_some_and(|found| found.is_in_newest_roots());
        assert!(is_let_go(LAST - 2), "the newest roots lead to the revision before the last complete one");
        let key = survey.revision(LAST - 2).unwrap().key;
        let holding = hold_on(&device, key, "", 0, Duration::ZERO).unwrap();
        assert!(matches!(holding, Holding::Counts(_)), "{holding:?}");
        let pools = pools_like(Some(killed.pools.path()));
        let config = Config { stage: Stage::Direct, ..shape.config(pools.path()) };
        drop(Session::open_on(Box::new(Solo), Arc::new(Faulty(medium.view())), config).unwrap());
        let survey = SpaceSurvey::open_on(&device).unwrap();
        let held = survey.complete(key).unwrap_or_else(|| panic!("{shape:?}: what is held is gone"));
        assert_eq!(held.verify(&|_| ()).unwrap(), Verified::Whole, "{shape:?}");
        restored.insert(killed.check_alone(&medium.end_processes(), LAST - 1).unwrap());
    }
    assert_eq!(restored, BTreeSet::from([LAST - 1, LAST]), "with room for both, and without");
}

/// All of its data may be in the space and in the record. An operation fails, or finds the disk full, before or after
/// t2, and then the job is killed.
#[test]
fn what_was_told_to_be_lost_does_not_come_back() {
    does_not_come_back(Failure::Io, ErrorKind::Io, Per::Rank);
    does_not_come_back(Failure::Full, ErrorKind::DiskFull, Per::App);
}

fn does_not_come_back(failure: Failure, kind: ErrorKind, per: Per) {
    let mut told = 0;
    for nth in 1.. {
        let (medium, pools) = (Medium::new(true), pools_like(None));
        let shape = Shape { ranks: 1, way: Way { per, nodes: 1 }, ..SHAPE };
        let view = medium.view();
        let mut session =
            Session::open_on(Box::new(Solo), Arc::new(Faulty(view.clone())), shape.config(pools.path())).unwrap();
        let mut program = Program::new(0);
        program.protect(&mut session).unwrap();
        for step in 1..=LAST {
            program.fill(&mut session, Mark { run: 1, step }, BYTES).unwrap();
            if step == LAST {
                view.fails_in(nth, failure);
            }
            let saved = session.checkpoint().map(drop).and(session.wait());
            assert!(saved.is_ok() || step == LAST);
            if !saved.is_err_and(|error| error.kind() == kind) {
                continue;
            }
            told += 1;
            let left = pools_like(Some(pools.path()));
            let medium = medium.end_processes();
            let killed = Killed { shape, durable: Durable::default(), pools: left };
            assert_eq!(killed.restored(&medium, killed.pools.path()), Ok(LAST - 1), "operation {nth} had failed");
        }
        if !view.has_failed() {
            break;
        }
    }
    assert!(told > 10);
}

/// The other job need not have saved anything: its revisions from there on belong to another line.
#[test]
fn a_start_elsewhere_ends_the_claim() {
    for (operations, way) in (0..8).zip(on_one_node().cycle()) {
        let killed = Killed::after(Shape { way, ..LARGER }, Some(operations)).unwrap();
        let medium = killed.medium();
        let solo = |pools: &Path| {
            let config = Config { stage: Stage::Direct, ..LARGER.config(pools) };
            drop(Session::open_on(Box::new(Solo), Arc::new(Faulty(medium.view())), config).unwrap());
        };
        solo(pools_like(None).path());
        let pools = pools_like(Some(killed.pools.path()));
        solo(pools.path());
        assert_eq!(names(pools.path()), [""; 0]);
        assert_eq!(killed.check_alone(&medium.end_processes(), LAST - 1), Ok(LAST - 1));
    }
}

/// A process of a job that has just been killed may use the pool for a moment after the space's locks are free. A start
/// of another job may use it while it checks the pool's owner.
#[test]
fn whoever_is_at_the_pool_for_a_moment_is_waited_for() {
    for (byte, way) in [0, RANK_BYTES, 0].into_iter().zip(on_one_node()) {
        let killed = Killed::after(Shape { way, ..SHAPE }, Some(3)).unwrap();
        let pools = pools_like(Some(killed.pools.path()));
        let pool = take(pools.path(), byte);
        let step = thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(300));
                drop(pool);
            });
            killed.restored(&killed.medium(), pools.path()).unwrap()
        });
        assert_eq!((step, names(pools.path()).len()), (LAST, 0), "byte {byte}");
    }
}

/// An operation fails once. The opening reports it, unless everything is complete by then. The next opening has the
/// newest step.
#[test]
fn an_error_in_any_operation_of_a_salvage_costs_and_mixes_nothing() {
    for (failure, way) in [Failure::Io, Failure::Full, Failure::Forgets].into_iter().zip(on_one_node()) {
        let shape = Shape { ranks: 2, way, ..SHAPE };
        let killed = Killed::after(shape, Some(3)).unwrap();
        let (mut operations, mut restored) = (0, [0; 2]);
        for nth in (1..).step_by(often(3, 1)) {
            let (medium, pools) = (killed.medium(), pools_like(Some(killed.pools.path())));
            let view = medium.view();
            view.fails_in(nth, failure);
            let config = Config { stage: Stage::Direct, ..shape.config(pools.path()) };
            let opened = Session::open_on(Box::new(Solo), Arc::new(Faulty(view.clone())), config);
            if !view.has_failed() {
                break;
            }
            operations = nth;
            let told = opened.map(drop);
            for loss in [Loss::Nothing, Loss::Everything, Loss::Seeded(nth)] {
                let medium = medium.lose_power(loss);
                let step = killed.check_alone(&medium, LAST - u64::from(told.is_err()));
                let step =
                    step.unwrap_or_else(|why| panic!("{failure:?} in operation {nth}, {told:?}, {loss:?}: {why}"));
                restored[(step + 1 - LAST) as usize] += 1;
            }
            // The result of the next opening, with the rest of the pool.
            let medium = medium.end_processes();
            let config = Config { stage: Stage::Direct, ..shape.config(pools.path()) };
            drop(Session::open_on(Box::new(Solo), Arc::new(Faulty(medium.view())), config).unwrap());
            let step = killed.check_alone(&medium.end_processes(), LAST);
            step.unwrap_or_else(|why| panic!("after {failure:?} in operation {nth}, {told:?}: {why}"));
            assert_eq!(names(pools.path()), [""; 0]);
        }
        tell!(
            "{failure:?} in operations up to {operations}: {} times the step before, {} the newest",
            restored[0],
            restored[1]
        );
        assert!(operations > 10 && restored[0] > 0 && restored[1] > 0);
    }
}

/// Opens the space with one rank for each folder in `pools`, as on that many nodes. The view of `hit` has no room.
/// Returns each rank's result.
fn opened_by(medium: &Medium, shape: Shape, pools: &[&Path], hit: Option<usize>) -> Vec<Result<(), Error>> {
    thread::scope(|scope| {
        let ranks = ThreadGroup::new(pools.len()).into_iter().zip(pools).enumerate();
        let ranks: Vec<_> = ranks
            .map(|(rank, (group, pools))| {
                let view = medium.view();
                if hit == Some(rank) {
                    // The probe does not fail: ranks find out before that which of them see the same files.
                    (4..200).for_each(|nth| view.fails_in(nth, Failure::Full));
                }
                let config = Config { stage: Stage::Direct, ..shape.config(pools) };
                scope.spawn(move || Session::open_on(Box::new(group), Arc::new(Faulty(view)), config).map(drop))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// One node completes its shards, the other cannot. All ranks get the error, and the next start completes the rest.
#[test]
fn a_start_without_room_is_refused_on_all_ranks_and_ends_no_claim() {
    WAYS.into_iter().filter(|way| way.nodes == 2).for_each(without_room);
    on_one_node().for_each(given_up);
}

fn without_room(way: Way) {
    let shape = Shape { ranks: 2, way, ..LARGER };
    let killed = Killed::after(shape, Some(3)).unwrap();
    let (medium, copied) = (killed.medium(), pools_like(Some(killed.pools.path())));
    let nodes = way.all_pools(copied.path());
    let pools = [&*nodes[0], &*nodes[1]];
    let left = names(pools[0]);
    for _ in 0..2 {
        for (rank, told) in opened_by(&medium, shape, &pools, Some(0)).into_iter().enumerate() {
            says_no_room(rank, &told.unwrap_err(), &medium, pools[0], &left);
        }
        assert_eq!((names(pools[0]).len(), names(pools[1]).len()), (left.len(), 0));
    }
    assert!(opened_by(&medium, shape, &pools, None).iter().all(Result::is_ok));
    assert_eq!(killed.check_alone(&medium.end_processes(), LAST), Ok(LAST), "{way}");
    assert!(pools.iter().all(|pools| names(pools).is_empty()));
}

fn says_no_room(rank: usize, error: &Error, medium: &Medium, pools: &Path, left: &[String]) {
    let pool = left.iter().find(|name| !name.contains('.')).unwrap();
    let says = [
        format!("revision {LAST}, shard 0: the staged data could not be completed in {}", medium_path(medium)),
        "bytes were to go there".to_owned(),
        "start again".to_owned(),
        format!("remove {}", pools.join(pool).display()),
    ];
    assert_eq!(error.kind(), ErrorKind::DiskFull, "rank {rank}: {error}");
    assert!(says.iter().all(|what| error.to_string().contains(what)), "rank {rank}: {error}");
}

/// The other way, which the message names: the revision is given up.
fn given_up(way: Way) {
    let shape = Shape { ranks: 2, way, ..LARGER };
    let killed = Killed::after(shape, Some(3)).unwrap();
    let (medium, pools) = (killed.medium(), pools_like(Some(killed.pools.path())));
    let left = names(pools.path());
    let told = opened_by(&medium, shape, &[pools.path()], Some(0)).remove(0);
    says_no_room(0, &told.unwrap_err(), &medium, pools.path(), &left);
    fs::remove_file(pools.path().join(left.iter().find(|name| !name.contains('.')).unwrap())).unwrap();
    assert!(opened_by(&medium, shape, &[pools.path()], None)[0].is_ok());
    assert_eq!(killed.check_alone(&medium.end_processes(), LAST - 1), Ok(LAST - 1), "{way}");
    assert_eq!(names(pools.path()), [""; 0]);
}

fn medium_path(medium: &Medium) -> String {
    Faulty(medium.view()).directory().printable()
}

/// The process that holds the pool may end, and then the revision in it can be completed.
#[test]
fn a_pool_that_stays_taken_refuses_the_start() {
    let killed = Killed::after(SHAPE, Some(3)).unwrap();
    let (medium, pools) = (killed.medium(), pools_like(Some(killed.pools.path())));
    let taken = take(pools.path(), 0);
    for told in opened_by(&medium, SHAPE, &[pools.path(); 2], None) {
        let error = told.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InUse);
        assert!(error.to_string().contains("a process is in its pool still"), "{error}");
    }
    drop(taken);
    assert_eq!(killed.restored(&medium.end_processes(), pools.path()), Ok(LAST));
}

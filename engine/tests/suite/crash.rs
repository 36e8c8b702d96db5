//! Stops a recorded job after every single write, sync, creation, renaming, and removal, applies every kind of loss to
//! unsynced data, and opens the rest: the latest acknowledged revision is there, or a complete newer one, and the space
//! takes the next one.

use crate::support::{
    faulty::{Failure, Faulty, Medium},
    nodes, often,
    program::{Mark, Program},
    recording::{Recording, Shape, fail_at, job, late_writer},
};
use mainstay_engine::{Capture, Compress, ErrorKind, Exchange, LevelKind, Predictor, Session, SpaceSurvey, Stage};

/// The number of random partial losses at each point.
fn seeds() -> u64 {
    often(1, 3)
}

/// Each run of the tests fails every so many operations of a job; the campaign fails each.
const FAILING: u64 = 7;

#[test]
fn a_crash_after_any_operation_loses_nothing_acknowledged() {
    // Each kind of shape with each number of ranks. The campaign has all combinations, too.
    let shapes = Shape::ALL.into_iter().filter(|shape| (shape.stage == Stage::Pool) == (shape.keep == 1));
    for shape in shapes.take(often(2, 8)) {
        everywhere(shape, seeds());
    }
}

/// Revisions share blocks with earlier ones.
const INCREMENTAL: Shape = Shape { capture: Capture::Incremental, ..Shape::ALONE };

#[test]
fn a_crash_of_a_job_that_saves_what_changed_loses_nothing_acknowledged() {
    let two = Shape { ranks: 2, keep: 2, stage: Stage::Direct, ..INCREMENTAL };
    everywhere_and_twice(&[INCREMENTAL, two, Shape { ranks: 2, ..INCREMENTAL }]);
}

/// Revisions outgrow the portions that the first one has sized.
const GROWING: Shape = Shape { grows: true, ..Shape::ALONE };

/// The program writes in pieces. Older revisions have some of the blocks.
#[test]
fn a_crash_of_a_job_that_saves_what_changed_in_pieces_loses_nothing_acknowledged() {
    let pieces = Shape { in_pieces: true, ..INCREMENTAL };
    let two = Shape { ranks: 2, keep: 2, stage: Stage::Direct, compress: Compress::Lz4, ..pieces };
    everywhere_and_twice(&[pieces, two, Shape { ranks: 2, ..pieces }]);
}

/// Some data is written compressed, and some as it is.
#[test]
fn a_crash_of_a_job_that_compresses_loses_nothing_acknowledged() {
    let lz4 = Shape { compress: Compress::Lz4, ..Shape::ALONE };
    let two = Shape { ranks: 2, keep: 2, stage: Stage::Direct, compress: Compress::Zstd, ..INCREMENTAL };
    everywhere_and_twice(&[lz4, two, Shape { ranks: 2, ..lz4 }]);
}

/// Pages are saved before the checkpoint, and the program writes some of them again.
#[test]
fn a_crash_of_a_job_that_saves_early_loses_nothing_acknowledged() {
    let early = Shape { predictor: Predictor::Told, ..INCREMENTAL };
    everywhere_and_twice(&[
        early,
        Shape { ranks: 2, keep: 2, stage: Stage::Direct, predictor: Predictor::Auto, ..early },
    ]);
}

/// The job makes a larger layout beside the old one, and removes the old one.
#[test]
fn a_crash_of_a_job_that_grows_loses_nothing_acknowledged() {
    let two = Shape { ranks: 2, keep: 2, stage: Stage::Direct, ..GROWING };
    everywhere_and_twice(&[GROWING, two, Shape { capture: Capture::Incremental, ranks: 2, ..GROWING }]);
}

#[test]
#[ignore = "long; make campaign runs it"]
fn a_crash_after_any_operation_of_any_job_with_many_losses() {
    let direct = Shape { ranks: 4, keep: 2, stage: Stage::Direct, ..Shape::ALONE };
    for shape in Shape::ALL.into_iter().chain([direct]) {
        let incremental = Shape { capture: Capture::Incremental, ..shape };
        let pieces = Shape { in_pieces: true, ..incremental };
        let growing = Shape { grows: true, ..shape };
        for shape in [shape, incremental, pieces, Shape { predictor: Predictor::Told, ..incremental }, growing] {
            everywhere(shape, 30);
            twice(shape, 8);
        }
    }
}

/// Story: a job was killed between naming its layout and syncing the directory. The next job took the name for durable,
/// and a loss of power removed all that it had saved. Story: a kill prevented the sync of a root, and the next opening
/// took this root for durable. It overwrote the root beside it.
#[test]
fn a_second_crash_during_the_recovery_loses_nothing_either() {
    let shapes = [Shape::ALONE, Shape { ranks: 2, keep: 2, stage: Stage::Direct, ..Shape::ALONE }];
    for shape in shapes.into_iter().take(often(1, 2)) {
        twice(shape, 40);
    }
}

/// Each run of the tests crashes the first shape once. The campaign crashes all shapes, and the first one twice.
fn everywhere_and_twice(shapes: &[Shape]) {
    for shape in &shapes[..often(1, shapes.len())] {
        everywhere(*shape, 1);
    }
    if often(false, true) {
        twice(shapes[0], 60);
    }
}

fn everywhere(shape: Shape, seeds: u64) {
    let recording = Recording::of(shape).unwrap();
    let writes = recording.check_writes().unwrap();
    let count = recording.crash_everywhere(seeds, false, u64::MAX).unwrap();
    let faults = seeds + 4;
    tell!(
        "{shape:?}: {} points x up to {faults} faults = {} cases (none of {writes} writes touched a block in use)",
        count.points,
        count.cases
    );
}

fn twice(shape: Shape, stride: usize) {
    let count = Recording::of(shape).unwrap().crash_twice(often(5 * stride, stride)).unwrap();
    tell!("{shape:?}: {} points of a second crash, {} cases", count.points, count.cases);
}

#[test]
fn a_failure_of_any_operation_loses_nothing_acknowledged() {
    let shapes = [Shape { stage: Stage::Direct, ..Shape::ALONE }, Shape { keep: 2, ..Shape::ALONE }, INCREMENTAL];
    let early = Shape { predictor: Predictor::Told, ..INCREMENTAL };
    let pieces = Shape { in_pieces: true, ..INCREMENTAL };
    let shapes = shapes.into_iter().chain([early, pieces, Shape { compress: Compress::Lz4, ..INCREMENTAL }, GROWING]);
    let stride = often(FAILING, 1);
    for (_, shape) in shapes.enumerate().filter(|(number, _)| often([0, 2, 6].contains(number), true)) {
        for (failure, first) in [Failure::Io, Failure::Full, Failure::Forgets].into_iter().zip(1..) {
            let failed = |nth: &u64| {
                fail_at(*nth, failure, shape)
                    .unwrap_or_else(|why| panic!("{shape:?}, {failure:?} in operation {nth}: {why}"))
            };
            // Each failure meets other operations.
            let operations = (first..1000).step_by(stride as usize).take_while(failed).count() as u64 * stride;
            tell!("{shape:?}, {failure:?}: in one of {stride} of {operations} operations");
            assert!(operations > 50);
        }
    }
}

/// Without locks nothing keeps out a job that was thought dead. It finds the newer lineage and stops.
#[test]
fn a_late_writer_is_fenced_off() {
    assert_eq!(late_writer(Shape::ALONE).unwrap(), ErrorKind::Fenced);
}

/// If nobody knows whether a job has ended, the job that takes over its portions does not mark them as ended in order.
#[test]
fn what_was_taken_over_is_ended_only_where_locks_work() {
    for has_locks in [true, false] {
        let (medium, shape) = (Medium::new(has_locks), Shape { ranks: 2, ..Shape::ALONE });
        let saves = |mut program: Program, mut session: Session| {
            program.fill(&mut session, Mark { run: 1, step: 1 }, 20_000)?;
            session.checkpoint()?;
            Ok(session.wait()?)
        };
        job(&medium, shape, saves).unwrap();
        let medium = medium.end_processes();
        // A job with another number of ranks. It saves nothing.
        job(&medium, Shape::ALONE, |_, session| Ok(session.close()?)).unwrap();
        let survey = SpaceSurvey::open_on(&Faulty(medium.view())).unwrap();
        assert_eq!((survey.layouts.len(), survey.clean), (1, has_locks));
    }
}

/// The tests would find an engine that does not sync or syncs too late.
#[test]
fn without_syncs_revisions_are_lost() {
    let recording = Recording::of(Shape::ALONE).unwrap();
    let lost = recording.crash_everywhere(3, true, u64::MAX).unwrap_err();
    tell!("on a device that does not sync: {lost}");
}

/// A crash after each operation on any device: with all nodes, without one of them, without all. Here the test tries
/// some points of each shape; the campaign tries all.
#[test]
fn a_crash_of_a_job_on_several_nodes_loses_nothing_acknowledged() {
    for (first, shape) in (0..).zip(on_nodes()) {
        ended(shape, |recording| recording.crash(first, often(67, 17), false));
    }
}

#[test]
#[ignore = "long; make campaign runs it"]
fn a_crash_of_a_job_on_several_nodes_at_each_operation_with_each_loss() {
    on_nodes().into_iter().for_each(|shape| ended(shape, |recording| recording.crash(0, 1, true)));
}

fn on_nodes() -> [nodes::Shape; 4] {
    let pair = nodes::Shape::PAIR;
    [
        pair,
        nodes::Shape { exchange: Exchange::Blocking, keep: 2, ..pair },
        nodes::Shape { kind: LevelKind::Disk, ..pair },
        nodes::Shape { seats: &[0, 0, 1, 2], copies: 3, ..pair },
    ]
}

fn ended(shape: nodes::Shape, crash: impl Fn(&nodes::Recording) -> Result<crate::support::recording::Count, String>) {
    let count = nodes::Recording::of(shape).and_then(|recording| crash(&recording)).unwrap();
    tell!("{shape:?}: {} points, {} cases", count.points, count.cases);
}

//! Wrong variants of the commit protocol and of copies. The crash test or the seeded test must catch each variant of
//! the protocol, and jobs on several nodes must catch each variant of copies. The number of cases is bounded. With no
//! mutant the same cases find nothing.
//!
//! `cargo test -p mainstay-engine --release --lib mutant`

use super::{Mutant, activate, tell};
use crate::support::{
    nodes,
    recording::{Recording, Shape},
    schedule,
};
use mainstay_engine::LevelKind;
use std::{env, process::Command};

const SHAPE: Shape = Shape { ranks: 2, ..Shape::ALONE };
const LOSSES: u64 = 3;
const CASES_MAX: u64 = 1200;
const SCHEDULES_MAX: u64 = 1000;
/// Two ranks on two nodes, and four ranks on two nodes.
const PAIRS: [nodes::Shape; 2] = [nodes::Shape::PAIR, nodes::Shape { seats: &[0, 0, 1, 1], ..nodes::Shape::PAIR }];
/// The same on disks. There a busy copy is passed over and lags behind.
const DISKS: [nodes::Shape; 1] = [nodes::Shape { kind: LevelKind::Disk, ..nodes::Shape::PAIR }];
/// Two racks of two nodes each.
const RACKS: [nodes::Shape; 1] = [nodes::Shape {
    seats: &[0, 1, 2, 3],
    racks: &[&[0, 1], &[2, 3]],
    on_node: |node| tell("MAINSTAY_DOMAIN", format!("rack{}", node / 2)),
    ..nodes::Shape::PAIR
}];

/// The mutant switch belongs to the process, so the mutants run in one of their own.
#[test]
#[ignore = "long; make campaign runs it"]
fn every_mutant_is_caught() {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "mutant::tests::all_take_turns", "--ignored", "--nocapture"]);
    let ran = command.output().unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    tell!("{output}");
    assert!(ran.status.success() && output.contains("1 passed"), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
#[ignore = "run by the other test"]
fn all_take_turns() {
    let mutants = [
        Mutant::SlotBeforeSync,
        Mutant::SlotByParity,
        Mutant::NoId,
        Mutant::MinimumInsteadOfIntersection,
        Mutant::FreeTooEarly,
    ];
    let (mut escaped, mut schedules_needed) = (Vec::new(), 0);
    for mutant in mutants {
        activate(mutant);
        let (crash, seeded) = (crash_test(), seeded_test(SCHEDULES_MAX));
        activate(Mutant::None);
        let escape = format!("escapes {CASES_MAX} cases");
        tell!("{mutant:?}, crash test: {}", crash.as_ref().unwrap_or(&escape));
        match &seeded {
            Some((schedules, why)) => tell!("{mutant:?}, seeded test: caught by schedule {schedules}: {why}"),
            None => tell!("{mutant:?}, seeded test: escapes {SCHEDULES_MAX} schedules"),
        }
        schedules_needed = seeded.as_ref().map_or(0, |(schedules, _)| *schedules).max(schedules_needed);
        if crash.is_none() && seeded.is_none() {
            escaped.push(mutant);
        }
    }
    // The variants of copies show in jobs on several nodes.
    for (mutant, shapes, stride) in [
        (Mutant::CopyNotPublished, &PAIRS[..], 1),
        // It shows late in a long recording, and then at any moment.
        (Mutant::GivenUpWithOneCopy, &DISKS, 5),
        (Mutant::HolderBeside, &PAIRS, 1),
        (Mutant::HolderInDomain, &RACKS, 1),
    ] {
        activate(mutant);
        let caught = on_nodes(shapes, stride, true);
        activate(Mutant::None);
        tell!("{mutant:?}, on nodes: {}", caught.as_deref().unwrap_or("escapes"));
        if caught.is_none() {
            escaped.push(mutant);
        }
    }
    assert_eq!(escaped, [], "no test caught them");
    for shapes in [&PAIRS[..], &DISKS, &RACKS] {
        assert_eq!(on_nodes(shapes, 5, false), None, "with no mutant");
    }
    assert_eq!((crash_test(), seeded_test(schedules_needed)), (None, None), "with no mutant");
    tell!("no mutant: nothing found by the crash test, nor by {schedules_needed} schedules");
}

/// In jobs with copies, crashes after every `stride`th operation, with `all` losses or one.
fn on_nodes(shapes: &[nodes::Shape], stride: usize, all: bool) -> Option<String> {
    let crash = |shape| nodes::Recording::of(shape).and_then(|recording| recording.crash(0, stride, all));
    shapes.iter().find_map(|shape| crash(*shape).err())
}

fn crash_test() -> Option<String> {
    Recording::of(SHAPE).and_then(|recording| recording.crash_everywhere(LOSSES, false, CASES_MAX)).err()
}

/// The number of schedules until the mutant was caught, and the failure.
fn seeded_test(schedules_max: u64) -> Option<(u64, String)> {
    (0..schedules_max).find_map(|seed| schedule::run(seed).err().map(|why| (seed + 1, why)))
}

//! Plans that once showed a fault of the engine.

use mainstay_engine::{Capture, Compress, Exchange, Predictor, Recovery, Stage, Track, space::Per};
use mainstay_simulate::{
    plan::{Calls, Plan, Round, Setting, Step},
    run,
};

/// Two nodes, with memory and disks before the space.
fn setting() -> Setting {
    Setting {
        nodes: 2,
        has_racks: false,
        objects: None,
        is_global: false,
        recovery: Recovery::Off,
        memory_copies: 1,
        disk_copies: 1,
        pfs_every: 2,
        keep: 2,
        per: Per::Node,
        stage: Stage::Direct,
        capture: Capture::Whole,
        compress: Compress::Off,
        track: Track::Hashes,
        predictor: Predictor::Off,
        calls: Calls::Regions,
        exchange: Exchange::Blocking,
        io_threads: 1,
        bytes: 0..1,
        portion_bytes: 1 << 20,
    }
}

/// Story (seed 8 of the third plan): the space had no room for the newest revision, so `close` left it on disks that may
/// be lost, said nothing, and freed the memory.
#[test]
fn close_tells_that_the_space_did_not_take_the_newest_revision() {
    let saves = [464_004, 320_554].map(|bytes| [Step::Save { bytes, ticks: 0 }, Step::Wait]).concat();
    let round = |steps: Vec<Step>, lost| Round { seats: vec![0, 0, 1, 1], steps, lost, ..Round::default() };
    let first = round([saves, vec![Step::Close]].concat(), vec![(1, true)]);
    let plan = Plan { seed: 8, setting: setting(), rounds: vec![first, round(vec![], vec![])] };
    let ran = run(&plan, true);
    assert_eq!(ran.outcome, Ok(()));
    assert!(ran.story.iter().any(|line| line.contains("rank 0: close: the portion of rank 0")), "{:#?}", ran.story);
}

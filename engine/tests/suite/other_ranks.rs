//! Restores on another number of ranks, and with other boxes of global arrays.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::{
    faulty::{Faulty, Medium},
    in_sessions, in_sessions_on,
    program::Mark,
    spread::{Part, value},
};
use mainstay_engine::{
    Capture, Config, Error, ErrorKind, Region, Session, SpaceSurvey,
    device::{Access, Device},
    space::{
        Per,
        format::{ElementType, PlaceInWhole},
    },
    tend::{Reservation, ShardSize, grow},
};
use std::{fs, ops::Range, path::Path, sync::Arc};
use tempfile::TempDir;

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

/// Runs `work` on `ranks` ranks of the space. Returns the results by rank.
fn job<T: Send>(space: &Path, ranks: usize, work: impl Fn(usize, &mut Session) -> T + Sync) -> Vec<T> {
    in_sessions(space, ranks, &small(), work)
}

fn bytes_region(name: &str, memory: &mut [u8]) -> Region {
    // SAFETY: the tests keep `memory` for as long as the session.
    unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) }.unwrap()
}

/// Cuts the box into `count` parts at random.
pub(super) fn cut(whole: Vec<Range<u64>>, count: usize, random: &mut fastrand::Rng) -> Vec<Vec<Range<u64>>> {
    let mut boxes = vec![whole];
    while boxes.len() < count {
        let last = boxes.swap_remove(random.usize(..boxes.len()));
        let side = random.usize(..last.len());
        let at = random.u64(last[side].start..=last[side].end);
        let (mut low, mut high) = (last.clone(), last);
        (low[side].end, high[side].start) = (at, at);
        boxes.extend([low, high]);
    }
    boxes
}

/// `ls` reported that the last job had died: the portions of the older layout had its lineage, and no rank ended them.
#[test]
fn a_job_of_another_number_of_ranks_that_saves_nothing_ends_in_order() {
    for per in [Per::App, Per::Node, Per::Rank] {
        let folder = TempDir::new().unwrap();
        let config = Config { per, ..small() };
        let mut states = [[1_u8; 5000]; 3];
        let states = states.each_mut().map(std::sync::Mutex::new);
        in_sessions(folder.path(), 3, &config, |rank, session| {
            session.protect(bytes_region("state", &mut states[rank].lock().unwrap()[..])).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
        });
        for ranks in [2, 4, 3] {
            in_sessions(folder.path(), ranks, &config, |_, _| ());
            let survey = SpaceSurvey::open(folder.path()).unwrap();
            assert!(survey.clean && survey.layouts.iter().all(|layout| layout.clean), "{per:?}, {ranks} ranks");
            assert!(survey.newest().is_some());
        }
    }
}

/// Any saved boxes of a global array come back as any other boxes, with every cell. Some boxes are empty, and some
/// ranks save two arrays.
#[test]
fn any_boxes_come_back_as_any_other_boxes() {
    let mut random = fastrand::Rng::with_seed(21);
    for round in 0..40 {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        let sides: Vec<u64> = (0..random.usize(1..5)).map(|_| random.u64(1..40)).collect();
        let line = vec![random.u64(1..100_000)];
        let (before, after) = (random.usize(1..7), random.usize(1..7));
        let whole = |sides: &[u64]| sides.iter().map(|side| 0..*side).collect::<Vec<_>>();
        let mut cuts = |ranks| [cut(whole(&sides), ranks, &mut random), cut(whole(&line), ranks, &mut random)];
        let (saved, wanted) = (cuts(before), cuts(after));
        let parts = |boxes: &[Vec<Vec<Range<u64>>>; 2], rank: usize| {
            [Part::new(&sides, boxes[0][rank].clone()), Part::new(&line, boxes[1][rank].clone())]
        };
        let protect = |session: &mut Session, [a, b]: &mut [Part; 2]| {
            session.protect(a.region("a").unwrap()).unwrap();
            session.protect(b.region("b").unwrap()).unwrap();
        };
        let mark = Mark { run: 1, step: round };
        job(folder.path(), before, |rank, session| {
            let mut state = parts(&saved, rank);
            protect(session, &mut state);
            state.iter_mut().for_each(|part| part.fill(|number| value(mark, number)));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        });
        job(folder.path(), after, |rank, session| {
            let mut state = parts(&wanted, rank);
            protect(session, &mut state);
            assert_eq!(session.restore().unwrap().unwrap().revision, 1);
            for part in &state {
                assert!(part.holds(|number| value(mark, number)), "{sides:?}, {saved:?} as {wanted:?}, rank {rank}");
            }
        });
    }
}

/// With a file for each rank, each rank had only its own file open until the space was opened anew.
#[test]
fn other_boxes_come_back_in_the_session_that_saved_them() {
    for per in [Per::App, Per::Node, Per::Rank] {
        let (folder, global) = (TempDir::new().unwrap(), [60, 100]);
        in_sessions(folder.path(), 3, &Config { per, ..small() }, |rank, session| {
            let mut part = Part::slab(&global, rank, 3);
            session.protect(part.region("u").unwrap()).unwrap();
            part.fill(|number| number + 7);
            session.checkpoint().unwrap();
            session.wait().unwrap();
            session.unprotect("u").unwrap();
            let mut part = Part::slab(&global, (rank + 1) % 3, 3);
            session.protect(part.region("u").unwrap()).unwrap();
            session.restore().unwrap().unwrap();
            assert!(part.holds(|number| number + 7), "{per:?}, rank {rank}");
            session.unprotect("u").unwrap();
        });
    }
}

/// Saves rows 0..4 on rank 0 and 2..6 on rank 1, with different values in the rows that both have.
#[test]
fn a_cell_that_several_have_saved_comes_from_the_lowest() {
    let folder = TempDir::new().unwrap();
    let global = [6, 1000];
    job(folder.path(), 2, |rank, session| {
        let mut part = Part::new(&global, vec![2 * rank as u64..4 + 2 * rank as u64, 0..1000]);
        session.protect(part.region("u").unwrap()).unwrap();
        part.fill(|number| number << 8 | rank as u64);
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
    for ranks in [1, 2, 3] {
        job(folder.path(), ranks, |rank, session| {
            let mut part = Part::slab(&global, rank, ranks);
            session.protect(part.region("u").unwrap()).unwrap();
            session.restore().unwrap().unwrap();
            assert!(part.holds(|number| number << 8 | u64::from(number >= 4000)));
        });
    }
}

/// One rank saved, and the job was started with four by mistake: each went on with rank 0's part and computed on. Four
/// parts that were equal by chance came back on any number of ranks, and were refused a step later.
#[test]
fn what_each_rank_has_for_itself_comes_back_on_no_other_number_of_ranks() {
    for (before, after) in [(1, 4), (4, 1), (2, 3)] {
        let folder = TempDir::new().unwrap();
        job(folder.path(), before, |_, session| {
            let (mut step, mut part, mut empty) = ([7; 16], [7; 17], []);
            session.protect(bytes_region("step", &mut step)).unwrap();
            session.protect(bytes_region("part", &mut part)).unwrap();
            session.protect(bytes_region("empty", &mut empty)).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
        });
        let counts = format!("saved by {before} ranks and the job has {after}");
        job(folder.path(), after, |_, session| {
            let (mut step, mut part, mut empty) = ([1; 16], [1; 17], []);
            session.protect(bytes_region("step", &mut step)).unwrap();
            for (name, region) in
                [("part", bytes_region("part", &mut part)), ("empty", bytes_region("empty", &mut empty))]
            {
                session.protect(region).unwrap();
                let error = session.restore().unwrap_err();
                if before > 1 {
                    says(&[error], ErrorKind::RankCount, &[&format!("region {name:?}"), &counts]);
                } else {
                    assert_eq!(error.kind(), ErrorKind::RankCount, "{error}");
                }
                assert_eq!((step, part), ([1; 16], [1; 17]), "{before} to {after}");
                session.unprotect(name).unwrap();
            }
            // The data stays for programs that divide the shards themselves, and nothing has to ask for it.
            session.restore().unwrap().unwrap();
            assert_eq!(step, [7; 16]);
            session.bring_shards(&[0]).unwrap();
            session.shards().unwrap().read(0, "part", 0, &mut part).unwrap();
            assert_eq!(part, [7; 17]);
        });
    }
}

/// Each rank's error of a restore with the regions that `protect` protects, on a space that two ranks have saved.
fn refused(
    save: impl Fn(usize, &mut Session) + Sync,
    ranks: usize,
    protect: impl Fn(usize, &mut Session) + Sync,
) -> Vec<Error> {
    let folder = TempDir::new().unwrap();
    job(folder.path(), 2, |rank, session| {
        save(rank, session);
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
    job(folder.path(), ranks, |rank, session| {
        protect(rank, session);
        session.restore().unwrap_err()
    })
}

fn slab(name: &'static str, global: &'static [u64], ranks: usize) -> impl Fn(usize, &mut Session) + Sync {
    move |rank, session| {
        // Leaked: it outlives everything.
        let part = Box::leak(Box::new(Part::slab(global, rank, ranks)));
        session.protect(part.region(name).unwrap()).unwrap();
    }
}

fn plain(name: &'static str, bytes: impl Fn(usize) -> Vec<u8> + Sync) -> impl Fn(usize, &mut Session) + Sync {
    move |rank, session| session.protect(bytes_region(name, Box::leak(bytes(rank).into_boxed_slice()))).unwrap()
}

#[track_caller]
fn says(errors: &[Error], kind: ErrorKind, words: &[&str]) {
    for error in errors {
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{text}");
        for word in words {
            assert!(text.contains(word), "{word:?} is not in: {text}");
        }
    }
}

#[test]
fn cells_that_nobody_saved_are_named_with_their_box() {
    let hole = |rank: usize, session: &mut Session| {
        let rows = if rank == 0 { 0..3 } else { 4..6 };
        let part = Box::leak(Box::new(Part::new(&[6, 8], vec![rows, 0..8])));
        session.protect(part.region("u").unwrap()).unwrap();
    };
    let words = ["region \"u\"", "box [0..6, 0..8]", "cells [3..4, 0..8]", "revision 1", "saved by 2 ranks"];
    says(&refused(hole, 1, slab("u", &[6, 8], 1)), ErrorKind::RegionMissing, &words);
    // The same number of ranks, other boxes: the rank that asks for the hole speaks for all.
    let errors = refused(hole, 2, slab("u", &[6, 8], 2));
    says(&errors, ErrorKind::RegionMissing, &["box [3..6, 0..8]", "cells [3..4, 0..8]"]);
}

#[test]
fn another_global_shape_or_type_is_refused_with_both() {
    let words = ["region \"u\"", "u64 3 x 8 at 0, 0 of 6 x 8", "at 0, 0 of 6 x 9"];
    says(&refused(slab("u", &[6, 8], 2), 1, slab("u", &[6, 9], 1)), ErrorKind::RegionChanged, &words);
    // Shards that contradict each other.
    let two =
        |rank: usize, session: &mut Session| slab("u", if rank == 0 { &[6, 8] } else { &[6, 9] }, 2)(rank, session);
    let words = ["at 0, 0 of 6 x 8", "by rank 0", "at 3, 0 of 6 x 9", "by rank 1"];
    says(&refused(two, 1, slab("u", &[6, 8], 1)), ErrorKind::RegionChanged, &words);
    let mixed = |rank: usize, session: &mut Session| match rank {
        0 => slab("u", &[6, 8], 2)(rank, session),
        _ => plain("u", |_| vec![1; 192])(rank, session),
    };
    says(&refused(mixed, 1, slab("u", &[6, 8], 1)), ErrorKind::RegionChanged, &["192 bytes by rank 1"]);
    // A region that was no box cannot become one on another number of ranks.
    let errors = refused(plain("u", |_| vec![1; 384]), 1, slab("u", &[6, 8], 1));
    says(&errors, ErrorKind::RegionChanged, &["384 bytes", "6 x 8 at 0, 0"]);
}

/// Either the saving or the restoring program declares it. Each time the restore asks anew for the region's address,
/// and the region may move.
#[test]
fn what_is_said_to_be_the_same_comes_back_on_any_number_of_ranks() {
    for (before, after) in [(1, 4), (4, 1), (3, 2)] {
        for (saver, restorer) in [(true, false), (false, true), (true, true)] {
            let folder = TempDir::new().unwrap();
            let config = Config { capture: Capture::Incremental, ..small() };
            let protect = |session: &mut Session, table: &mut [u8], says: bool| {
                session.protect(bytes_region("table", table)).unwrap();
                if says {
                    session.same_on_all_ranks("table").unwrap();
                }
            };
            in_sessions(folder.path(), before, &config, |_, session| {
                let (mut table, mut moved) = (vec![3; 9000], vec![4; 5000]);
                protect(session, &mut table, saver);
                session.checkpoint().unwrap();
                // The region stays the same data after it has moved and has another size.
                session.move_region(bytes_region("table", &mut moved)).unwrap();
                session.checkpoint().unwrap();
                session.wait().unwrap();
            });
            in_sessions(folder.path(), after, &config, |_, session| {
                let mut table = vec![0; 5000];
                protect(session, &mut table, restorer);
                assert_eq!(session.restore().unwrap().unwrap().revision, 2);
                assert_eq!(table, [4; 5000], "{before} to {after}");
            });
        }
    }
}

/// If ranks saved different bytes of such a region, nothing is filled. On the same number of ranks each rank gets its
/// own bytes.
#[test]
fn what_is_said_to_be_the_same_and_is_not_is_refused_with_the_rank() {
    let says_same = |bytes: &'static (dyn Fn(usize) -> Vec<u8> + Sync)| {
        move |rank: usize, session: &mut Session| {
            plain("v", bytes)(rank, session);
            session.same_on_all_ranks("v").unwrap();
        }
    };
    let words = ["region \"v\"", "rank 1 saved other bytes of it than rank 0", "mainstay_read_shard"];
    says(
        &refused(says_same(&|rank| vec![rank as u8; 80]), 3, plain("v", |_| vec![0; 80])),
        ErrorKind::RankCount,
        &words,
    );
    says(
        &refused(plain("v", |rank| vec![rank as u8; 80]), 3, says_same(&|_| vec![0; 80])),
        ErrorKind::RankCount,
        &words,
    );
    let words = ["region \"v\"", "rank 0 saved 80 bytes of it, rank 1 81"];
    says(&refused(says_same(&|rank| vec![1; 80 + rank]), 1, plain("v", |_| vec![0; 80])), ErrorKind::RankCount, &words);
}

#[test]
fn a_box_is_not_the_same_on_all_ranks() {
    let folder = TempDir::new().unwrap();
    job(folder.path(), 2, |rank, session| {
        slab("u", &[6, 8], 2)(rank, session);
        says(&[session.same_on_all_ranks("u").unwrap_err()], ErrorKind::InvalidArgument, &["memory of \"u\"", "box"]);
        says(&[session.same_on_all_ranks("w").unwrap_err()], ErrorKind::RegionMissing, &["region \"w\""]);
        let bytes = Box::leak(vec![0; 192].into_boxed_slice());
        session.protect(bytes_region("v", bytes)).unwrap();
        session.same_on_all_ranks("v").unwrap();
        let place = PlaceInWhole { global_shape: vec![384], offset: vec![0] };
        // SAFETY: the memory is leaked.
        let placed = unsafe { Region::placed("v", bytes.as_mut_ptr(), ElementType::Bytes, &[192], place) }.unwrap();
        says(&[session.move_region(placed).unwrap_err()], ErrorKind::InvalidArgument, &["memory of \"v\"", "box"]);
    });
}

#[test]
fn what_is_no_box_comes_back_where_there_is_no_doubt() {
    let folder = TempDir::new().unwrap();
    let state = |rank: usize| {
        let (step, seed) = (vec![7_u8; 100_000], if rank == 0 { vec![9; 10] } else { vec![] });
        (step, seed, vec![])
    };
    let protect = |rank: usize, session: &mut Session, (step, seed, empty): &mut (Vec<u8>, Vec<u8>, Vec<u8>)| {
        session.protect(bytes_region("step", step)).unwrap();
        session.same_on_all_ranks("step").unwrap();
        session.protect(bytes_region("empty", empty)).unwrap();
        session.same_on_all_ranks("empty").unwrap();
        if rank == 0 {
            session.protect(bytes_region("seed", seed)).unwrap();
        }
    };
    job(folder.path(), 4, |rank, session| {
        let mut state = state(rank);
        protect(rank, session, &mut state);
        session.note("rank", &rank.to_string()).unwrap();
        session.begin(1000).unwrap();
        session.write("log", 0, &[rank as u8; 1000]).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
    for ranks in [1, 2, 3, 6] {
        job(folder.path(), ranks, |rank, session| {
            let (mut step, mut seed, mut empty) = (vec![0; 100_000], vec![0; 10], vec![]);
            let mut memory = (std::mem::take(&mut step), std::mem::take(&mut seed), std::mem::take(&mut empty));
            protect(rank, session, &mut memory);
            let restored = session.restore().unwrap().unwrap();
            assert_eq!(memory.0, state(0).0);
            assert!(rank > 0 || memory.1 == [9; 10]);
            // Notes come from rank 0; streams belong to no rank.
            assert_eq!(restored.notes["rank"], "0");
            let error = session.streams().unwrap_err();
            says(
                &[error],
                ErrorKind::InvalidArgument,
                &["saved by 4 ranks", "mainstay_read_shard, in Python bring_shards"],
            );
            says(&[session.read("log", 0, &mut [0]).unwrap_err()], ErrorKind::InvalidArgument, &["saved by 4 ranks"]);
        });
    }
}

/// A job that ran on one rank for a while goes on with several. Regions that only rank 0 protects stay with rank 0.
#[test]
fn a_job_of_one_rank_goes_on_on_many() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    for (before, ranks) in [(0, 2), (2, 1), (1, 3), (3, 1), (1, 2)] {
        job(folder.path(), ranks, |rank, session| {
            let (mut step, mut seed) = (vec![0; 10], vec![0; 10]);
            session.protect(bytes_region("step", &mut step)).unwrap();
            if rank == 0 {
                session.protect(bytes_region("seed", &mut seed)).unwrap();
            }
            session.restore().unwrap();
            assert_eq!(step, [before as u8; 10], "from {before} to {ranks}");
            step.fill(ranks as u8);
            session.checkpoint().unwrap();
            session.wait().unwrap();
        });
    }
}

#[test]
fn what_is_no_box_and_in_doubt_is_refused_with_its_name_and_both_numbers() {
    let counts = ["region \"v\"", "saved by 2 ranks and the job has 3", "mainstay_protect_box"];
    let with = |more: &'static str| [&counts[..], &[more]].concat();
    let any = || plain("v", |_| vec![0; 8]);
    says(&refused(plain("v", |rank| vec![rank as u8; 8]), 3, any()), ErrorKind::RankCount, &with("other bytes"));
    says(&refused(plain("v", |rank| vec![0; 8 + rank]), 3, any()), ErrorKind::RankCount, &with("rank 1 9"));
    let alone = |which: usize| {
        move |rank: usize, session: &mut Session| {
            plain("v", |_| vec![0; if rank == which { 8 } else { 0 }])(rank, session);
            if rank != which {
                session.unprotect("v").unwrap();
            }
            plain("w", |_| vec![1; 8])(rank, session);
        }
    };
    let both = |rank: usize, session: &mut Session| {
        any()(rank, session);
        plain("w", |_| vec![1; 8])(rank, session);
    };
    says(&refused(alone(0), 3, both)[1..], ErrorKind::RankCount, &with("by rank 0 alone"));
    says(&refused(alone(1), 3, both), ErrorKind::RankCount, &with("by rank 1 alone"));
    // Forgotten, or never saved.
    let errors = refused(both, 3, plain("w", |_| vec![1; 8]));
    says(&errors, ErrorKind::RegionMissing, &["region \"v\"", "not protected", "or open another space"]);
    let errors = refused(plain("w", |_| vec![1; 8]), 3, both);
    says(&errors, ErrorKind::RegionMissing, &["region \"v\"", "protect it only after"]);
    let errors = refused(slab("u", &[6, 8], 2), 3, |_, _| ());
    says(&errors, ErrorKind::RegionMissing, &["region \"u\"", "not protected", "or open another space"]);
}

/// After a job of four ranks, one of two ranks cuts back rank 0's table. It also cuts back rank 3's table, on any rank
/// that names it.
#[test]
fn output_files_go_back_with_whoever_names_them() {
    let folder = TempDir::new().unwrap();
    let space = folder.path().join("space");
    let file = |rank: usize| folder.path().join(format!("log.{rank}"));
    job(&space, 4, |rank, session| {
        fs::write(file(rank), vec![b'a'; 10 + rank]).unwrap();
        session.protect_output(&file(rank)).unwrap();
        slab("u", &[6, 8], 4)(rank, session);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        fs::write(file(rank), vec![b'a'; 30]).unwrap();
    });
    job(&space, 2, |rank, session| {
        session.protect_output(&file(3 * rank)).unwrap();
        slab("u", &[6, 8], 2)(rank, session);
        session.restore().unwrap().unwrap();
    });
    let lengths = [0, 1, 2, 3].map(|rank| fs::metadata(file(rank)).unwrap().len());
    assert_eq!(lengths, [10, 30, 30, 13]);
}

/// A job with another number of ranks goes on in the same space. Each later job finds the revisions of the one before.
#[test]
fn jobs_of_ever_other_numbers_go_on_in_one_space() {
    let folder = TempDir::new().unwrap();
    let global = [13, 700];
    for (round, ranks) in [4, 2, 6, 3, 4, 1].into_iter().enumerate() {
        job(folder.path(), ranks, |rank, session| {
            let mut part = Part::slab(&global, rank, ranks);
            session.protect(part.region("u").unwrap()).unwrap();
            let restored = session.restore().unwrap();
            assert_eq!(restored.as_ref().map_or(0, |restored| restored.revision), 2 * round as u64);
            if let Some(restored) = restored {
                let mark = Mark { run: round as u64 - 1, step: 2 };
                assert!(part.holds(|number| value(mark, number)), "{ranks} ranks, {restored:?}");
            }
            for step in 1..=2 {
                part.fill(|number| value(Mark { run: round as u64, step }, number));
                session.checkpoint().unwrap();
                session.wait().unwrap();
            }
        });
    }
}

/// The same number of ranks with boxes of other sizes, so a shard needs more than its portion. The job makes a new
/// layout, as for another number of ranks, and removes the old one. This was PORTION_TOO_SMALL.
#[test]
fn larger_boxes_on_as_many_ranks_go_to_a_new_layout() {
    let folder = TempDir::new().unwrap();
    let config = Config { buffer_bytes: 64 << 10, pool_bytes: Some(512 << 10), ..small() };
    let layouts = || {
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("layout-")).collect::<Vec<_>>()
    };
    let global = [12, 7000];
    let mut before = Vec::new();
    for (run, middle) in [6, 1, 11].into_iter().enumerate() {
        in_sessions(folder.path(), 2, &config, |rank, session| {
            let rows = [0..middle, middle..12][rank].clone();
            let mut part = Part::new(&global, vec![rows, 0..7000]);
            session.protect(part.region("u").unwrap()).unwrap();
            let restored = session.restore().unwrap();
            assert_eq!(restored.is_some(), run > 0);
            if run > 0 {
                assert!(part.holds(|number| value(Mark { run: run as u64 - 1, step: 3 }, number)), "{restored:?}");
            }
            for step in 1..=3 {
                part.fill(|number| value(Mark { run: run as u64, step }, number));
                session.checkpoint().unwrap();
                session.wait().unwrap();
            }
        });
        let now = layouts();
        assert_eq!(now.len(), 1, "the old layout is there still: {now:?}");
        assert_ne!(now, before);
        before = now;
    }
}

/// Restores the last job's revision, and saves one more, of a global array with `rows` on each rank.
fn goes_on(space: &Path, rows: &[Range<u64>], run: u64, gives_up: bool) {
    job(space, rows.len(), |rank, session| {
        let mut part = Part::new(&[12, 7000], vec![rows[rank].clone(), 0..7000]);
        session.protect(part.region("u").unwrap()).unwrap();
        if let Some(restored) = session.restore().unwrap() {
            assert!(part.holds(|number| value(Mark { run: run - 1, step: 1 }, number)), "{restored:?}");
        }
        part.fill(|number| value(Mark { run, step: 1 }, number));
        if gives_up {
            session.begin(0).unwrap();
            session.abandon().unwrap();
        } else {
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
}

fn layouts_in(space: &Path) -> usize {
    SpaceSurvey::open(space).unwrap().layouts.len()
}

/// A layout for the same number of ranks exists. It is too small for the data that these ranks get of the others'
/// shards: this was PORTION_TOO_SMALL.
#[test]
fn what_other_ranks_saved_goes_on_though_a_layout_has_no_room_for_it() {
    let folder = TempDir::new().unwrap();
    goes_on(folder.path(), &[0..4, 4..8, 8..12], 0, false);
    let tight = Reservation::alike(&ShardSize::of(4096, 0).unwrap(), 2, 1);
    grow(folder.path(), &tight, &|_| ()).unwrap();
    for run in 1..4 {
        goes_on(folder.path(), &[0..6, 6..12], run, false);
    }
    assert_eq!(layouts_in(folder.path()), 1);
}

/// A job had made a layout for its boxes and saved nothing there. A job with the saved boxes found no room in it.
#[test]
fn a_layout_for_other_boxes_that_came_to_nothing_is_in_nobodys_way() {
    let folder = TempDir::new().unwrap();
    goes_on(folder.path(), &[0..6, 6..12], 0, false);
    goes_on(folder.path(), &[0..1, 1..12], 1, true);
    assert_eq!(layouts_in(folder.path()), 2);
    for run in 1..4 {
        goes_on(folder.path(), &[0..6, 6..12], run, false);
    }
    assert_eq!(layouts_in(folder.path()), 1);
}

/// If a shard is damaged, all ranks restore the next older revision.
#[test]
fn damage_moves_all_ranks_to_the_revision_before() {
    let medium = Medium::new(true);
    let config = Config { keep: 2, portion_bytes: 1 << 20, ..small() };
    let global = [8, 1000];
    let run = |ranks: usize, work: &(dyn Fn(usize, &mut Session) + Sync)| {
        let device: Arc<dyn Device> = Arc::new(Faulty(medium.view()));
        in_sessions_on(&device, ranks, &config, work);
    };
    run(4, &|rank, session| {
        let mut part = Part::slab(&global, rank, 4);
        session.protect(part.region("u").unwrap()).unwrap();
        for step in 1..=2 {
            part.fill(|number| value(Mark { run: 0, step }, number));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
    // The last byte of the last row, in whichever block it is stored.
    let device = Faulty(medium.view());
    let name = device.list().unwrap().into_iter().find(|name| name.starts_with("layout-")).unwrap();
    let file = device.open(&name, Access::Write, None).unwrap();
    let wanted = value(Mark { run: 0, step: 2 }, 7999).to_le_bytes();
    let mut all = vec![0; file.bytes().unwrap() as usize];
    file.read_at(&mut all, 0).unwrap();
    let at = all.windows(8).position(|bytes| bytes == wanted).unwrap();
    file.write_at(&[wanted[0] ^ 1], at as u64).unwrap();
    run(3, &|rank, session| {
        let mut part = Part::slab(&global, rank, 3);
        session.protect(part.region("u").unwrap()).unwrap();
        let restored = session.restore().unwrap().unwrap();
        assert_eq!(restored.revision, 1);
        assert!(
            restored.skipped.iter().any(|what| what.contains("shard 3") && what.contains("checksum")),
            "{restored:?}"
        );
        assert!(part.holds(|number| value(Mark { run: 0, step: 1 }, number)));
    });
}

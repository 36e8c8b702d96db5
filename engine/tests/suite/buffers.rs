//! Whole buffers: put as the next revision, read back from any kept one.

use crate::support::{Job, filled, in_sessions};
use mainstay_engine::{Config, Error, ErrorKind, Region, RevisionKey, Session, SpaceSurvey, Stage};
use tempfile::TempDir;

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), keep: 2, ..Config::default() }
}

/// The bytes and their number differ for each rank and step. Rank 0 has no bytes at every third step.
fn buffer(rank: usize, step: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(step * 64 + rank as u64);
    let bytes = if rank == 0 && step.is_multiple_of(3) { 0 } else { 10_000 * (step as usize % 5) + 777 * rank + 1 };
    std::iter::repeat_with(|| random.u8(..)).take(bytes).collect()
}

fn got(session: &mut Session, revision: Option<u64>) -> Option<(u64, Vec<u8>)> {
    let mut into = vec![0xEE; 64 << 10];
    let got = session.get(revision, "buffer", &mut into).unwrap()?;
    assert_eq!(session.get_bytes(revision, "buffer").unwrap(), Some(got.bytes));
    assert!(into[got.bytes as usize..].iter().all(|byte| *byte == 0xEE), "more was filled than there is");
    into.truncate(got.bytes as usize);
    Some((got.revision, into))
}

#[test]
fn what_is_put_is_got_by_each_rank_in_every_stage() {
    for stage in [Stage::Pool, Stage::Direct, Stage::Node, Stage::Rank] {
        let folder = TempDir::new().unwrap();
        let config = Config { stage, shard_bytes: 64 << 10, ..small() };
        in_sessions(folder.path(), 3, &config, |rank, session| {
            assert_eq!(got(session, None), None);
            for step in 1..=12 {
                assert_eq!(session.put("buffer", &buffer(rank, step)).unwrap(), step);
                // The revision is complete: no rank has to wait for it. The next one cannot begin before all ranks have
                // looked.
                assert_eq!(SpaceSurvey::open(folder.path()).unwrap().newest().unwrap().key.number, step, "{stage:?}");
                assert_eq!(got(session, None), Some((step, buffer(rank, step))), "{stage:?}, rank {rank}");
                if step > 1 {
                    assert_eq!(got(session, Some(step - 1)), Some((step - 1, buffer(rank, step - 1))));
                }
            }
        });
        in_sessions(folder.path(), 3, &config, |rank, session| {
            assert_eq!(got(session, Some(11)), Some((11, buffer(rank, 11))));
            assert_eq!(got(session, None), Some((12, buffer(rank, 12))));
            assert_eq!(session.put("buffer", &buffer(rank, 13)).unwrap(), 13);
        });
    }
}

/// The program goes on from the restored revision, and Mainstay never gives a number twice.
#[test]
fn any_revision_that_is_there_can_be_restored() {
    let folder = TempDir::new().unwrap();
    let config = Config { keep: 3, ..small() };
    let protect = |session: &mut Session, state: &mut [u8]| {
        // SAFETY: the state lives longer than the session, and the session alone uses it meanwhile.
        #[allow(unsafe_code)]
        let region = unsafe { Region::new("state", state.as_mut_ptr(), state.len() as u64) };
        session.protect(region.unwrap()).unwrap();
    };
    in_sessions(folder.path(), 2, &config, |rank, session| {
        let mut state = vec![0; 30_000];
        protect(session, &mut state);
        for step in 1..=4_u8 {
            state.fill(10 * step + rank as u8);
            session.checkpoint().unwrap();
        }
        session.wait().unwrap();
    });
    in_sessions(folder.path(), 2, &config, |rank, session| {
        let mut state = vec![0; 30_000];
        protect(session, &mut state);
        for missing in [0, 9] {
            let error = session.restore_revision(missing).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::RevisionMissing, "{error}");
        }
        let error = session.restore_revision(2 + rank as u64).unwrap_err().to_string();
        assert!(error.contains("rank 1 asks for 3 and rank 0 for 2"), "{error}");
        assert!(state.iter().all(|byte| *byte == 0), "it was filled all the same");
        for revision in [3, 2, 4, 2] {
            assert_eq!(session.restore_revision(revision).unwrap().unwrap().revision, revision);
            assert!(state.iter().all(|byte| *byte == 10 * revision as u8 + rank as u8));
        }
        state.fill(77);
        assert_eq!(session.checkpoint().unwrap(), 5);
        session.wait().unwrap();
        // Revisions 3 and 4 are no longer kept.
        assert_eq!(session.restore_revision(2).unwrap().unwrap().revision, 2);
        assert_eq!(session.restore().unwrap().unwrap().revision, 5);
        assert!(state.iter().all(|byte| *byte == 77));
    });
}

/// The root of the next lineage overwrites a slot. That slot may be the only one that leads to the restored revision.
#[test]
fn a_revision_that_the_program_went_back_to_stays() {
    let folder = TempDir::new().unwrap();
    // With this much room the older slot leads to one revision more than `keep`.
    let config = Config { keep: 1, shard_bytes: 256 << 10, ..small() };
    in_sessions(folder.path(), 2, &config, |_, session| {
        let mut state = vec![0; 30_000];
        // SAFETY: the state lives longer than the session, and the session alone uses it meanwhile.
        #[allow(unsafe_code)]
        let region = unsafe { Region::new("state", state.as_mut_ptr(), state.len() as u64) };
        session.protect(region.unwrap()).unwrap();
        session.restore().unwrap();
        for step in 1..=6 {
            state.fill(step);
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
        for _ in 0..2 {
            assert_eq!(session.restore_revision(4).unwrap().unwrap().revision, 4);
            let survey = SpaceSurvey::open(folder.path()).unwrap();
            let there: Vec<u64> = survey.revisions.iter().map(|revision| revision.key.number).collect();
            assert_eq!(there, [6, 5, 4]);
        }
        state.fill(7);
        assert_eq!(session.checkpoint().unwrap(), 7);
        session.wait().unwrap();
        assert_eq!(session.restore_revision(4).unwrap().unwrap().revision, 4);
        assert!(state.iter().all(|byte| *byte == 4));
    });
}

#[test]
fn reading_changes_nothing_of_what_is_saved() {
    let folder = TempDir::new().unwrap();
    let config = Config { shard_bytes: 64 << 10, ..small() };
    let keys = || {
        let survey = SpaceSurvey::open(folder.path()).unwrap();
        survey.revisions.iter().map(|revision| revision.key).collect::<Vec<RevisionKey>>()
    };
    in_sessions(folder.path(), 2, &config, |rank, session| {
        for step in 1..=3 {
            session.put("buffer", &buffer(rank, step)).unwrap();
        }
        let before = keys();
        for revision in [None, Some(2), Some(3), None] {
            got(session, revision).unwrap();
        }
        assert_eq!(keys(), before);
        session.put("buffer", &buffer(rank, 4)).unwrap();
    });
    let after = keys();
    assert_eq!((after[0].number, after[0].lineage), (4, after[1].lineage), "a read has begun a lineage");
}

#[test]
fn a_revision_that_is_not_there_is_told_with_those_that_are() {
    let folder = TempDir::new().unwrap();
    let refused = |session: &mut Session, revision| session.get(Some(revision), "buffer", &mut []).unwrap_err();
    in_sessions(folder.path(), 2, &small(), |rank, session| {
        let error = refused(session, 1).to_string();
        assert!(error.contains("not been written yet") && error.ends_with("there are: none yet"), "{error}");
        for _ in 1..=6 {
            session.put("buffer", &buffer(rank, 1)).unwrap();
        }
        for (revision, why) in [(0, "begin at 1"), (1, "gone, as keep is 2"), (7, "yet"), (u64::MAX, "yet")] {
            let error = refused(session, revision);
            assert_eq!(error.kind(), ErrorKind::RevisionMissing);
            let error = error.to_string();
            assert!(error.contains(why) && error.ends_with("5, 6"), "{error}");
            assert!(session.get_bytes(Some(revision), "buffer").is_err());
        }
    });
}

#[test]
fn what_one_rank_gives_wrong_is_told_on_all_and_nothing_is_saved_or_filled() {
    let folder = TempDir::new().unwrap();
    in_sessions(folder.path(), 3, &small(), |rank, session| {
        session.put("buffer", &buffer(rank, 1)).unwrap();
        let wrong = || Error::argument("the front", "is wrong");
        let bytes = buffer(rank, 2);
        if rank == 1 {
            session.refuse(wrong());
        }
        let error = session.put("buffer", &bytes).unwrap_err();
        assert!(error.to_string().contains("the front"), "{error}");
        let error = session.put(if rank == 2 { "a b" } else { "buffer" }, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName);

        let mut into = vec![0xEE; 64 << 10];
        let room = if rank == 1 { 3 } else { into.len() };
        let error = session.get(None, "buffer", &mut into[..room]).unwrap_err().to_string();
        assert!(error.contains("room for 3 bytes, and this rank saved 10778 in revision 1"), "{error}");
        let error = session.get(Some(1 + rank as u64), "buffer", &mut into).unwrap_err().to_string();
        assert!(error.contains("rank 1 asks for 2 and rank 0 for 1"), "{error}");
        let error = session.get(None, "other", &mut into).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RegionMissing);
        assert!(error.to_string().contains("has on this rank: buffer"), "{error}");
        assert!(into.iter().all(|byte| *byte == 0xEE), "something was filled");
        assert_eq!(got(session, None), Some((1, buffer(rank, 1))));
    });
}

#[test]
fn there_is_room_for_keep_and_two_of_the_shards_that_were_announced() {
    let most = 3_000_000;
    let folder = TempDir::new().unwrap();
    let config = Config { shard_bytes: most as u64, keep: 1, ..small() };
    in_sessions(folder.path(), 2, &config, |rank, session| {
        session.put("buffer", &[1]).unwrap();
        let large = vec![rank as u8; most];
        for _ in 0..7 {
            session.put("buffer", &large).unwrap();
        }
        let mut into = vec![9; most];
        assert_eq!(session.get(None, "buffer", &mut into).unwrap().unwrap().revision, 8);
        assert!(into == large);
    });
    let layouts = SpaceSurvey::open(folder.path()).unwrap().layouts;
    assert_eq!((layouts.len(), layouts[0].header.layout_number), (1, 1));
}

/// A checkpoint with a buffer saves the regions, too. A restore brings them back, and they stay protected.
#[test]
fn a_buffer_beside_regions() {
    let job = Job::new(2, Config { shard_bytes: 1 << 20, ..small() });
    job.run(|rank, session, state| {
        filled(state, rank, 1);
        let saved = state.clone();
        session.put("buffer", &buffer(rank, 1)).unwrap();
        filled(state, rank, 2);
        let before = state.clone();
        assert_eq!(got(session, None), Some((1, buffer(rank, 1))));
        assert!(*state == before, "get filled a region");
        session.restore().unwrap().unwrap();
        assert!(*state == saved, "the buffer is left for get");
        filled(state, rank, 2);
        // The name of the buffer is free again.
        session.checkpoint().unwrap();
        filled(state, rank, 3);
        assert_eq!(session.restore().unwrap().unwrap().revision, 2);
        assert!(*state == before && *state != saved);
        let error = session.put("field", &[1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateName);
    });
}

#[test]
fn a_stream_is_got_by_its_name_too() {
    let folder = TempDir::new().unwrap();
    in_sessions(folder.path(), 2, &small(), |rank, session| {
        session.begin(100_000).unwrap();
        for piece in buffer(rank, 4).chunks(1000).enumerate() {
            session.write("buffer", 1000 * piece.0 as u64, piece.1).unwrap();
        }
        session.checkpoint().unwrap();
        assert_eq!(got(session, None), Some((1, buffer(rank, 4))));
        assert!(session.begin(1).is_ok());
        let error = session.get(None, "buffer", &mut []).unwrap_err();
        assert!(error.to_string().contains("was not finished, and is given up"), "{error}");
        assert_eq!(session.put("other", &[]).unwrap(), 3);
    });
}

/// Story: a program called `put` beside its regions, and the next run restored without a `put`. Mainstay refused every
/// restore, because it took the buffer for a region that the program had forgotten.
#[test]
fn what_was_put_is_left_for_get_by_a_restore() {
    let folder = TempDir::new().unwrap();
    let protect = |session: &mut Session, name: &str, state: &mut [u8]| {
        // SAFETY: the state lives longer than the session, and the session alone uses it meanwhile.
        #[allow(unsafe_code)]
        let region = unsafe { Region::new(name, state.as_mut_ptr(), state.len() as u64) };
        session.protect(region.unwrap()).unwrap();
    };
    for stage in [Stage::Pool, Stage::Direct] {
        for (saved, ranks) in [(2, 2), (2, 3)] {
            let config = Config { stage, ..small() };
            in_sessions(folder.path(), saved, &config, |rank, session| {
                let mut state = vec![5; 30_000];
                protect(session, "state", &mut state);
                session.same_on_all_ranks("state").unwrap();
                session.restore().unwrap();
                session.put("buffer", &buffer(rank, 4)).unwrap();
            });
            in_sessions(folder.path(), ranks, &config, |rank, session| {
                let mut state = vec![0; 30_000];
                protect(session, "state", &mut state);
                session.same_on_all_ranks("state").unwrap();
                session.restore().unwrap().unwrap();
                assert_eq!(state, [5; 30_000]);
                if ranks == saved {
                    assert_eq!(session.streams().unwrap(), []);
                    assert_eq!(got(session, None).unwrap().1, buffer(rank, 4));
                    // The program can protect a region under the buffer's name now.
                    let mut same = vec![0; buffer(rank, 4).len()];
                    protect(session, "buffer", &mut same);
                    session.restore().unwrap().unwrap();
                    assert_eq!(same, buffer(rank, 4));
                    session.unprotect("buffer").unwrap();
                } else {
                    let shard = (rank % saved) as u32;
                    session.bring_shards(&[shard]).unwrap();
                    let mut into = vec![0; buffer(shard as usize, 4).len()];
                    session.shards().unwrap().read(shard, "buffer", 0, &mut into).unwrap();
                    assert_eq!(into, buffer(shard as usize, 4));
                }
                session.checkpoint().unwrap();
            });
        }
    }
}

//! Files of a layout that no rank sees: their content neither counts as lost nor is removed.

use crate::support::{Job, State, filled, run};
use mainstay_engine::{
    Config, Error, ErrorKind, Session, SpaceSurvey, Start, Verified,
    space::Per,
    tend::{Holding, hold},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

fn per_rank(keep: u32) -> Config {
    let (start, pool_bytes) = (Start::Fresh, Some(256 << 10));
    Config { per: Per::Rank, start, keep, pool_bytes, chunk_bytes: Some(64 << 10), ..Config::default() }
}

fn job(ranks: usize, keep: u32) -> Job {
    Job::new(ranks, per_rank(keep))
}

/// Saves revisions of these steps, each to its end.
fn save(rank: usize, session: &mut Session, state: &mut State, steps: &[u64]) {
    for step in steps {
        filled(state, rank, *step);
        session.checkpoint().unwrap();
        session.wait().unwrap();
    }
}

/// The layout files of a space and their bytes.
fn files(space: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(space).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    named.filter(|(name, _)| name.ends_with(".mainstay")).collect()
}

fn of_rank(files: &BTreeMap<String, Vec<u8>>, rank: usize) -> String {
    let rank = format!("{rank:06}");
    files.keys().find(|name| name.split('-').nth(2) == Some(&rank)).unwrap().clone()
}

/// The errors of the opening on `ranks` ranks.
fn refused(ranks: usize, path: impl Fn(usize) -> PathBuf + Sync) -> Vec<Error> {
    run(ranks, |rank, group| Session::open(group, &path(rank), per_rank(1)).err().expect("it opened"))
}

#[track_caller]
fn says(errors: &[Error], words: &[&str]) {
    for error in errors {
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::OutOfSight, "{text}");
        for word in words {
            assert!(text.contains(word), "{word:?} is not in: {text}");
        }
    }
}

/// A job that found no complete revision began anew, and its second checkpoint removed the remaining files.
#[test]
fn a_file_that_nobody_sees_stops_every_job_and_nothing_changes() {
    let job = job(3, 1);
    job.run(|rank, session, state| save(rank, session, state, &[1, 2, 3]));
    let (space, aside) = (job.directory.path().join("space"), job.directory.path().join("aside"));
    let whole = files(&space);
    for missing in 0..3 {
        let name = of_rank(&whole, missing);
        fs::rename(space.join(&name), &aside).unwrap();
        let before = files(&space);
        let said = SpaceSurvey::open(&space).unwrap().not_here().concat();
        assert!(said.ends_with(&format!("here has the portion of rank {missing}")), "{said}");
        let shard = format!("shard {missing} of it");
        let every = name.rsplit_once('-').unwrap().1;
        for ranks in [3, 2, 1, 4] {
            let words = ["revision 3", &shard, "layout-*-", every, space.to_str().unwrap(), "back", "away"];
            says(&refused(ranks, |_| space.clone()), &words);
            assert!(files(&space) == before, "{ranks} ranks without that of {missing}");
        }
        fs::rename(&aside, space.join(&name)).unwrap();
    }
    assert!(SpaceSurvey::open(&space).unwrap().not_here().is_empty());
    job.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap().unwrap().revision, 3);
        let mut saved = State::new();
        filled(&mut saved, rank, 3);
        assert_eq!(*state, saved);
        save(rank, session, state, &[4]);
    });
    assert_eq!(SpaceSurvey::open(&space).unwrap().newest().unwrap().key.number, 4);
}

/// The message offers this way: the user moves the files, and a job goes on without them.
#[test]
fn with_the_rest_moved_away_a_job_begins_anew() {
    let job = job(3, 1);
    job.run(|rank, session, state| save(rank, session, state, &[1]));
    let space = job.directory.path().join("space");
    fs::remove_file(space.join(of_rank(&files(&space), 0))).unwrap();
    says(&refused(3, |_| space.clone()), &["revision 1", "shard 0 of it"]);
    files(&space).keys().for_each(|name| fs::remove_file(space.join(name)).unwrap());
    job.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap(), None);
        save(rank, session, state, &[1]);
    });
}

/// Each rank is on a node of its own, and one node does not come back.
#[test]
fn a_node_that_is_away_stops_the_job() {
    let folder = TempDir::new().unwrap();
    let node = |node: usize| folder.path().join(format!("node{node}"));
    let work = |ranks: usize, on: &(dyn Fn(usize) -> usize + Sync), revision: Option<u64>| {
        run(ranks, |rank, group| {
            let mut session = Session::open(group, &node(on(rank)), per_rank(1)).unwrap();
            let mut state = State::new();
            state.protect(&mut session);
            assert_eq!(session.restore().unwrap().map(|restored| restored.revision), revision);
            save(rank, &mut session, &mut state, &[1]);
            session.close().unwrap();
        });
    };
    work(4, &|rank| rank, None);
    // Node 4 is new; nodes 1 and 2 are not there.
    let before = files(&node(0));
    says(&refused(3, |rank| node([0, 3, 4][rank])), &["revision 1", "shards 1 to 2 of it"]);
    says(&refused(1, |_| node(0)), &["revision 1", "shards 1 to 3 of it"]);
    assert!(files(&node(0)) == before && files(&node(4)).is_empty());
    work(4, &|rank| rank, Some(1));
}

/// A newer, whole revision comes back, even if older layouts lack files.
#[test]
fn an_older_layout_may_lack_files() {
    let mut job = job(1, 2);
    job.run(|rank, session, state| save(rank, session, state, &[1]));
    let space = job.directory.path().join("space");
    job.ranks = 2;
    // Begun without a restore, so the states of one rank need not fit those of two.
    job.run(|rank, session, state| save(rank, session, state, &[1]));
    job.ranks = 3;
    job.run(|rank, session, state| save(rank, session, state, &[1]));
    let second = files(&space).keys().find(|name| name.starts_with("layout-000002-000000")).unwrap().clone();
    fs::remove_file(space.join(second)).unwrap();
    job.run(|_, session, _| assert_eq!(session.restore().unwrap().unwrap().revision, 3));
}

/// A hold is in the file of the lowest rank of its layout. Another file of the layout may be out of sight for a while.
#[test]
fn what_is_held_stays_where_files_of_it_are_out_of_sight() {
    let mut job = job(3, 1);
    job.run(|rank, session, state| save(rank, session, state, &[1]));
    let space = job.directory.path().join("space");
    let held = SpaceSurvey::open(&space).unwrap().newest().unwrap().key;
    assert!(matches!(hold(&space, held, "a test", 0, Duration::ZERO).unwrap(), Holding::Counts(_)));
    let first = files(&space);
    job.ranks = 2;
    job.run(|rank, session, state| save(rank, session, state, &[1, 2]));
    let (name, aside) = (of_rank(&first, 2), job.directory.path().join("aside"));
    fs::rename(space.join(&name), &aside).unwrap();
    job.run(|rank, session, state| save(rank, session, state, &[3, 4]));
    fs::rename(&aside, space.join(&name)).unwrap();
    let survey = SpaceSurvey::open(&space).unwrap();
    assert_eq!(survey.newest().unwrap().key.number, 5);
    let revision = survey.complete(held).unwrap();
    assert!(revision.held && revision.verify(&|_| ()).unwrap() == Verified::Whole, "{revision:?}");
}

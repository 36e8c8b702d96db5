//! The list of revisions that a restore could choose, with their steps and notes.

use crate::support::{Job, bytes::Layout, filled, in_sessions};
use mainstay_engine::{Config, ErrorKind, ListedRevision};
use std::collections::BTreeMap;

fn config() -> Config {
    Config { keep: 3, pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

fn listed(revision: u64, rank: usize) -> ListedRevision {
    let notes = BTreeMap::from([("of".to_owned(), format!("{revision} on {rank}"))]);
    ListedRevision { revision, step: Some(10 * revision), notes }
}

/// Saves `revisions` revisions, each with a step and a note of each rank.
fn saved(ranks: usize, revisions: u64) -> Job {
    let job = Job::new(ranks, config());
    job.run(|rank, session, state| {
        for revision in 1..=revisions {
            filled(state, rank, revision);
            session.note("of", &format!("{revision} on {rank}")).unwrap();
            session.due(10 * revision).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
    job
}

#[test]
fn each_kept_revision_is_listed_and_can_be_chosen() {
    let job = saved(2, 4);
    job.run(|rank, session, state| {
        let expected: Vec<_> = [4, 3, 2].map(|revision| listed(revision, rank)).into();
        assert_eq!(session.revisions().unwrap()[..3], expected);
        // A list is no restore: a checkpoint would still push revisions of another job out.
        assert_eq!(session.checkpoint().unwrap_err().kind(), ErrorKind::NotRestored);
        assert_eq!(session.choose_revision(3).unwrap().unwrap().revision, 3);
        filled(state, rank, 9);
        session.note("of", &format!("5 on {rank}")).unwrap();
        session.due(50).unwrap();
        session.checkpoint().unwrap();
        assert_eq!(session.revisions().unwrap()[0], listed(5, rank));
    });
}

#[test]
fn another_number_of_ranks_gets_the_notes_of_rank_0() {
    let job = saved(3, 1);
    in_sessions(&job.directory.path().join("space"), 2, &config(), |_, session| {
        assert_eq!(session.revisions().unwrap(), [listed(1, 0)]);
        session.choose().unwrap();
    });
}

#[test]
fn a_new_space_has_an_empty_list() {
    Job::new(2, config()).run(|_, session, _| assert_eq!(session.revisions().unwrap(), []));
}

/// A revision whose description is damaged on one rank cannot be restored on any.
#[test]
fn a_revision_with_a_damaged_description_is_left_out() {
    let job = saved(2, 3);
    let mut layout = Layout::of(&job.directory.path().join("space"));
    layout.flip(layout.manifest_range(1, 3).start);
    layout.write();
    job.run(|rank, session, _| {
        let revisions = session.revisions().unwrap();
        assert_eq!(revisions, [2, 1].map(|revision| listed(revision, rank)));
        assert_eq!(session.choose().unwrap().unwrap().revision, 2);
    });
}

//! `rollback`: newer revisions are removed on all levels, all or none.

use crate::support::{RANKS, Space, field};
use mainstay_engine::{LevelPlace, MemoryAfter};

/// Complete revisions on any level, newest first.
fn complete(space: &Space) -> Vec<u64> {
    let document = space.mainstay(&["ls", "--json"]).json();
    let complete = document["revisions"].as_array().unwrap().iter().filter(|r| r["state"] != "incomplete");
    complete.map(|r| r["revision"].as_u64().unwrap()).collect()
}

fn goes_on_from(space: &Space, revision: u64) {
    space.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap().unwrap().revision, revision);
        assert!(state == field(rank, revision));
    });
}

#[test]
fn newer_revisions_go_and_the_next_start_goes_on_from_there() {
    let space = Space::with(3, 6);
    assert_eq!(complete(&space), [6, 5, 4, 3]);
    let dry = space.mainstay(&["rollback", "--revision", "4", "--dry-run", "--json"]);
    assert_eq!((dry.code, complete(&space).len()), (0, 4), "{dry:?}");
    let ran = space.mainstay(&["rollback", "--revision", "4", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(dry.json()["revisions"], ran.json()["revisions"]);
    assert_eq!(complete(&space), [4, 3]);
    assert_eq!(space.mainstay(&["verify"]).code, 0);
    let again = space.mainstay(&["rollback", "--revision", "4"]);
    assert!(again.code == 0 && again.out.contains("revision 4 is the newest, as before"), "{again:?}");
    goes_on_from(&space, 4);
}

#[test]
fn it_changes_nothing_where_it_is_refused() {
    let space = Space::with(3, 6);
    space.mainstay(&["rollback", "--revision", "1"]).refused(1, &["there is no revision 1", "6, 5, 4, 3"]);
    assert_eq!(space.mainstay(&["hold", "--revision", "5"]).code, 0);
    for more in [&[][..], &["--dry-run"]] {
        let words = [&["rollback", "--revision", "4"], more].concat();
        space.mainstay(&words).refused(4, &["newer revisions are held: 5", "mainstay release"]);
    }
    // A revision that is not newer may be held.
    assert_eq!(space.mainstay(&["rollback", "--revision", "5"]).code, 0);
    space.run(|rank, _, _| {
        if rank == RANKS - 1 {
            space.mainstay(&["rollback", "--revision", "4"]).refused(4, &["in use"]);
        }
    });
    assert_eq!(complete(&space), [5, 4, 3]);
}

/// The memory keeps 7 and 6, the space 6 and 4.
#[test]
fn newer_revisions_go_on_all_levels() {
    let mut space = Space::new(2);
    space.config.memory = LevelPlace::At(space.directory.path().join("memory"));
    (space.config.memory_keep, space.config.pfs_every) = (2, 2);
    space.config.memory_after = MemoryAfter::Kept;
    space.run(|rank, session, state| {
        for step in 1..=7 {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
    let before = complete(&space);
    assert!(before.starts_with(&[7, 6]) && before.contains(&4), "{before:?}");
    // A revision that is held in memory alone stays, whatever the command asks for.
    assert_eq!(space.mainstay(&["hold", "--revision", "7"]).code, 0);
    space.mainstay(&["rollback", "--revision", "4"]).refused(4, &["newer revisions are held: 7"]);
    assert_eq!(complete(&space), before);
    assert_eq!(space.mainstay(&["release", "--revision", "7"]).code, 0);
    let ran = space.mainstay(&["rollback", "--revision", "4"]);
    assert!(ran.code == 0 && ran.out.contains("memory:") && ran.out.contains("space:"), "{ran:?}");
    assert!(complete(&space).iter().all(|revision| *revision <= 4), "{:?}", complete(&space));
    goes_on_from(&space, 4);
}

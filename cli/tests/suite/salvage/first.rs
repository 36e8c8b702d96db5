//! Commands that complete staged data first, and pools that another process reads.

use super::{
    beside,
    killed::{
        PERS, complete, config, files, holds_what_was_staged, holds_what_was_staged_as, kill_job, killed, memory,
        pool_in,
    },
    salvage,
};
use crate::support::{RANKS, Space};
use mainstay_engine::Config;
use std::{fs, thread, time::Duration};
use tempfile::TempDir;

#[test]
fn a_prune_completes_first_what_was_staged() {
    let pools = memory();
    let space = killed(&pools);
    let path = space.path();
    let prune =
        |more: &[&str]| beside(&pools, &[&["prune", path.to_str().unwrap(), "--keep-last", "1"], more].concat());
    assert!(prune(&["--dry-run"]).out.ends_with("0 would go; nothing was changed\n"));
    assert_eq!((complete(&space), files(&pools).len()), (vec![1], 1 + RANKS));
    let ran = prune(&[]);
    assert!(ran.code == 0 && ran.out.ends_with("1 went\n"), "{ran:?}");
    assert_eq!((complete(&space), files(&pools).len()), (vec![2], 0));
    holds_what_was_staged(&space);
}

/// If the command saw only another node's memory, it would end the claim of the staged revision.
#[test]
fn a_prune_leaves_what_may_wait_where_it_does_not_see() {
    for per in PERS {
        let (pools, elsewhere) = (memory(), memory());
        let space = Space { config: Config { keep: 3, per, ..config(pools.path()) }, ..Space::new(3) };
        space.run(|_, session, _| {
            for _ in 0..3 {
                session.checkpoint().unwrap();
            }
            session.wait().unwrap();
        });
        kill_job(&space, &pools, "staged");
        let before = complete(&space);
        let path = space.path();
        let prune = |pools: &TempDir, more: &[&str]| {
            beside(pools, &[&["prune", path.to_str().unwrap(), "--keep-last", "1"], more].concat())
        };
        let says = ["did not end normally", "staged by ranks 0 to 2", "mainstay salvage", "--give-up-staged"];
        let dry = prune(&elsewhere, &["--dry-run"]);
        assert!(dry.code == 0 && says.iter().all(|says| dry.err.contains(says)), "{dry:?}");
        prune(&elsewhere, &[]).refused(4, &says);
        assert_eq!(complete(&space), before);
        let ran = prune(&pools, &[]);
        assert_eq!((ran.code, complete(&space)), (0, vec![before[0] + 1]), "{ran:?}");
        holds_what_was_staged_as(&space, before[0] + 1);

        // The job was killed during computation. Later it leaves a staged revision, which is given up.
        kill_job(&space, &pools, "saved");
        assert_eq!(prune(&pools, &[]).code, 0);
        kill_job(&space, &pools, "staged");
        let newest = complete(&space)[0];
        assert_eq!(prune(&elsewhere, &["--give-up-staged"]).code, 0);
        assert_eq!(complete(&space), [newest]);
        salvage(&pools, &["--clean"]);
    }
}

/// The command was refused on every node, as each node sees only its own memory. Its message named an option that it
/// did not have.
#[test]
fn a_rollback_gives_up_what_may_wait_where_it_does_not_see() {
    let (pools, elsewhere) = (memory(), memory());
    let space = Space { config: Config { keep: 3, ..config(pools.path()) }, ..Space::new(3) };
    space.run(|_, session, _| {
        for _ in 0..2 {
            session.checkpoint().unwrap();
        }
        session.wait().unwrap();
    });
    kill_job(&space, &pools, "staged");
    let (before, path) = (complete(&space), space.path());
    let newest = before[0].to_string();
    let rollback = |more: &[&str]| {
        beside(&elsewhere, &[&["rollback", path.to_str().unwrap(), "--revision", &newest], more].concat())
    };
    let says = ["did not end normally", "staged by ranks 0 to 2", "--give-up-staged"];
    let dry = rollback(&["--dry-run"]);
    assert!(dry.code == 0 && says.iter().all(|says| dry.err.contains(says)), "{dry:?}");
    rollback(&[]).refused(4, &says);
    let ran = rollback(&["--give-up-staged"]);
    assert_eq!((ran.code, complete(&space)), (0, before.clone()), "{ran:?}");
    // The staged revision is newer, and does not come back.
    let ran = beside(&pools, &["salvage", path.to_str().unwrap()]);
    assert!(ran.code == 1 && ran.out.contains("lost"), "{ran:?}");
    assert_eq!(complete(&space), before);
    assert_eq!(rollback(&[]).code, 0);
}

/// With a single node, a salvage or a rollback of another level removed the pool. After that, its contents counted as
/// unseen forever. The refusal named `salvage`, which changed nothing.
#[test]
fn a_rollback_after_a_kill_needs_nothing_but_the_node_of_the_job() {
    for when in ["saved", "levels"] {
        for is_salvaged in [true, false] {
            let pools = memory();
            let space = Space { config: Config { keep: 3, ..config(pools.path()) }, ..Space::new(3) };
            kill_job(&space, &pools, "saved");
            kill_job(&space, &pools, when);
            if is_salvaged {
                assert_eq!(salvage(&pools, &[space.path().to_str().unwrap()]).code, 0);
            }
            let (path, back) = (space.path(), complete(&space)[1].to_string());
            let rollback = |more: &[&str]| {
                beside(&pools, &[&["rollback", path.to_str().unwrap(), "--revision", &back], more].concat())
            };
            let dry = rollback(&["--dry-run"]);
            assert!(dry.code == 0 && dry.err.is_empty(), "{when} {is_salvaged}: {dry:?}");
            assert_eq!(rollback(&[]).code, 0, "{when} {is_salvaged}");
            assert_eq!(complete(&space)[0].to_string(), back);
        }
    }
}

#[test]
fn a_hold_completes_first_what_was_staged() {
    let pools = memory();
    let space = killed(&pools);
    let ran = beside(&pools, &["hold", space.path().to_str().unwrap()]);
    assert!(ran.code == 0 && ran.out.starts_with("revision 2 "), "{ran:?}");
    assert_eq!((complete(&space), files(&pools).len()), (vec![2, 1], 0));
    holds_what_was_staged(&space);
}

/// Holds the pool's file as a process does that checks its owner, until the file is dropped.
fn looks_at_it(pools: &TempDir) -> fs::File {
    let pool = fs::File::options().read(true).write(true).open(pool_in(pools)).unwrap();
    let lock = nix::libc::flock {
        l_type: nix::libc::F_WRLCK as _,
        l_whence: nix::libc::SEEK_SET as _,
        // Beyond the bytes of all members.
        l_start: 1 << 32,
        l_len: 1,
        l_pid: 0,
    };
    nix::fcntl::fcntl(&pool, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    pool
}

#[test]
fn a_pool_that_another_start_looks_at_is_waited_for() {
    for command in [&["salvage"][..], &["prune", "--keep-last", "1"]] {
        let pools = memory();
        let space = killed(&pools);
        let looks = looks_at_it(&pools);
        let ends = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            drop(looks);
        });
        let path = space.path();
        let ran = beside(&pools, &[command, &[path.to_str().unwrap()]].concat());
        ends.join().unwrap();
        assert_eq!((ran.code, complete(&space)[0]), (0, 2), "{ran:?}");
        assert!(files(&pools).is_empty());
    }
}

/// The command reports each pool that it skips. It prunes no revision that could be completed later.
#[test]
fn a_pool_that_stays_taken_is_told() {
    let pools = memory();
    let space = killed(&pools);
    let _looks = looks_at_it(&pools);
    let path = space.path();
    let ran = salvage(&pools, &[path.to_str().unwrap()]);
    assert!(ran.code == 4 && ran.out.contains("a process is in its pool still"), "{ran:?}");
    let ran = beside(&pools, &["prune", "--keep-last", "1", path.to_str().unwrap()]);
    assert!(ran.code == 4 && ran.err.contains("a process is in its pool still"), "{ran:?}");
    assert_eq!(complete(&space), [1]);
}

//! Records and pools that dead processes left behind.

use super::{
    super::{RankRecord, SealedTarget, list, record_layout::CONTROL_AT, remove, staged::StagedShards},
    peer::Peer,
    recording::{plan, sealed, stage},
    *,
};
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    sync::atomic::Ordering,
};

#[test]
fn survivors_find_the_shard_of_a_killed_member() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let mut other = Peer::start("record", &pool);
    other.tell("seal");
    other.hear();
    assert!(pool.dead().is_empty());
    other.kill();
    assert_eq!(pool.dead(), [1]);
    let found = pool.sealed(1).pop().unwrap();
    assert_eq!((&found.plan, found.segments[1].is_done(0)), (&plan(), true));
    assert_eq!(found.chunk_of(pool.contents(), 0).unwrap().unwrap()[..], [9; CHUNK as usize]);
    assert!(pool.free_of(1, 0));
    assert!(pool.dead().is_empty() && found.chunk_of(pool.contents(), 0).unwrap().is_none());
    assert_eq!(files(directory.path()).len(), 1);
    assert_eq!(take_all(&pool).len(), 3);
}

/// As on a full disk: the chunks are freed for the survivors, and no error was reported.
#[test]
fn what_survivors_could_not_complete_is_told() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let mut other = Peer::start("record", &pool);
    other.tell("seal");
    other.hear();
    other.kill();
    assert!(pool.free_of(1, 1));
    let id = pool.id();
    drop(pool);
    let StagedShards { sealed, lost } = Pool::open_dead(directory.path(), id).unwrap().unwrap().staged().unwrap();
    assert_eq!((sealed.len(), lost.len()), (0, 1));
    assert!(lost[0].to_string().starts_with("revision 8, "), "{}", lost[0]);
}

#[test]
fn a_sealed_record_is_looked_for_after_another_of_its_member_was_published() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let mut records = [0, 1].map(|rank| RankRecord::create(&pool, rank).unwrap());
    let [first, _second] = records.each_mut().map(|record| {
        let shard = stage(record, &take(&pool));
        shard.seal(&plan()).unwrap();
        shard
    });
    first.clear();
    assert!(sealed(&pool, 0).is_none() && sealed(&pool, 1).is_some());
    assert_eq!(pool.shared.member_entry().sealed.load(Ordering::SeqCst), 1);
}

#[test]
fn a_record_goes_with_its_own_member_only() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let mut record = RankRecord::create(&pool, 0).unwrap();
    stage(&mut record, &take(&pool)).seal(&plan()).unwrap();
    // A member that died could have written this.
    pool.shared.member_entries()[1].sealed.store(1, Ordering::SeqCst);
    assert_eq!((pool.dead(), pool.sealed(1).len()), (vec![1], 0));
    assert!(pool.free_of(1, 0));
    assert!(pool.dead().is_empty() && sealed(&pool, 0).is_some());
}

#[test]
fn what_the_last_leaves_sealed_is_found_and_then_removed() {
    for is_sealed in [true, false] {
        let directory = memory();
        let pool = pool(&directory, 2, 3);
        let id = pool.id();
        let mut other = Peer::start("record", &pool);
        other.tell(if is_sealed { "seal" } else { "leave it" });
        other.hear();
        assert!(Pool::open_dead(directory.path(), id).unwrap().is_none(), "members are in it");
        assert!(!remove(directory.path(), id).unwrap());
        other.kill();
        assert!(Pool::open_dead(directory.path(), id).unwrap().is_none(), "one member is in it");
        drop(pool);
        if !is_sealed {
            assert_eq!(files(directory.path()), [""; 0]);
            continue;
        }
        let found = list(directory.path()).unwrap();
        assert_eq!((found.len(), found[0].id, found[0].has_pool, &found[0].records[..]), (1, id, true, &[1][..]));
        let dead = Pool::open_dead(directory.path(), id).unwrap().unwrap();
        assert!(Pool::open_dead(directory.path(), id).unwrap().is_none(), "one salvager at a time");
        assert!(!remove(directory.path(), id).unwrap());
        let shards = dead.staged().unwrap().sealed;
        assert_eq!((shards.len(), shards[0].rank), (1, 1));
        assert_eq!(shards[0].chunk_of(dead.contents(), 0).unwrap().unwrap()[..], [9; CHUNK as usize]);
        dead.remove().unwrap();
        assert_eq!(files(directory.path()), [""; 0]);
        assert!(Pool::open_dead(directory.path(), id).unwrap().is_none());
        assert!(remove(directory.path(), id).unwrap(), "nothing left is nothing to do");
    }
}

/// A record is damaged, gone, or could have been made by another user: the pool still knows that a shard was staged.
#[test]
fn a_record_that_cannot_be_read_is_missed() {
    let flip = |path: &Path| {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let (at, mut byte) = (CONTROL_AT as u64 + 40, [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
    };
    let cut = |path: &Path| OpenOptions::new().write(true).open(path).unwrap().set_len(100).unwrap();
    let link = |path: &Path| {
        fs::rename(path, path.with_extension("away")).unwrap();
        std::os::unix::fs::symlink(path.with_extension("away"), path).unwrap();
    };
    type Harm<'a> = &'a dyn Fn(&Path);
    let harms: [(Harm<'_>, Option<&str>); 6] = [
        (&|_| (), None),
        (&flip, Some("its seal does not match")),
        (&cut, Some("it is cut short")),
        (&|path| fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap(), Some("its mode is 644")),
        (&link, Some("it is a symbolic link")),
        (&|path| fs::remove_file(path).unwrap(), Some("is gone")),
    ];
    for (harm, says) in harms {
        for (is_sealed, is_survived) in [(true, false), (true, true), (false, false)] {
            let directory = memory();
            let pool = pool(&directory, 2, 3);
            let mut other = Peer::start("record", &pool);
            other.tell(if is_sealed { "seal" } else { "leave it" });
            other.hear();
            other.kill();
            harm(&super::super::file::path_of(directory.path(), pool.id(), Some(1)));
            if is_survived {
                assert!(pool.free_of(1, 0));
            }
            let id = pool.id();
            drop(pool);
            let Some(dead) = Pool::open_dead(directory.path(), id).unwrap() else {
                assert!(!is_sealed || (is_survived && says.is_none()), "{says:?}");
                continue;
            };
            let StagedShards { sealed, lost } = dead.staged().unwrap();
            let messages: Vec<String> = lost.iter().map(ToString::to_string).collect();
            assert_eq!((sealed.len(), messages.len()), if says.is_none() { (1, 0) } else { (0, 1) }, "{messages:?}");
            assert!(
                says.is_none_or(|says| messages[0].starts_with("revision 8, ") && messages[0].contains(says)),
                "{messages:?}"
            );
            let plan = plan();
            let spaces: Vec<&Path> = plan.targets.iter().map(SealedTarget::space).collect();
            assert_eq!(dead.spaces().unwrap().spaces().map(|(space, _)| space).collect::<Vec<_>>(), spaces);
        }
    }
}

#[test]
fn records_without_a_pool_and_damaged_pools_are_removed_too() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let id = pool.id();
    let mut other = Peer::start("record", &pool);
    other.tell("seal");
    other.hear();
    other.kill();
    drop(pool);
    let path = super::super::file::path_of(directory.path(), id, None);
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0xff; 64], 0).unwrap();
    assert!(Pool::open_dead(directory.path(), id).is_err());
    fs::write(directory.path().join("mainstay-pool-0123456789abcdef0123456789abcdef.4"), "").unwrap();
    fs::write(directory.path().join("mainstay-pool-0123456789abcdef0123456789abcdeF.4"), "not ours").unwrap();
    let found = list(directory.path()).unwrap();
    assert_eq!(found.iter().filter(|found| !found.has_pool).count(), 1);
    for found in found {
        assert!(remove(directory.path(), found.id).unwrap());
    }
    assert_eq!(files(directory.path()).len(), 1);
}

#[test]
fn pools_that_are_made_while_others_clean_up_are_not_cleaned_up() {
    let directory = memory();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let pool = pool(&directory, 2, 3);
                    let joined = Pool::join(directory.path(), pool.id(), 1).unwrap();
                    assert!(joined.is_alive(0) && joined.is_alive(1));
                }
            });
        }
    });
    assert_eq!(files(directory.path()), [""; 0]);
}

/// A record that could not be opened for lack of descriptors counted as none, and its shard's chunks were freed.
#[test]
fn a_shard_that_a_process_without_descriptors_cannot_look_for_is_not_missed() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let mut other = Peer::start("descriptors", &pool);
    let heard: Vec<String> = (0..3).map(|_| other.hear()).collect();
    other.end();
    assert!(heard.contains(&"refused".to_owned()) && !heard.contains(&"0".to_owned()), "{heard:?}");
}

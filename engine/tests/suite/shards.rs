//! Reading, after a restore, what other ranks have saved.

use crate::support::in_sessions;
use mainstay_engine::{Config, ErrorKind, Session, ShardsHere};
use std::{fs, path::Path};
use tempfile::TempDir;

fn job(space: &Path, ranks: usize, work: impl Fn(usize, &mut Session) + Sync) {
    let config = Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() };
    in_sessions(space, ranks, &config, work);
}

fn content(rank: usize) -> Vec<u8> {
    let byte = |at: usize| ((at + 1_000_003 * (rank + 1)) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[1];
    (0..10_000 + 500 * rank).map(byte).collect()
}

fn save(space: &Path, ranks: usize) {
    job(space, ranks, |rank, session| {
        let bytes = content(rank);
        session.begin(bytes.len() as u64).unwrap();
        session.write("own", 0, &bytes).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
}

fn kind<T: std::fmt::Debug>(came: mainstay_engine::Result<T>) -> ErrorKind {
    came.unwrap_err().kind()
}

#[test]
fn other_numbers_of_ranks_read_all_shards_that_they_see() {
    let folder = TempDir::new().unwrap();
    save(folder.path(), 3);
    for ranks in [1, 2, 4] {
        job(folder.path(), ranks, |rank, session| {
            assert_eq!(session.shards().unwrap(), ShardsHere::default());
            assert_eq!(kind(session.read_shard(0, "own", 0, &mut [0])), ErrorKind::InvalidArgument);
            session.restore().unwrap().unwrap();
            assert_eq!(session.shards().unwrap(), ShardsHere { count: 3, here: vec![0, 1, 2] });
            for shard in [2, 0, 1, 2] {
                let expected = content(shard);
                assert_eq!(session.shard_item_bytes(shard as u32, "own").unwrap(), expected.len() as u64);
                let mut into = vec![0; 5000];
                assert_eq!(
                    session.read_shard(shard as u32, "own", 6000, &mut into).unwrap(),
                    expected.len().min(11_000) - 6000
                );
                assert!(into.starts_with(&expected[6000..expected.len().min(11_000)]), "{rank} {shard}");
            }
            assert_eq!(kind(session.read_shard(3, "own", 0, &mut [0])), ErrorKind::InvalidArgument);
            assert_eq!(kind(session.read_shard(1, "other", 0, &mut [0])), ErrorKind::InvalidArgument);
            if ranks == 4 {
                // Its blocks may go from here on.
                session.begin(1).unwrap();
                assert_eq!(session.shards().unwrap(), ShardsHere::default());
                assert_eq!(kind(session.read_shard(0, "own", 0, &mut [0])), ErrorKind::InvalidArgument);
                session.abandon().unwrap();
            }
        });
    }
}

#[test]
fn as_many_ranks_read_their_own() {
    let folder = TempDir::new().unwrap();
    save(folder.path(), 2);
    job(folder.path(), 2, |rank, session| {
        session.restore().unwrap().unwrap();
        assert_eq!(session.shards().unwrap(), ShardsHere { count: 2, here: vec![rank as u32] });
        let mut into = vec![0; content(rank).len()];
        session.read_shard(rank as u32, "own", 0, &mut into).unwrap();
        assert_eq!(into, content(rank));
    });
}

#[test]
fn no_damaged_byte_is_handed_out() {
    let folder = TempDir::new().unwrap();
    save(folder.path(), 3);
    let pattern = &content(1)[4096..4596];
    let mut changed = 0;
    for file in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let mut bytes = fs::read(&file).unwrap();
        if let Some(at) = bytes.windows(pattern.len()).position(|window| window == pattern) {
            bytes[at] ^= 1;
            fs::write(&file, bytes).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    job(folder.path(), 2, |_, session| {
        session.restore().unwrap().unwrap();
        let mut into = vec![0; 10_000];
        assert_eq!(kind(session.read_shard(1, "own", 0, &mut into)), ErrorKind::Damaged);
        assert_eq!(session.read_shard(2, "own", 0, &mut into).unwrap(), 10_000);
    });
}

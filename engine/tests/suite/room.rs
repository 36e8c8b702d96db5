//! If the pool has room for the data of all ranks and one more chunk for each, no rank waits for a write.

use crate::support::{between::Watched, gate::Gate, in_sessions_on};
use mainstay_engine::{
    Config, Region,
    device::{Device, Disk},
};
use std::sync::Arc;
use tempfile::TempDir;

const RANKS: usize = 8;

/// The pool had chunks of a ninth of its size, with one for each rank and one more. These shards had no room then.
#[test]
fn ranks_of_different_sizes_wait_for_no_write() {
    let shard = |rank: usize| if rank.is_multiple_of(2) { 640 << 10 } else { 160 << 10 };
    let config = Config { pool_bytes: Some(4 << 20), ..Config::default() };
    let shards: usize = (0..RANKS).map(shard).sum();
    assert!(shards as u64 * 5 / 4 <= config.pool_bytes.unwrap());
    let folder = TempDir::new().unwrap();
    let disk = Watched::new(Disk::make(folder.path()).unwrap(), Gate::new(RANKS));
    let device: Arc<dyn Device> = Arc::new(disk.clone());
    in_sessions_on(&device, RANKS, &config, |rank, session| {
        let mut field = vec![rank as u8; shard(rank)];
        // SAFETY: unprotected before it is freed.
        #[allow(unsafe_code)]
        let region = unsafe { Region::new("field", field.as_mut_ptr(), field.len() as u64) };
        session.protect(region.unwrap()).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        // All ranks have waited, and none passes the agreement of the next line before all are here.
        disk.between.shut();
        assert_eq!(session.checkpoint().unwrap(), 2);
        disk.between.come();
        session.wait().unwrap();
        session.unprotect("field").unwrap();
    });
    disk.between.nobody_waited();
}

//! Where the pool has room for what all ranks save and a chunk more for each, no rank waits for a write.

use crate::support::{
    between::{Between, Watched},
    in_sessions_on,
};
use mainstay_engine::{
    Config, Region,
    device::{Device, Disk, File},
};
use std::{
    io,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};
use tempfile::TempDir;

const RANKS: usize = 8;

/// Holds writes back until so many ranks have come; after `LONGEST` it lets them go anyway, and tells.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shut: bool,
    come: usize,
    forced: bool,
}

impl Gate {
    fn shut(&self) {
        self.state.lock().unwrap().shut = true;
    }

    fn come(&self) {
        let mut state = self.state.lock().unwrap();
        state.come += 1;
        if state.come == RANKS {
            state.shut = false;
            self.opened.notify_all();
        }
    }
}

impl Between for Gate {
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        const LONGEST: Duration = Duration::from_secs(60);
        let state = self.state.lock().unwrap();
        let (mut state, waited) = self.opened.wait_timeout_while(state, LONGEST, |state| state.shut).unwrap();
        if waited.timed_out() {
            (state.shut, state.forced) = (false, true);
            self.opened.notify_all();
        }
        drop(state);
        file.write_at(bytes, offset)
    }
}

/// In chunks of a ninth of the pool, of which there must be one for each rank and one more, these have no room.
#[test]
fn ranks_of_different_sizes_wait_for_no_write() {
    let shard = |rank: usize| if rank.is_multiple_of(2) { 640 << 10 } else { 160 << 10 };
    let config = Config { pool_bytes: Some(4 << 20), ..Config::default() };
    let shards: usize = (0..RANKS).map(shard).sum();
    assert!(shards as u64 * 5 / 4 <= config.pool_bytes.unwrap());
    let folder = TempDir::new().unwrap();
    let disk = Watched::new(Disk::make(folder.path()).unwrap(), Gate::default());
    let device: Arc<dyn Device> = Arc::new(disk.clone());
    in_sessions_on(&device, RANKS, &config, |rank, session| {
        let mut field = vec![rank as u8; shard(rank)];
        // SAFETY: unprotected before it goes.
        #[allow(unsafe_code)]
        let region = unsafe { Region::new("field", field.as_mut_ptr(), field.len() as u64) };
        session.protect(region.unwrap()).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        // All have waited, and none goes past the next line's agreement before all are here.
        disk.between.shut();
        assert_eq!(session.checkpoint().unwrap(), 2);
        disk.between.come();
        session.wait().unwrap();
        session.unprotect("field").unwrap();
    });
    let state = disk.between.state.lock().unwrap();
    assert_eq!((state.come, state.forced), (RANKS, false), "somebody waited for a write");
}

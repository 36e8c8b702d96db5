//! Waiting for processes that are still in a dead pool for a moment. The processes of a killed job end one by one, and
//! starts of other jobs check whether the pool is theirs.

use crate::{
    error::Result,
    ground::{Instant, sleep},
    pool::{Dead, Pool},
};
use std::{path::Path, time::Duration};

const POOL_GRACE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);
/// Why a shard was not completed although no job has its space open.
pub(crate) const IN_POOL: &str = "a process is in its pool still";

/// Like `Pool::open_dead`, but waits for other processes in the pool while `is_wanted`.
pub(crate) fn open_dead(directory: &Path, id: [u8; 16], mut is_wanted: impl FnMut() -> bool) -> Result<Option<Dead>> {
    let deadline = Instant::now() + POOL_GRACE;
    loop {
        let opened = Pool::open_dead(directory, id);
        if !matches!(opened, Ok(None)) || Instant::now() >= deadline || !is_wanted() {
            return opened;
        }
        sleep(POLL);
    }
}

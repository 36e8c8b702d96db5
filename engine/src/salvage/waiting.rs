//! Waiting for those who are in a dead pool, or at it, for a moment still: of a job that was killed the
//! processes go one by one, and starts of other jobs look whether the pool is theirs.

use crate::{
    error::Result,
    ground::{Instant, sleep},
    pool::{Dead, Pool},
};
use std::{path::Path, time::Duration};

const POOL_GRACE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);
/// Why a shard was not completed although nobody has its space.
pub(crate) const IN_POOL: &str = "a process is in its pool still";

/// As `Pool::open_dead`, and waits for the others while `is_wanted`.
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

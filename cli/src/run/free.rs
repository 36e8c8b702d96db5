//! Waits until the ranks of a failed job have released its spaces.

use super::spaces;
use crate::exit::say;
use crate::signals::Signals;
use mainstay_engine::printable_path;
use nix::sys::signal::Signal;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// How long the ranks of a failed job may take to disappear.
pub const GONE_LIMIT: Duration = Duration::from_secs(30);
const GONE_POLL: Duration = Duration::from_millis(100);

pub enum Free {
    Yes,
    No(PathBuf),
    Asked(Signal),
}

/// Waits until the spaces are unlocked: ranks may outlive their mpiexec for a while.
pub fn wait_until_free(spaces: &[PathBuf], signals: &mut Signals) -> Free {
    let deadline = Instant::now() + GONE_LIMIT;
    let mut told = false;
    loop {
        if let Some(signal) = signals.asked_to_end() {
            return Free::Asked(signal);
        }
        let Some(space) = spaces.iter().find(|space| spaces::is_in_use(space)) else { return Free::Yes };
        if Instant::now() > deadline {
            return Free::No(space.clone());
        }
        if !told {
            say(&format!("waiting for the last ranks to leave {}", printable_path(space)));
            told = true;
        }
        std::thread::sleep(GONE_POLL);
    }
}

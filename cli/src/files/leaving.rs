//! Waits for processes that the program has left behind with a file open.

use crate::{
    exit::say,
    signals::{Signals, asks_to_end},
};
use mainstay_files::Member;
use std::{
    io,
    time::{Duration, Instant},
};

/// Time before a line: most processes left behind end sooner.
const SAY_AFTER: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);

/// Waits until processes of the program have closed their files. Returns the files that are still open if a signal ends
/// the wait.
pub fn wait(member: &Member) -> io::Result<Vec<String>> {
    let began = Instant::now();
    let mut is_said = false;
    let mut open = member.open_files()?;
    if open.is_empty() {
        return Ok(open);
    }
    let mut signals = Signals::catch()?;
    while !open.is_empty() && !signals.wait(Some(LOOK)).iter().any(|caught| asks_to_end(caught.signal)) {
        if !is_said && began.elapsed() > SAY_AFTER {
            open.iter().for_each(|line| say(&format!("{line}; `mainstay files` waits until it is closed")));
            is_said = true;
        }
        open = member.open_files()?;
    }
    open.iter().for_each(|line| say(&format!("{line}; it gets its name once it is closed")));
    Ok(open)
}

//! How often a session looks for what was written: so seldom that the program loses at most a twentieth of its time by it.

use crate::ground::Instant;
use std::time::Duration;

const SHARE: u32 = 20;
/// Nobody notices as much.
const FREE: Duration = Duration::from_millis(50);
/// What the first write to a page costs the program after a look.
const PAGE: Duration = Duration::from_nanos(1000);

#[derive(Debug)]
pub(super) struct Budget {
    begun: Instant,
    spent: Duration,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget { begun: Instant::now(), spent: Duration::ZERO }
    }

    pub(super) fn has_left(&self) -> bool {
        self.spent <= self.begun.elapsed() / SHARE + FREE
    }

    /// A look took so long, and found so many pages written.
    pub(super) fn looked(&mut self, took: Duration, pages: usize) {
        self.spent += took + PAGE * u32::try_from(pages).unwrap_or(u32::MAX);
    }
}

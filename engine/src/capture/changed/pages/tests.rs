//! Each way in which a program can change its memory or its mappings, on the kernel that runs the test.

mod cost;
mod refused;
mod remapped;
mod written;

use super::PageTracker;
use crate::capture::tests::memory::{PAGE, TestPages};
use std::ops::Range;

fn tracker() -> PageTracker {
    PageTracker::new().expect("this machine tracks pages")
}

/// A tracker that knows all of `memory`.
fn knowing(memory: &TestPages) -> PageTracker {
    let mut tracker = tracker();
    tracker.watch(memory.range()).unwrap();
    assert_eq!(written_pages(&mut tracker, memory), memory.all());
    tracker
}

/// The reported pages of `memory`.
fn written_pages(tracker: &mut PageTracker, memory: &TestPages) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    tracker.written(memory.range(), &mut out).unwrap();
    let page = |address: usize| (address - memory.range().start) / PAGE;
    out.into_iter().map(|range| page(range.start)..page(range.end)).collect()
}

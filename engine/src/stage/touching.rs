//! Preparing the memory of portions, and its pages, before their use, while the program does other work: a copy into
//! memory that was never touched takes eight times as long.

use crate::{
    ground::{Thread, receive, spawn},
    space::Portion,
};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Bytes touched before the thread checks whether its session has ended.
const PART_BYTES: usize = 4 << 20;
/// The pages that are touched first: those that are used next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TouchOrder {
    /// Nothing has been saved there yet.
    BeginningFirst,
    /// The first revision has touched the pages at the beginning.
    EndFirst,
}

/// A thread that maps the portions that it gets, and touches them, from the first use on.
#[derive(Debug, Default)]
pub(crate) struct Touching {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    queue: Sender<(Portion, Option<TouchOrder>)>,
    thread: Thread<()>,
    over: Arc<AtomicBool>,
}

impl Touching {
    /// Maps `portions` in memory, which allocates their memory if they have none yet, then touches them in this order.
    /// If no thread can be started, or a portion cannot be mapped, the first use deals with it.
    pub(crate) fn begin(&mut self, portions: &[Portion], order: TouchOrder) {
        if self.running.is_none() {
            self.running = Running::start();
        }
        let Some(running) = &self.running else { return };
        // Release the threads that wait for memory before any page is touched.
        for portion in portions {
            portion.await_mapping();
            let _ = running.queue.send((portion.clone(), None));
        }
        for portion in portions {
            let _ = running.queue.send((portion.clone(), Some(order)));
        }
    }
}

impl Running {
    fn start() -> Option<Running> {
        let ((queue, work), over) = (unbounded(), Arc::new(AtomicBool::new(false)));
        let is_over = over.clone();
        let thread = spawn("mainstay-touch".to_owned(), move || run(&work, &is_over)).ok()?;
        Some(Running { queue, thread, over })
    }
}

impl Drop for Touching {
    /// Ends the thread: the memory that it touches would outlive the session.
    fn drop(&mut self) {
        if let Some(Running { queue, thread, over }) = self.running.take() {
            over.store(true, Ordering::Release);
            drop(queue);
            let _ = thread.join();
        }
    }
}

fn run(work: &Receiver<(Portion, Option<TouchOrder>)>, is_over: &AtomicBool) {
    while let Some((portion, order)) = receive(work) {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        let (Ok(mapped), Some(order)) = (portion.map_all(), order) else { continue };
        let bytes = mapped.as_ref().len();
        let mut parts: Vec<usize> = (0..bytes).step_by(PART_BYTES).collect();
        if order == TouchOrder::EndFirst {
            parts.reverse();
        }
        for from in parts {
            if is_over.load(Ordering::Acquire) {
                return;
            }
            mapped.part(from as u64, PART_BYTES.min(bytes - from) as u64).touch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commit::Ledger,
        device::{Allocate, Disk, Stripes},
        ground::pause,
        space::{Arrangement, Making, create_layout, format::Lineage},
    };

    /// The only wait is for the thread, which ends.
    #[test]
    fn portions_that_were_made_for_later_get_their_memory() {
        const BLOCKS: u64 = 600;
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let device = Disk::existing(directory.path());
        let blocks = vec![BLOCKS; 2];
        let arrangement =
            Arrangement { layout_id: [1; 16], layout_number: 1, stripe_bytes: 0, is_sized: false, blocks };
        let making =
            Making { allocate: Allocate::Blocks, stripes: Stripes::default(), when_mapped: true, progress: &|_| () };
        let first = |rank| Ledger::first_slot([1; 16], rank, Lineage { number: 1, id: [2; 16] });
        let layout = create_layout(&device, arrangement.header(&[0, 1], true), &making, first).unwrap();
        let portions: Vec<Portion> = layout.portions().collect();
        assert!(!portions[0].is_mapping_awaited());
        portions[1].await_mapping();
        assert!(portions[0].is_mapping_awaited(), "they share a file");
        let has = || layout.file.allocated_bytes().unwrap();
        let all = layout.file.bytes().unwrap();
        assert!(has() < all / 2, "{} of {all} bytes", has());
        let mut touching = Touching::default();
        touching.begin(&portions, TouchOrder::BeginningFirst);
        let mut tries = 0;
        while portions.iter().any(Portion::is_mapping_awaited) {
            tries += 1;
            pause(tries);
        }
        assert!(has() >= all, "{} of {all} bytes", has());
    }
}

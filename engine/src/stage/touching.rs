//! Having the pages of portions in memory at hand before they are used, while the program does something else: a copy into
//! memory that was never touched takes eight times as long.

use crate::{
    device::Mapped,
    ground::{Instant, spawn},
};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// So much is touched before the thread looks whether its session has ended.
const PART_BYTES: usize = 4 << 20;
/// What making large pages of so much may take. The kernel waits for all processors meanwhile: where others use them, that
/// takes a hundred times as long as touching the small ones, and holds up whoever needs memory.
const COLLAPSE_MAX: Duration = Duration::from_millis(8);

/// Which pages are touched first: those that are used next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TouchOrder {
    /// Nothing has been saved there yet.
    BeginningFirst,
    /// What lies at the beginning was met by the first revision.
    EndFirst,
}

/// A thread that touches what it is given, from the first time on.
#[derive(Debug, Default)]
pub(crate) struct Touching {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    queue: Sender<(Mapped, TouchOrder)>,
    thread: JoinHandle<()>,
    over: Arc<AtomicBool>,
}

impl Touching {
    /// Has `mapped` touched in this order. If no thread can be started, its pages are met when they are used.
    pub(crate) fn begin(&mut self, mapped: Mapped, order: TouchOrder) {
        if self.running.is_none() {
            self.running = Running::start();
        }
        if let Some(running) = &self.running {
            let _ = running.queue.send((mapped, order));
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
    /// Ends the thread: what it touches would outlive the session.
    fn drop(&mut self) {
        if let Some(Running { queue, thread, over }) = self.running.take() {
            over.store(true, Ordering::Release);
            drop(queue);
            let _ = thread.join();
        }
    }
}

fn run(work: &Receiver<(Mapped, TouchOrder)>, is_over: &AtomicBool) {
    let mut collapses = true;
    for (mapped, order) in work {
        let bytes = mapped.as_ref().len();
        let mut parts: Vec<usize> = (0..bytes).step_by(PART_BYTES).collect();
        if order == TouchOrder::EndFirst {
            parts.reverse();
        }
        for from in parts {
            if is_over.load(Ordering::Acquire) {
                return;
            }
            let part = mapped.part(from as u64, PART_BYTES.min(bytes - from) as u64);
            if collapses {
                let begun = Instant::now();
                part.collapse();
                collapses = begun.elapsed() <= COLLAPSE_MAX;
            }
            part.touch();
        }
    }
}

//! The I/O threads of a session. They never call the group.

use super::{Carried, Saving};
use crate::{
    capture::Piece,
    error::{Error, Result},
};
use crossbeam_channel::{Receiver, Sender, unbounded};
use nix::sys::signal::{SigSet, SigmaskHow};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

#[derive(Debug)]
pub(crate) struct IoThreads {
    /// `None` once the threads are asked to end.
    work: Option<Sender<Work>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
enum Work {
    Carry(Arc<Saving>, Box<dyn Carried>, Piece),
    Commit(Arc<Saving>),
}

impl IoThreads {
    pub(crate) fn start(count: usize) -> Result<IoThreads> {
        let (sender, receiver) = unbounded();
        let mut started = IoThreads { work: Some(sender), threads: Vec::new() };
        let failed = |e| Error::io("starting", "an I/O thread", e);
        // The program's signals are the program's threads' business; a new thread inherits the mask.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(|errno| failed(errno.into()))?;
        for index in 0..count {
            let receiver = receiver.clone();
            let thread = thread::Builder::new().name(format!("mainstay-io-{index}")).spawn(move || run(&receiver));
            match thread {
                Ok(thread) => started.threads.push(thread),
                Err(error) => {
                    mask.thread_set_mask().map_err(|errno| failed(errno.into()))?;
                    return Err(failed(error));
                }
            }
        }
        mask.thread_set_mask().map_err(|errno| failed(errno.into()))?;
        Ok(started)
    }

    /// Has `chunk` written where `piece` says.
    pub(crate) fn carry(&self, saving: &Arc<Saving>, chunk: Box<dyn Carried>, piece: Piece) {
        saving.add_part();
        self.send(Work::Carry(saving.clone(), chunk, piece));
    }

    /// Says that all of the shard has been handed over.
    pub(crate) fn all_staged(&self, saving: &Arc<Saving>) {
        if saving.end_part() {
            self.send(Work::Commit(saving.clone()));
        }
    }

    fn send(&self, work: Work) {
        // The threads hold the receiver until the sender is gone.
        let _ = self.work.as_ref().map(|sender| sender.send(work));
    }
}

impl Drop for IoThreads {
    /// Waits for what has been handed over.
    fn drop(&mut self) {
        self.work = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(work: &Receiver<Work>) {
    for work in work {
        let saving = match &work {
            Work::Carry(saving, ..) | Work::Commit(saving) => saving.clone(),
        };
        // A bug in here must end neither the program nor the wait for this revision.
        let done = catch_unwind(AssertUnwindSafe(|| match work {
            Work::Carry(saving, chunk, piece) => saving.carry(chunk, piece),
            Work::Commit(saving) => saving.commit(),
        }));
        if done.is_err() {
            saving.abandon(Error::Internal { what: "an I/O thread panicked".to_owned() });
        }
    }
}

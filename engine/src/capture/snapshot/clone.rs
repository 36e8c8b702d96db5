//! A snapshot from a clone of the address space: a child process has the program's memory as it was, copies it to
//! shared memory, and ends. The kernel copies the pages that the program writes meanwhile, so system calls and messages
//! may write anywhere.
//!
//! The program does not notice the child. It is made without the handlers of a fork, `wait` does not find it, and its
//! end sends no signal. It runs none of the program's handlers, has none of its files, and does not outlive it.
//!
//! Invariant: between the clone and its end, the child takes no lock and allocates nothing, because another thread may
//! have held any lock at that moment. It publishes nothing.

mod child;
mod process;
#[cfg(test)]
mod tests;
mod words;

use super::{NotTaken, Transfer, pages, span, united};
use crate::{
    capture::{
        mappings,
        userfaultfd::{Pagemap, are_others_open},
    },
    ground::Instant,
};
use process::{Ended, Process};
use std::{io, ops::Range, time::Duration};
use words::{CloneState, Words};

/// The time that the program waits for the child to begin. With a free processor this takes a fraction of a
/// millisecond. A child that was stopped from outside must not stop the program.
const BEGINNING_MAX: Duration = Duration::from_secs(10);

/// A snapshot that is being copied. Dropping it cancels it.
#[derive(Debug)]
pub(crate) struct Cloned {
    words: Words,
    process: Process,
}

impl Cloned {
    /// Takes a snapshot of the memory that `transfers` read. When it returns, the program may write again, and the
    /// child has closed all files and can access all the memory it needs.
    pub(crate) fn take(transfers: &[Transfer]) -> Result<Cloned, NotTaken> {
        process::check_descriptors_close()?;
        let read: Vec<_> = transfers.iter().map(|transfer| span(transfer.from, transfer.bytes)).collect();
        let unsuited = unsuited(&read)?;
        if let Some((_, why)) = unsuited.first() {
            let (indices, why) = (unsuited.iter().map(|(index, _)| *index).collect(), why.clone());
            return Err(NotTaken::Unsuited { indices, why });
        }
        let witnesses = witnesses(&read)?;
        let words = Words::new()?;
        let written = transfers.iter().map(|transfer| pages(&span(transfer.to, transfer.bytes)));
        let process =
            Process::clone_now(&united(written.collect()), |parent| child::run(transfers, &witnesses, &words, parent))?;
        let mut cloned = Cloned { words, process };
        let index = cloned.await_begun()?;
        match cloned.words.state() {
            CloneState::NoSource => {
                let why = "it is not passed on to children (MADV_DONTFORK, MADV_WIPEONFORK), or not mapped".to_owned();
                Err(NotTaken::Unsuited { indices: vec![index], why })
            }
            CloneState::NoDestination => {
                Err(NotTaken::Unsuited { indices: vec![index], why: "a clone does not reach its copy".to_owned() })
            }
            _ => Ok(cloned),
        }
    }

    /// Whether the copy is complete; an error if it failed. `Some` once it has ended.
    pub(crate) fn poll(&mut self) -> Option<io::Result<()>> {
        let ended = self.process.poll_ended();
        // The report is the last act of the child before it ends.
        let is_over = ended.is_some() || self.words.state() == CloneState::Done;
        is_over.then(|| self.outcome(ended))
    }

    /// Waits until the copy is complete; an error if it failed.
    #[cfg(test)]
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        let ended = self.process.await_end();
        self.outcome(Some(ended))
    }

    /// The number of bytes copied so far, in the order of the transfers.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.words.copied_bytes()
    }

    /// Waits until the child has begun. Returns the index of the transfer that its first state is about.
    fn await_begun(&mut self) -> io::Result<usize> {
        let begun = Instant::now();
        while self.words.state() == CloneState::Cloned {
            self.words.await_change(CloneState::Cloned, Duration::from_millis(10));
            if self.words.state() == CloneState::Cloned {
                if let Some(ended) = self.process.poll_ended() {
                    self.outcome(Some(ended))?;
                } else if begun.elapsed() > BEGINNING_MAX {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the clone does not begin"));
                }
            }
        }
        Ok(self.words.index())
    }

    fn outcome(&self, ended: Option<Ended>) -> io::Result<()> {
        match (self.words.state(), ended) {
            (CloneState::Done, _) => Ok(()),
            (CloneState::NoRoom, _) => Err(io::Error::new(io::ErrorKind::StorageFull, "no memory for the copy")),
            (_, Some(Ended::BySignal(number))) => {
                Err(io::Error::other(format!("the process that copies was ended by signal {number}")))
            }
            _ => Err(io::Error::other("the process that copies ended before it was done")),
        }
    }
}

/// The memory to be read that a clone lacks or may see changed, and the reason. Runs in the program, before the clone.
fn unsuited(read: &[Range<usize>]) -> io::Result<Vec<(usize, String)>> {
    let mut unsuited = mappings::uncloned(read)?;
    if are_others_open() {
        // A clone has zeros there.
        let why = || "a userfaultfd of the program fills its missing pages, and those of no clone".to_owned();
        unsuited.extend(mappings::filled_when_missing(read)?.into_iter().map(|(index, _)| (index, why())));
    }
    Ok(unsuited)
}

/// One present page of each mapping that is read, with the number of the transfer. A child shows this way whether it
/// got the contents: memory with MADV_WIPEONFORK is mapped in a child too, but has no pages. Empty if the kernel does
/// not report presence (before Linux 6.7).
fn witnesses(read: &[Range<usize>]) -> io::Result<Vec<(usize, usize)>> {
    let Ok(pagemap) = Pagemap::open() else { return Ok(Vec::new()) };
    let witness = |(index, part): (usize, Range<usize>)| Some((index, pagemap.first_present(&pages(&part)).ok()??));
    Ok(mappings::anonymous_parts(read)?.into_iter().filter_map(witness).collect())
}

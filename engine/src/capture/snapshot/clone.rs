//! A snapshot from a clone of the address space: a child process that has the program's memory as it was, copies it to
//! shared memory, and ends. The kernel copies what the program writes meanwhile, so that system calls and messages may
//! write wherever they like.
//!
//! The program does not notice the child: it is made without what a fork calls, it is no child that `wait` knows, and
//! its end sends no signal. It runs none of the program's handlers, has none of its files, and does not outlive it.
//!
//! What must hold: between the clone and its end the child takes no lock and allocates nothing, as another thread may
//! have held any of them at that moment; it publishes nothing.

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
use words::{State, Words};

/// For how long the program waits for the child to begin, which takes a fraction of a millisecond where a processor is
/// free. A child that was stopped from outside must not stop the program.
const BEGINNING_MAX: Duration = Duration::from_secs(10);

/// A snapshot that was taken, and is being copied. Dropped, it is given up.
#[derive(Debug)]
pub(crate) struct Cloned {
    words: Words,
    process: Process,
}

impl Cloned {
    /// Takes a snapshot of what `transfers` read. When it returns, the program may write again, the child has let go of
    /// all files, and it reaches all memory that it needs.
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
            State::NoSource => {
                let why = "it is not passed on to children (MADV_DONTFORK, MADV_WIPEONFORK), or not mapped".to_owned();
                Err(NotTaken::Unsuited { indices: vec![index], why })
            }
            State::NoDestination => {
                Err(NotTaken::Unsuited { indices: vec![index], why: "a clone does not reach its copy".to_owned() })
            }
            _ => Ok(cloned),
        }
    }

    /// Whether it is copied; an error if it never will be. Some, once it has ended.
    pub(crate) fn poll(&mut self) -> Option<io::Result<()>> {
        let ended = self.process.poll_ended();
        // To tell this is the last thing that the child does before it ends.
        let is_over = ended.is_some() || self.words.state() == State::Done;
        is_over.then(|| self.outcome(ended))
    }

    /// Waits until it is copied; an error if it never will be.
    #[cfg(test)]
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        let ended = self.process.await_end();
        self.outcome(Some(ended))
    }

    /// How many bytes are copied so far, in the order of the transfers.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.words.copied_bytes()
    }

    /// Which transfer the state that it begins with is about.
    fn await_begun(&mut self) -> io::Result<usize> {
        let begun = Instant::now();
        while self.words.state() == State::Cloned {
            self.words.await_change(State::Cloned, Duration::from_millis(10));
            if self.words.state() == State::Cloned {
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
            (State::Done, _) => Ok(()),
            (State::NoRoom, _) => Err(io::Error::new(io::ErrorKind::StorageFull, "no memory for the copy")),
            (_, Some(Ended::BySignal(number))) => {
                Err(io::Error::other(format!("the process that copies was ended by signal {number}")))
            }
            _ => Err(io::Error::other("the process that copies ended before it was through")),
        }
    }
}

/// What is read that a clone does not have as it is now, and why.
fn unsuited(read: &[Range<usize>]) -> io::Result<Vec<(usize, String)>> {
    let mut unsuited = mappings::uncloned(read)?;
    if are_others_open() {
        // A clone has zeros there.
        let why = || "a userfaultfd of the program fills its missing pages, and those of no clone".to_owned();
        unsuited.extend(mappings::filled_when_missing(read)?.into_iter().map(|(index, _)| (index, why())));
    }
    Ok(unsuited)
}

/// Of each mapping that is read a page that it has, with the number of the transfer: memory that is not passed on
/// (MADV_WIPEONFORK) is there in a child as well, but has none. None where the kernel does not tell (before Linux 6.7).
fn witnesses(read: &[Range<usize>]) -> io::Result<Vec<(usize, usize)>> {
    let Ok(pagemap) = Pagemap::open() else { return Ok(Vec::new()) };
    let witness = |(index, part): (usize, Range<usize>)| Some((index, pagemap.first_present(&pages(&part)).ok()??));
    Ok(mappings::anonymous_parts(read)?.into_iter().filter_map(witness).collect())
}

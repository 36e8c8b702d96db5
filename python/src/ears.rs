//! Deaf ranks, as `mainstay_mpi_ears` in C. In Open MPI 5.0.11, suppose a rank is killed at the moment at which it
//! returns a fragment of shared memory to another rank. That other rank is then deaf: it receives nothing that is
//! sent the same way, agreements included, and all wait forever. So ranks that wait for long in an agreement ask each
//! other, by a message that is sent this way. A rank that asks, and does not answer, is deaf.

use crate::{
    member::Member,
    messages::{others, sends, takes},
};
use pyo3::prelude::*;
use std::{
    io::{self, Write},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Added to the tag of the agreement.
const ASKS: i32 = 0x10000;
const ANSWERS: i32 = 0x20000;
/// Larger than any message that Open MPI sends in another way.
const QUESTION: [u8; 2048] = [0; 2048];
const ANSWER: [u8; 1] = [0];

/// Seconds for which a rank waits before it asks whether it is heard, and for the answer.
static PATIENCE_S: AtomicU64 = AtomicU64::new(15);

/// For tests.
pub(crate) fn set_patience(seconds: u64) {
    PATIENCE_S.store(seconds, Ordering::Relaxed);
}

/// The messages that this rank has heard in one agreement.
pub(crate) struct Ears<'a> {
    members: &'a [Member],
    mine: usize,
    /// When it has asked all others.
    asked: Option<Instant>,
    /// By rank: when its question came.
    came: Vec<Option<Instant>>,
    is_answered: Vec<bool>,
    /// Has named the ranks that have not come.
    has_told: bool,
}

impl Ears<'_> {
    /// Of the rank `mine` among `members`.
    pub(crate) fn new(members: &[Member], mine: usize) -> Ears<'_> {
        let (came, is_answered) = (vec![None; members.len()], vec![false; members.len()]);
        Ears { members, mine, asked: None, came, is_answered, has_told: false }
    }

    /// Answers questions, asks, and ends ranks that do not answer. Never waits. `tag` is that of the agreement, in
    /// which this rank has waited since then.
    pub(crate) fn listen(&mut self, mpi: &Bound<'_, PyAny>, world: &Bound<'_, PyAny>, tag: i32, waited: Duration) {
        let (now, patience) = (Instant::now(), Duration::from_secs(PATIENCE_S.load(Ordering::Relaxed)));
        let takes = |rank, tag, bytes| takes(mpi, world, rank, tag, bytes).is_ok_and(|taken| taken.is_some());
        // A failed rank gets no more questions.
        let sends = |rank, tag, bytes| drop(sends(mpi, world, rank, tag, bytes));
        let is_long = |since: Option<Instant>| since.is_some_and(|since| now - since > patience);
        let others: Vec<i32> = others(world).into_iter().filter(|rank| (*rank as usize) < self.members.len()).collect();
        for rank in others.iter().copied() {
            let at = rank as usize;
            if takes(rank, tag | ASKS, QUESTION.len()) {
                self.came[at] = Some(now);
                sends(rank, tag | ANSWERS, &ANSWER);
            }
            self.is_answered[at] |= takes(rank, tag | ANSWERS, ANSWER.len());
            if is_long(self.asked) && is_long(self.came[at]) && !self.is_answered[at] {
                self.end_deaf(mpi.py(), at);
                self.is_answered[at] = true;
            }
        }
        if waited > 4 * patience && !self.has_told && self.members[self.mine].place.is_some() {
            self.has_told = true;
            self.tell_missing(world, waited);
        }
        if self.asked.is_none() && waited >= patience {
            self.asked = Some(now);
            others.iter().for_each(|rank| sends(*rank, tag | ASKS, &QUESTION));
        }
    }

    /// Ends a deaf process, if it is on this machine, and prints a line.
    fn end_deaf(&self, py: Python<'_>, rank: usize) {
        let deaf = &self.members[rank];
        if deaf.is_beside(&self.members[self.mine]) {
            say(&format!(
                "mainstay: process {} hears no other rank any more, as can happen in Open MPI when one is killed; it is ended, and \
                 counts as failed\n",
                deaf.pid()
            ));
            py.detach(|| deaf.end());
        }
    }

    /// Prints the ranks that the others wait for, once, on the lowest waiting rank. They may compute for long, or be
    /// deaf inside a call of the program's own; this rank cannot tell the difference.
    fn tell_missing(&self, world: &Bound<'_, PyAny>, waited: Duration) {
        if (0..self.mine).any(|rank| self.came[rank].is_some() && self.members[rank].place.is_some()) {
            return;
        }
        let lives = |rank: usize| world.call_method1("Iprobe", (rank, 0)).is_ok();
        let is_missing = |rank: &usize| *rank != self.mine && self.came[*rank].is_none() && !self.is_answered[*rank];
        for rank in (0..self.members.len()).filter(is_missing).filter(|rank| lives(*rank)) {
            say(&format!(
                "mainstay: for {:.0} s the others have waited for process {} to take part in a recovery; if it does not compute for so \
                 long, end it (SIGKILL), and the others go on without it\n",
                waited.as_secs_f64(),
                self.members[rank].pid()
            ));
        }
    }
}

/// If nobody can read the line, that is no reason to fail.
fn say(text: &str) {
    drop(io::stderr().write_all(text.as_bytes()));
}

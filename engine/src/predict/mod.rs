//! Predicts which pages a program will not write again before its next checkpoint, so that they can be saved early
//! (speculative checkpointing, paper 004).
//!
//! Owns what predictors remember of a program, the traces of page writes that they learn from, and their replay. What must
//! hold: what a revision holds never depends on a predictor; a prediction that was wrong costs a write and nothing else.

mod auto;
mod count;
mod early;
mod idle;
mod infrequent;
mod numbering;
mod oracle;
mod phase;
mod positions;
mod replay;
mod trace;

pub(crate) use early::Early;
pub use numbering::Numbering;
pub use replay::{Ends, Outcome, Replay, Speed};
pub use trace::{Moment, Reader, Writer, Written};

use auto::Auto;
use count::Count;
use idle::Idle;
use infrequent::Infrequent;
use phase::Phase;

/// A page, by a number that grows from 0 on: what is remembered of pages lies in arrays.
pub type Page = u32;

/// A moment at which pages may be saved early, with what was written since the one before.
#[derive(Debug, Clone, Copy)]
pub struct Tick<'a> {
    /// Of the program's processor time, or of the clock, from any beginning.
    pub at_us: u64,
    /// Whether the program itself said so, at the end of an iteration: what it writes comes again from here on.
    pub is_mark: bool,
    /// Each page once.
    pub written: &'a [Page],
    /// How many pages can have been saved in the background since the tick before.
    pub capacity: u64,
}

/// Names the pages that will not be written again before the next checkpoint.
pub trait Predictor: Send {
    /// Adds the pages that are settled at `tick` to `settled`; pages that were named before may be among them.
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>);

    /// A checkpoint has been taken at the last tick: an interval ends, and the next begins.
    fn checkpoint(&mut self);
}

/// The predictors, by the names that users give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// None: every page is saved at the checkpoint.
    Off,
    /// A page that was not written in the last two intervals before this one will not be written again in it (paper 004,
    /// section 3.2, the first heuristic).
    Infrequent,
    /// A page that was not written for two ticks.
    Idle,
    /// A page that was last written at this point of the interval before.
    Phase,
    /// A page that was written as often as in the interval before.
    Count,
    /// What would have served best until now, or none.
    Auto,
    /// What is known from a recorded run: none is better (section 4.2).
    Oracle,
}

impl Kind {
    pub const ALL: [(Kind, &'static str); 7] = [
        (Self::Off, "off"),
        (Self::Infrequent, "infrequent"),
        (Self::Idle, "idle"),
        (Self::Phase, "phase"),
        (Self::Count, "count"),
        (Self::Auto, "auto"),
        (Self::Oracle, "oracle"),
    ];

    /// Those that know nothing but what has happened.
    pub const REAL: [Kind; 5] = [Self::Infrequent, Self::Idle, Self::Phase, Self::Count, Self::Auto];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// A predictor that has learnt nothing yet; `None` for those that predict nothing by themselves.
    pub fn predictor(self) -> Option<Box<dyn Predictor>> {
        match self {
            Self::Off | Self::Oracle => None,
            Self::Infrequent => Some(Box::new(Infrequent::default())),
            Self::Idle => Some(Box::new(Idle::default())),
            Self::Phase => Some(Box::new(Phase::default())),
            Self::Count => Some(Box::new(Count::default())),
            Self::Auto => Some(Box::new(Auto::new())),
        }
    }
}

/// What is remembered of each page; pages that were never seen have the default.
#[derive(Debug, Default)]
struct PerPage<T>(Vec<T>);

impl<T: Default> PerPage<T> {
    fn at(&mut self, page: Page) -> &mut T {
        let index = page as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, T::default);
        }
        &mut self.0[index]
    }
}

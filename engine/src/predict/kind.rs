//! The predictors by name.

use super::{auto::Auto, count::Count, idle::Idle, infrequent::Infrequent, phase::Phase, predictor::Predictor};
use std::time::Duration;

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
    /// The predictor with the best score so far, or none.
    Auto,
    /// Knows the recorded run in advance; no predictor is better (section 4.2).
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

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// A predictor that has learnt nothing yet; `None` for kinds without a predictor of their own. `after`:
    /// `Infrequent` also settles a page that was not written for this time.
    pub fn predictor(self, after: Option<Duration>) -> Option<Box<dyn Predictor>> {
        match self {
            Self::Off | Self::Oracle => None,
            Self::Infrequent => Some(Box::new(Infrequent::new(after))),
            Self::Idle => Some(Box::new(Idle::default())),
            Self::Phase => Some(Box::new(Phase::default())),
            Self::Count => Some(Box::new(Count::default())),
            Self::Auto => Some(Box::new(Auto::new(after))),
        }
    }
}

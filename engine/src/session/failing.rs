//! A level that keeps failing: counts the failures, keeps the reason, and warns the user.

use crate::{
    error::{ErrorKind, Result},
    printable::shortened,
    space::LevelKind,
    status::Failures,
};

/// Revisions that a level failed to save since its last success; the same count on all ranks.
#[derive(Debug, Default)]
pub(super) struct FailureStreak {
    failures: Failures,
    shouted: u64,
}

impl FailureStreak {
    /// Counts one more failure. `mine`: the reason, if this rank knows it. A checkpoint that the program itself gave up
    /// does not count.
    pub(super) fn again(&mut self, mine: &Result<()>) {
        if !matches!(mine, Err(error) if error.kind() == ErrorKind::InvalidArgument) {
            self.failures = Failures { in_a_row: self.failures.in_a_row + 1, why: String::new() };
            self.because(mine);
        }
    }

    /// Notes the reason that all ranks have received.
    pub(super) fn because(&mut self, outcome: &Result<()>) {
        if let (Err(error), 1..) = (outcome, self.failures.in_a_row) {
            self.failures.why = shortened(&error.to_string());
        }
    }

    pub(super) fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Ends the streak: a revision was saved.
    pub(super) fn is_over(&mut self) {
        *self = FailureStreak::default();
    }

    /// The warning for the user: at the second failure in a row, and each time that the count has doubled.
    pub(super) fn shout(&mut self, level: LevelKind, newest: Option<u64>) -> Option<String> {
        let Failures { in_a_row, why } = &self.failures;
        let is_due = *in_a_row > 1 && *in_a_row >= 2 * self.shouted && !why.is_empty();
        is_due.then(|| {
            self.shouted = *in_a_row;
            self.failures.text(level, newest)
        })
    }
}

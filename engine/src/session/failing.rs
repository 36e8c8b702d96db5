//! Saving to a level that keeps failing: counted, told with the reason, and said aloud to the user.

use crate::{
    error::{ErrorKind, Result},
    printable::shortened,
    space::LevelKind,
    status::Failures,
};

/// Revisions that a level did not get, since the last one that it got; the same count on all ranks.
#[derive(Debug, Default)]
pub(super) struct FailureStreak {
    failures: Failures,
    shouted: u64,
}

impl FailureStreak {
    /// One more was not saved. `mine`: why, if that is known on this rank. What the program itself gave up is none.
    pub(super) fn again(&mut self, mine: &Result<()>) {
        if !matches!(mine, Err(error) if error.kind() == ErrorKind::InvalidArgument) {
            self.failures = Failures { in_a_row: self.failures.in_a_row + 1, why: String::new() };
            self.because(mine);
        }
    }

    /// All ranks have been told why.
    pub(super) fn because(&mut self, told: &Result<()>) {
        if let (Err(error), 1..) = (told, self.failures.in_a_row) {
            self.failures.why = shortened(&error.to_string());
        }
    }

    pub(super) fn failures(&self) -> &Failures {
        &self.failures
    }

    /// A revision was saved.
    pub(super) fn is_over(&mut self) {
        *self = FailureStreak::default();
    }

    /// What to say aloud: at the second failure in a row, and each time that there are twice as many.
    pub(super) fn shout(&mut self, level: LevelKind, newest: Option<u64>) -> Option<String> {
        let Failures { in_a_row, why } = &self.failures;
        let is_due = *in_a_row > 1 && *in_a_row >= 2 * self.shouted && !why.is_empty();
        is_due.then(|| {
            self.shouted = *in_a_row;
            self.failures.told(level, newest)
        })
    }
}

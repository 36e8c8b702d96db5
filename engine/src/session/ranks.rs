//! The ranks of a session, and the right to talk to them.
//!
//! Invariant: only an [`Entered`] gives access to the other ranks for a collective. Only the all-reduce in which all
//! ranks have made the same call creates one.

use super::{agreement::Agreement, copies::Post};
use crate::{
    error::{Error, ErrorKind, Result, numbered},
    group::{Divided, Group, gather},
};
use std::ops::Range;

/// The ranks of the session. Their numbers are public; a collective needs an [`Entered`].
pub(super) struct Ranks(Box<dyn Group>);

/// Proof that all ranks are in the same call.
pub(super) struct Entered(());

impl Ranks {
    pub(super) fn new(group: Box<dyn Group>) -> Ranks {
        Ranks(group)
    }

    pub(super) fn rank(&self) -> usize {
        self.0.rank()
    }

    pub(super) fn size(&self) -> usize {
        self.0.size()
    }

    /// The ranks that go on after a failure. Collective among the ranks that are left, from any call.
    pub(super) fn going_on(&self, divided: Divided) -> Result<Box<dyn Group>> {
        self.0.shrink(divided)
    }

    /// Ends the messages of ranks that go on as another group.
    pub(super) fn end(&self, post: Post) {
        post.end(&*self.0);
    }

    /// The ranks that this rank knows to have failed.
    pub(super) fn failed(&self) -> Vec<usize> {
        self.0.failed().unwrap_or_default()
    }

    /// Fails if this rank knows of failed ranks.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.failed() {
            // Such a group never goes on without failed ranks.
            Err(error) if error.kind() == ErrorKind::InvalidArgument => Ok(()),
            Ok(failed) if failed.is_empty() => Ok(()),
            Ok(failed) => {
                let failed: Vec<Range<u32>> = failed.into_iter().map(|rank| rank as u32..rank as u32 + 1).collect();
                Err(Error::GroupFailed { what: format!("{} failed", numbered("rank", &failed)) })
            }
            Err(error) => Err(error),
        }
    }

    /// Meets the other ranks in the all-reduce of a call. Returns an entry if all ranks make the same call. Collective.
    pub(super) fn meet(&self, mine: Agreement) -> Result<(Agreement, Option<Entered>)> {
        let agreed = mine.reach(&*self.0)?;
        Ok((agreed, agreed.call.is_so().then_some(Entered(()))))
    }

    /// Whether this rank can only wait asleep.
    pub(super) fn wait_asleep(&self) -> bool {
        !self.0.can_wait_eagerly()
    }

    /// Sets whether this rank waits eagerly from now on, as the ranks agreed.
    pub(super) fn wait_eagerly(&self, _: &Entered, eagerly: bool) {
        self.0.wait_eagerly(eagerly);
    }

    /// The names of the calls that the ranks made, once all know that these differ. `mine` is this rank's. Collective.
    pub(super) fn names_of_calls(&self, mine: &str) -> Result<Vec<String>> {
        gather(&*self.0, &mine.to_owned())
    }

    /// All ranks, for collectives.
    pub(super) fn with(&self, _: &Entered) -> &dyn Group {
        &*self.0
    }

    /// The ranks for messages between the owner and the holder of a copy; never for a collective.
    pub(super) fn between_two(&self) -> &dyn Group {
        &*self.0
    }
}

//! The ranks of a session, and what it takes to talk to them.
//!
//! What must hold: only an [`Entered`] gives access to the other ranks for a collective, and only the all-reduce in which
//! all ranks have made the same call hands one out.

use super::{agreement::Agreement, copies::Post};
use crate::{
    error::{Error, ErrorKind, Result, numbered},
    group::{Divided, Group, gather},
};
use std::ops::Range;

/// The ranks of the session. Who they are is known to all; talking to them takes an [`Entered`].
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

    /// The ranks that go on: collective among those that have not failed, wherever each of them is.
    pub(super) fn going_on(&self, divided: Divided) -> Result<Box<dyn Group>> {
        self.0.shrink(divided)
    }

    /// Ends the messages of ranks that go on as another group.
    pub(super) fn end(&self, post: Post) {
        post.end(&*self.0);
    }

    /// The ranks of which this one knows that they have failed.
    pub(super) fn failed(&self) -> Vec<usize> {
        self.0.failed().unwrap_or_default()
    }

    /// An error if ranks have failed as far as this one knows.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.failed() {
            // Such a group never goes on without them.
            Err(error) if error.kind() == ErrorKind::InvalidArgument => Ok(()),
            Ok(failed) if failed.is_empty() => Ok(()),
            Ok(failed) => {
                let failed: Vec<Range<u32>> = failed.into_iter().map(|rank| rank as u32..rank as u32 + 1).collect();
                Err(Error::GroupFailed { what: format!("{} failed", numbered("rank", &failed)) })
            }
            Err(error) => Err(error),
        }
    }

    /// Meets the other ranks in the all-reduce of a call. The entry is there if all of them make the same one. Collective.
    pub(super) fn meet(&self, mine: Agreement) -> Result<(Agreement, Option<Entered>)> {
        let told = mine.reach(&*self.0)?;
        Ok((told, told.call.is_so().then_some(Entered(()))))
    }

    /// Whether this rank can only wait asleep.
    pub(super) fn wait_asleep(&self) -> bool {
        !self.0.can_wait_eagerly()
    }

    /// What all ranks told each other says whether they wait eagerly from here on.
    pub(super) fn wait_eagerly(&self, _: &Entered, eagerly: bool) {
        self.0.wait_eagerly(eagerly);
    }

    /// The names of the calls that ranks have made which know that those are not the same: `mine` is this rank's.
    /// Collective.
    pub(super) fn names_of_calls(&self, mine: &str) -> Result<Vec<String>> {
        gather(&*self.0, &mine.to_owned())
    }

    /// All ranks, for collectives.
    pub(super) fn with(&self, _: &Entered) -> &dyn Group {
        &*self.0
    }

    /// The ranks for messages between one and the one that writes for it; never for a collective.
    pub(super) fn between_two(&self) -> &dyn Group {
        &*self.0
    }
}

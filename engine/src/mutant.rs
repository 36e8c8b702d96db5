//! Wrong variants of the engine; the tests must catch each of them. Only the engine's own tests and the simulation have
//! them; otherwise every question is answered with a constant `false`.

/// Makes the variants, with their names.
macro_rules! mutants {
    ($($(#[doc = $meaning:literal])+ $name:ident,)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Mutant {
            #[cfg(any(test, feature = "simulation"))]
            None,
            $($(#[doc = $meaning])+ $name,)+
        }

        /// The variants, each with its meaning.
        #[cfg(feature = "simulation")]
        const ALL: &[(Mutant, &str, &str)] = &[$((Mutant::$name, stringify!($name), concat!($($meaning),+))),+];
    };
}

mutants! {
    /// The root is published before its data is durable.
    SlotBeforeSync,
    /// The slot is not synced.
    SlotNotSynced,
    /// A new root goes to "the other slot" by parity instead of the one with the lower sequence.
    SlotByParity,
    /// A new root goes over the newest one.
    SlotOverNewest,
    /// The names of a new layout are not synced.
    DirectoryNotSynced,
    /// Revisions are distinguished only by their number.
    NoId,
    /// Each rank restores its newest shard not newer than the lowest of all ranks' newest.
    MinimumInsteadOfIntersection,
    /// Blocks count as free as soon as the revision is not kept, even if a slot still refers to them.
    FreeTooEarly,
    /// The blocks of a new shard are written before the roots that refer to their old contents are replaced.
    RootsNotFreed,
    /// A new root drops the older revisions at once, before all ranks have the new one.
    OlderDroppedAtOnce,
    /// A shard is published while one of its parts is still being written.
    CommittedTooEarly,
    /// One piece of a shard is not written.
    PieceLeftOut,
    /// Restored blocks are not compared with their hashes.
    BlocksNotVerified,
    /// A rank that failed to save its shard does not tell the others.
    FailureNotTold,
    /// `wait` does not wait for the nearest level.
    WaitsForNothing,
    /// `wait` does not wait for the other levels.
    FartherNotAwaited,
    /// `wait` does not wait for the copies on other nodes.
    CopiesNotAwaited,
    /// A copy counts as present once it has arrived, and is never published.
    CopyNotPublished,
    /// A copy counts as present before it is published.
    CopyCountsTooEarly,
    /// The older revision is dropped on its own node once the newer one is there, before that has its copies.
    GivenUpWithOneCopy,
    /// Copies are on the next rank, on any node.
    HolderBeside,
    /// Copies are on other nodes, in any failure domain.
    HolderInDomain,
    /// A job that opens a space goes on with the lineage of the job before.
    LineageNotRenewed,
    /// A revision that failed gives its number to the next one.
    NumberUsedAgain,
    /// The end of a job frees the memory of the nodes before its newest revision is anywhere else.
    MemoryFreedUnsaved,
    /// `close` leaves the newest revision on disks that may be lost.
    LeftOnDisks,
    /// A layout is removed before a newer one has a whole revision.
    LayoutDroppedEarly,
    /// A lock that another process holds is not seen, and is taken all the same.
    LocksIgnored,
    /// The ranks save without knowing each other's facts.
    AgreementLeftOut,
    /// A job that opens a space forgets its holds.
    HoldsForgotten,
    /// A prune takes held revisions, too.
    PruneTakesHeld,
    /// A rollback leaves the newest revision.
    RollbackLeavesNewest,
    /// A salvage writes zeros in place of the chunks that the killed process had not written.
    SalvageWithoutChunks,
    /// The file `levels` is renamed before its data is durable.
    NoteNotSynced,
}

#[cfg(any(test, feature = "simulation"))]
mod switch {
    use super::Mutant;
    use std::{
        cell::RefCell,
        ffi::OsString,
        sync::atomic::{AtomicU8, Ordering},
    };

    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    thread_local! {
        static VALUE: RefCell<Option<(&'static str, OsString)>> = const { RefCell::new(None) };
    }

    /// Sets a variable for the rank on this thread, because ranks that are threads share one environment.
    #[cfg(test)]
    pub(super) fn tell(name: &'static str, value: String) {
        VALUE.set(Some((name, value.into())));
    }

    /// The value that the test set for the rank on this thread.
    pub(crate) fn value_of(name: &str) -> Option<OsString> {
        VALUE.with_borrow(|set| set.clone().filter(|(of, _)| *of == name).map(|(_, value)| value))
    }

    pub(super) fn activate(mutant: Mutant) {
        ACTIVE.store(mutant as u8, Ordering::SeqCst);
    }

    pub(crate) fn is(mutant: Mutant) -> bool {
        ACTIVE.load(Ordering::SeqCst) == mutant as u8
    }

    /// Whether any variant is active.
    pub(crate) fn is_any() -> bool {
        !is(Mutant::None)
    }
}
#[cfg(test)]
mod tests;

#[cfg(test)]
use switch::{activate, tell};
#[cfg(any(test, feature = "simulation"))]
pub(crate) use switch::{is, is_any, value_of};

/// The names of the wrong variants, each with its meaning.
#[cfg(feature = "simulation")]
pub fn mutants() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|(_, name, meaning)| (*name, meaning.trim()))
}

/// The wrong variant that this process is, of the engine or of a crate on it.
#[cfg(feature = "simulation")]
static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Makes this whole process the wrong variant `name`. Returns whether the engine has one.
#[cfg(feature = "simulation")]
pub fn become_mutant(name: &str) -> bool {
    CHOSEN.get_or_init(|| name.to_owned());
    let found = ALL.iter().find(|(_, of, _)| *of == name);
    found.iter().for_each(|(mutant, ..)| switch::activate(*mutant));
    found.is_some()
}

/// Whether this process is the wrong variant `name`: for the crates on the engine.
#[cfg(feature = "simulation")]
pub fn is_mutant(name: &str) -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen == name)
}

#[cfg(not(any(test, feature = "simulation")))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

#[cfg(not(any(test, feature = "simulation")))]
pub(crate) const fn is_any() -> bool {
    false
}

#[cfg(not(any(test, feature = "simulation")))]
pub(crate) const fn value_of(_name: &str) -> Option<std::ffi::OsString> {
    None
}

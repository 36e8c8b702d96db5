//! Wrong variants of the commit protocol; the crash tests must catch each of them. Only the engine's own tests have
//! them; otherwise every question is answered with a constant `false`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mutant {
    #[cfg(test)]
    None = 0,
    /// The root is published before its data is durable.
    SlotBeforeSync = 1,
    /// A new root goes to "the other slot" by parity instead of the one with the lower sequence.
    SlotByParity,
    /// Revisions are distinguished only by their number.
    NoId,
    /// Each rank restores its newest shard not newer than the lowest of all ranks' newest.
    MinimumInsteadOfIntersection,
    /// Blocks count as free as soon as the revision is not kept, even if a slot still refers to them.
    FreeTooEarly,
    /// A copy counts as present once it has arrived, and is never published.
    CopyNotPublished,
    /// The older revision is dropped on its own node once the newer one is there, before that has its copies.
    GivenUpWithOneCopy,
    /// Copies are on the next rank, on any node.
    HolderBeside,
    /// Copies are on other nodes, in any failure domain.
    HolderInDomain,
}

#[cfg(test)]
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
#[cfg(test)]
pub(crate) use switch::{is, is_any, value_of};

#[cfg(not(test))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

#[cfg(not(test))]
pub(crate) const fn is_any() -> bool {
    false
}

#[cfg(not(test))]
pub(crate) const fn value_of(_name: &str) -> Option<std::ffi::OsString> {
    None
}

//! Wrong variants of the commit protocol, each of which the crash tests must catch. Only the engine's own tests have
//! them; otherwise every question is answered with a constant `false`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mutant {
    #[cfg(test)]
    None = 0,
    /// The root is published before the data that it leads to is durable.
    SlotBeforeSync = 1,
    /// A new root goes to "the other slot" by parity instead of the one with the lower sequence.
    SlotByParity,
    /// Revisions are told apart by their number alone.
    NoId,
    /// Each rank restores its newest shard not newer than the lowest of all ranks' newest.
    MinimumInsteadOfIntersection,
    /// Blocks count as free as soon as the revision is not kept, whatever the slots refer to.
    FreeTooEarly,
    /// A copy counts as there once it has come, and is never published.
    CopyNotPublished,
    /// Copies lie with the next rank, on whichever node.
    HolderBeside,
}

#[cfg(test)]
mod switch {
    use super::Mutant;
    use std::sync::atomic::{AtomicU8, Ordering};

    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    pub(super) fn activate(mutant: Mutant) {
        ACTIVE.store(mutant as u8, Ordering::SeqCst);
    }

    pub(crate) fn is(mutant: Mutant) -> bool {
        ACTIVE.load(Ordering::SeqCst) == mutant as u8
    }

    /// Whether any is active.
    pub(crate) fn is_any() -> bool {
        !is(Mutant::None)
    }
}
#[cfg(test)]
mod tests;

#[cfg(test)]
use switch::activate;
#[cfg(test)]
pub(crate) use switch::{is, is_any};

#[cfg(not(test))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

#[cfg(not(test))]
pub(crate) const fn is_any() -> bool {
    false
}

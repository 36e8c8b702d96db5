//! Wrong variants of the commit protocol, each of which the crash tests must catch. Only with the
//! feature `mutants`; otherwise every question is answered with a constant `false`.

#[cfg_attr(not(feature = "mutants"), expect(unreachable_pub, dead_code, reason = "exported only for the crash tests"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    None = 0,
    /// The root is published before the data that it leads to is durable.
    SlotBeforeSync,
    /// A new root goes to "the other slot" by parity instead of the one with the lower sequence.
    SlotByParity,
    /// Revisions are told apart by their number alone.
    NoId,
    /// Each rank restores its newest shard not newer than the lowest of all ranks' newest.
    MinimumInsteadOfIntersection,
    /// Blocks count as free as soon as the revision is not kept, whatever the slots refer to.
    FreeTooEarly,
}

#[cfg(feature = "mutants")]
mod switch {
    use super::Mutant;
    use std::sync::atomic::{AtomicU8, Ordering};

    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    pub fn activate(mutant: Mutant) {
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

#[cfg(feature = "mutants")]
pub use switch::activate;
#[cfg(feature = "mutants")]
pub(crate) use switch::{is, is_any};

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}

#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_any() -> bool {
    false
}

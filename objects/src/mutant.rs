//! Wrong variants of objects, which the simulation must find. Without the simulation, no variant is active.

/// The wrong variants, each with its meaning.
#[cfg(feature = "simulation")]
pub const MUTANTS: [(&str, &str); 5] = [
    ("OlderEpochTaken", "A message from before a failure is delivered."),
    ("MovedStays", "An object that has moved stays on its old rank, too, and gets its messages twice."),
    ("MoveNotNoted", "The old rank of a moved object does not note its new rank."),
    ("EpochNotAgreed", "A rank that replaces a lost one has an epoch of its own."),
    ("MessagesNotSaved", "A checkpoint does not deliver the messages in flight."),
];

#[cfg(feature = "simulation")]
pub(crate) use mainstay_engine::is_mutant as is;

#[cfg(not(feature = "simulation"))]
pub(crate) const fn is(_name: &str) -> bool {
    false
}

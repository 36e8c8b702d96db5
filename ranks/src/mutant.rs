//! Wrong variants of the messages of ranks, which the simulation must find. Without the simulation, no variant is active.

/// The wrong variants, each with its meaning.
#[cfg(feature = "simulation")]
pub const MUTANTS: [(&str, &str); 5] = [
    ("NewestFirst", "A receive takes the newest message that fits, instead of the oldest."),
    ("WaitingNotSaved", "A rank that is saved forgets its messages that wait for their receivers."),
    ("TakenNotSaved", "A rank that is saved forgets the messages that a matched probe has taken."),
    ("MovedNotPlaced", "The other processes do not learn the new place of a rank that has moved."),
    (
        "DrainedTooEarly",
        "A process takes its messages once before ranks are saved or moved, and does not wait for more.",
    ),
];

#[cfg(feature = "simulation")]
pub(crate) use mainstay_engine::is_mutant as is;

#[cfg(not(feature = "simulation"))]
pub(crate) const fn is(_name: &str) -> bool {
    false
}

//! The settings of a session: what they are, and what values they take.
//!
//! `table` is the one table of the settings, a row each, and `key` what a row answers; `choice` is how one place sets some of
//! them, `file` and `environment` are such places, and `resolve` puts them together and remembers where each value came
//! from. `words` are the values that have names, `in_force` is what follows from the settings, and `alike` has the ranks
//! of a job compare theirs.
//!
//! What must hold: every setting has a default that works, and no value is used that its key does not take.

mod alike;
mod choice;
mod environment;
mod file;
mod hints;
mod in_force;
mod key;
mod range;
mod resolve;
mod shown;
mod signal;
mod stage;
mod table;
mod value;
mod words;

pub(crate) use alike::check_alike;
pub(crate) use environment::passed_over;
pub use environment::{Surroundings, UnknownVariable};
pub use resolve::{Resolved, Setting, Source};
pub use shown::Shown;
pub use signal::Signal;
pub use stage::Stage;
pub use table::{Choice, Config, KEYS, Key};
pub use value::Value;
pub use words::{
    Capture, Compress, DiskLost, Exchange, Interval, LevelPlace, MemoryAfter, PoolHeld, Predictor, Recovery, Stagger,
    Start, Track, WhenBusy,
};

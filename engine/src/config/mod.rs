//! The settings of a session and their valid values.
//!
//! `table` is the one table of the settings, a row each. `generator` makes the types of the settings from it, and `key`
//! describes one row. `choice` holds the settings from
//! one place, such as `file` and `environment`. `resolve` combines them and remembers the source of each value. `words`
//! has the named values, `in_force` the derived values, and `alike` compares the settings of the ranks of a job.
//!
//! Invariant: every setting has a default that works, and no value is used unless its key accepts it.

mod alike;
mod choice;
mod environment;
mod file;
mod generator;
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
pub use file::TableLine;
pub use resolve::{Resolved, Setting, Source};
pub use shown::Shown;
pub use signal::Signal;
pub use stage::Stage;
pub use table::{Choice, Config, KEYS, Key};
pub use value::Value;
pub use words::{
    Capture, Compress, DiskLost, Exchange, LevelPlace, MemoryAfter, PoolHeld, Predictor, Recovery, Stagger, Start,
    Track, WhenBusy,
};

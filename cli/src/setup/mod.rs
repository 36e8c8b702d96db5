//! Settings and installation.

mod completions;
mod config;
mod flags;
mod man;

pub use completions::completions;
pub use config::config;
pub use flags::quoted;
pub use man::man;

//! Looking at a space.

mod advise;
mod diff;
mod failures;
mod items;
mod ls;
mod model;
mod oracle;
mod phases;
mod report;
mod show;
mod staging;
mod status;
mod svg;
mod trace;
mod verify;

pub use advise::advise;
pub use diff::{compare, diff};
pub use ls::ls;
pub use model::model;
pub use oracle::oracle;
pub use report::report;
pub use show::show;
pub use status::status;
pub use trace::trace;
pub use verify::verify;

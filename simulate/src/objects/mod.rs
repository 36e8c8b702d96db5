//! Programs whose state is objects that move between ranks, with messages, recoveries, and other numbers of ranks.
//!
//! A `plan` has jobs with acts of objects. A `model` says the right state of each object. The `program` of a rank runs the
//! real objects on the `wire`, and compares them with the model, bit for bit, after each act.

mod model;
mod plan;
mod program;
mod wire;

pub use model::Models;
pub use plan::plan;
pub use program::ObjectsProgram;

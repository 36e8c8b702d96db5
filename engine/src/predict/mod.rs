//! Predicts the pages that a program will not write again before its next checkpoint. They can then be saved early
//! (speculative checkpointing, paper 004).
//!
//! Owns the predictors' memory of a program, the traces of page writes that they learn from, and their replay.
//! Invariant: the contents of a revision never depend on a predictor; a wrong prediction costs only a write.

mod auto;
mod count;
mod idle;
mod infrequent;
mod kind;
mod numbering;
mod oracle;
mod phase;
mod positions;
mod predictor;
mod replay;
mod tally;
mod trace;

pub use kind::Kind;
pub use numbering::Numbering;
pub use predictor::{Page, Predictor, Tick};
pub use replay::{Ends, Outcome, Replay, Speed};
pub(crate) use tally::SpeculativeTally;
pub use trace::{Moment, Reader, Writer, Written};

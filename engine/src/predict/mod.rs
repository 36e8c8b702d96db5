//! Predicts which pages a program will not write again before its next checkpoint, so that they can be saved early
//! (speculative checkpointing, paper 004).
//!
//! Owns what predictors remember of a program, the traces of page writes that they learn from, and their replay. What must
//! hold: what a revision holds never depends on a predictor; a prediction that was wrong costs a write and nothing else.

mod auto;
mod count;
mod early;
mod idle;
mod infrequent;
mod kind;
mod numbering;
mod oracle;
mod phase;
mod positions;
mod predictor;
mod replay;
mod trace;

pub(crate) use early::EarlyTally;
pub use kind::Kind;
pub use numbering::Numbering;
pub use predictor::{Page, Predictor, Tick};
pub use replay::{Ends, Outcome, Replay, Speed};
pub use trace::{Moment, Reader, Writer, Written};

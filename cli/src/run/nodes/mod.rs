//! The nodes of a job: which there are (`list`), which of them answer (`reach`), and which ranks each is given (`choice`).

mod choice;
mod list;
mod reach;

pub use choice::{Choice, Share, choose};
pub use list::{Node, Source, of_words};
pub use reach::{HOST, Reach};

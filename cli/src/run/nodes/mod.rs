//! The nodes of a job: the list (`list`), the check that they answer (`reach`), and the ranks of each (`choice`).

mod choice;
mod list;
mod reach;

pub use choice::{Choice, Share, choose};
pub use list::{Node, Source, of_words};
pub use reach::{HOST, Reach};

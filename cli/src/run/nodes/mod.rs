//! The nodes of a job: the list (`list`), the check that they answer (`reach`), and the ranks of each (`choice`).

mod list;
mod placement;
mod reach;

pub use list::{Node, Source, of_words};
pub use placement::{Choice, Share, choose};
pub use reach::{HOST, Reach};

//! The program of a simulated rank, as its life sees it.

use crate::{acts::Act, mark::Mark};
use mainstay_engine::{Error, Session};

/// The error of a restore, or of an act.
#[derive(Debug)]
pub enum Restoring {
    Refused(Error),
    Wrong(String),
}

/// The program of one rank.
pub trait Workload {
    fn protect(&mut self, session: &mut Session) -> Result<(), Error>;

    /// The job goes on after a recovery. The rank has the number `rank` of `ranks`.
    fn goes_on(&mut self, session: &mut Session, rank: usize, ranks: usize) -> Result<(), Error>;

    /// Fills the state with the values of `mark`, in about so many bytes.
    fn fill(&mut self, session: &mut Session, mark: Mark, bytes: usize) -> Result<(), Error>;

    /// Keeps the state of `mark` for some ticks before it is saved.
    fn dawdle(&mut self, _session: &mut Session, _mark: Mark, _ticks: u32) -> Result<(), Error> {
        Ok(())
    }

    /// Saves the state, and returns the number of the revision.
    fn save(&mut self, session: &mut Session) -> Result<u64, Error>;

    /// Restores the state, and checks that all of it belongs to one mark. `run` is the number of the run that begins here.
    fn restore(&mut self, session: &mut Session, run: u64) -> Result<Option<Mark>, Restoring>;

    /// Lets the objects act, if it has any.
    fn act(&mut self, _act: Act) -> Result<(), Restoring> {
        Ok(())
    }

    /// The program ends without a close.
    fn end(&mut self) {}
}

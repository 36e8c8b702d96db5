//! The errors of ranks in slots.

use std::fmt;

/// A failure that ends the job.
#[derive(Debug)]
pub enum Error {
    /// The program, the machine or the revision does not suit ranks in slots. The text says why, and what helps.
    Refused(String),
    /// The engine's error.
    Engine(mainstay_engine::Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failed system call on behalf of the host.
    pub(crate) fn system(subject: impl fmt::Display, error: std::io::Error) -> Error {
        Error::Refused(format!("{subject}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(why) => f.write_str(why),
            Error::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<mainstay_engine::Error> for Error {
    fn from(error: mainstay_engine::Error) -> Error {
        Error::Engine(error)
    }
}

impl From<Error> for mainstay_engine::Error {
    fn from(error: Error) -> mainstay_engine::Error {
        match error {
            Error::Refused(why) => mainstay_engine::Error::argument("the ranks", why),
            Error::Engine(error) => error,
        }
    }
}

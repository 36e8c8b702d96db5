//! The portable form of an error: it travels from the rank, thread or job where it happened to those that it stopped.

use super::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind and the message of an error. Errors travel only in this form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    pub kind: ErrorKind,
    pub message: String,
}

impl Failure {
    /// The form of an error as the cause of another. Damage keeps the list of damaged parts, without the consequence
    /// for a restore.
    pub(crate) fn cause(error: &Error) -> Failure {
        match error {
            Error::Damaged { what } => Failure { kind: error.kind(), message: format!("damaged: {}", what.join("; ")) },
            _ => Failure::from(error),
        }
    }

    /// The error of `rank` as other ranks see it.
    pub(crate) fn on(self, rank: usize) -> Error {
        Error::OnRank { rank, failure: self }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        Failure { kind: error.kind(), message: error.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_arrives_as_it_was_sent() {
        for kind in ErrorKind::ALL {
            let sent = Failure { kind, message: format!("{kind:?} was met") };
            let arrived: Failure = postcard::from_bytes(&postcard::to_stdvec(&sent).unwrap()).unwrap();
            let error = arrived.on(3);
            assert_eq!((error.kind(), error.to_string()), (kind, format!("on rank 3: {kind:?} was met")));
        }
        // A kind that only a newer build knows.
        let unknown: Failure = postcard::from_bytes(&postcard::to_stdvec(&(1000_u32, "new")).unwrap()).unwrap();
        assert_eq!((unknown.kind, &*unknown.message), (ErrorKind::Internal, "new"));
    }
}

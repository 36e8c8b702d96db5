//! Agreement: a step succeeds only if it succeeded on every rank.

use super::Group;
use crate::error::{Error, ErrorKind, Failure, Result};
use serde::{Deserialize, Serialize};

/// Returns `mine` if every rank succeeded; otherwise an error on every rank. A failed rank returns its own error,
/// unless another rank's is more severe. Other ranks return the error of a failed rank. Collective.
pub fn agree<T>(group: &dyn Group, mine: Result<T>) -> Result<T> {
    let (rank, size) = (group.rank(), group.size());
    // The lowest rank with the most severe error reports it.
    let mut worst = [mine.as_ref().err().map_or(0, |error| gravity(error.kind()) * size as u64 + (size - rank) as u64)];
    group.all_max(&mut worst)?;
    if worst[0] == 0 {
        return mine;
    }
    let speaker = size - 1 - (worst[0] - 1) as usize % size;
    let mut message = match &mine {
        Err(error) if rank == speaker => encode(&Failure::from(error))?,
        _ => Vec::new(),
    };
    group.broadcast(speaker, &mut message)?;
    let failure = decode::<Failure>(&message)?;
    match mine {
        Err(own) if gravity(own.kind()) >= gravity(failure.kind) => Err(own),
        _ => Err(failure.on(speaker)),
    }
}

/// Errors that end the group or the session outrank those that fail one call: all ranks then follow the more severe
/// one.
fn gravity(kind: ErrorKind) -> u64 {
    match kind {
        ErrorKind::GroupFailed => 2,
        ErrorKind::SyncFailed | ErrorKind::Fenced => 1,
        _ => 0,
    }
}

/// Gathers one value of every rank, in the order of ranks. Collective.
pub(crate) fn gather<T: Serialize + for<'a> Deserialize<'a>>(group: &dyn Group, mine: &T) -> Result<Vec<T>> {
    group.all_gather(&encode(mine)?)?.iter().map(|bytes| decode(bytes)).collect()
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|e| Error::Internal { what: format!("encoding a message: {e}") })
}

pub(crate) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|e| Error::GroupFailed { what: format!("a message that cannot be read: {e}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::ThreadGroup;

    /// The result of each rank if each has failed with an error of its own, or not at all.
    fn outcomes(failed: &[Option<Error>]) -> Vec<(ErrorKind, String)> {
        let ranks = ThreadGroup::new(failed.len()).into_iter().zip(failed);
        std::thread::scope(|scope| {
            let running: Vec<_> = ranks
                .map(|(group, failed)| {
                    scope.spawn(move || agree(&group, failed.clone().map_or(Ok(()), Err)).unwrap_err())
                })
                .collect();
            running
                .into_iter()
                .map(|rank| rank.join().unwrap())
                .map(|error| (error.kind(), error.to_string()))
                .collect()
        })
    }

    #[test]
    fn what_ends_the_session_is_told_to_all_ranks() {
        let full = |of: &str| Some(Error::Internal { what: of.to_owned() });
        let sync = |of: &str| Some(Error::SyncFailed { path: of.to_owned(), cause: "EIO".to_owned() });
        let all = outcomes(&[full("a"), None, sync("b"), sync("c")]);
        assert!(all.iter().all(|(kind, _)| *kind == ErrorKind::SyncFailed), "{all:?}");
        // A rank with an equally severe error keeps its own.
        let said = |rank: usize, text: &str| all[rank].1.contains(text);
        assert!(said(0, "on rank 2: ") && said(1, "on rank 2: ") && said(3, "sync of c"), "{all:?}");
        let all = outcomes(&[None, full("a"), full("b")]);
        assert!(all[0].1.contains("on rank 1: ") && all[2].1.contains('b') && !all[2].1.contains("on rank"), "{all:?}");
    }
}

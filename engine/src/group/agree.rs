//! Agreement: a step has succeeded only if it did on every rank.

use super::Group;
use crate::error::{Error, Failure, Result};
use serde::{Deserialize, Serialize};

/// Returns `mine` if every rank succeeded; otherwise the same named error on every rank. Collective.
pub fn agree<T>(group: &dyn Group, mine: Result<T>) -> Result<T> {
    let (rank, size) = (group.rank(), group.size());
    // The lowest failed rank speaks for all.
    let mut worst = [if mine.is_err() { (size - rank) as u64 } else { 0 }];
    group.all_max(&mut worst)?;
    if worst[0] == 0 {
        return mine;
    }
    let speaker = size - worst[0] as usize;
    let mut message = match &mine {
        Err(error) if rank == speaker => encode(&Failure::from(error))?,
        _ => Vec::new(),
    };
    group.broadcast(speaker, &mut message)?;
    match mine {
        Err(own) => Err(own),
        Ok(_) => Err(decode::<Failure>(&message)?.on(speaker)),
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

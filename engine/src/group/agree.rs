//! Agreement: a step succeeds only if it succeeded on every rank.

use super::Group;
use crate::error::{Error, ErrorKind, Failure, Result};
use mainstay_format::hash;
use serde::{Deserialize, Serialize};
use std::ops::Range;

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

/// Gathers one value of every rank, in the order of ranks. If all are the same, the list has this value alone. A value
/// that rank 0 has, too, is sent by rank 0 alone. Collective.
pub(crate) fn gather_unequal<T>(group: &dyn Group, mine: &T) -> Result<Vec<T>>
where
    T: Clone + Serialize + for<'a> Deserialize<'a>,
{
    let Unlike { first, others } = gather_unlike(group, mine, mine)?;
    if others.is_empty() {
        return Ok(vec![first]);
    }
    let mut all = vec![first; group.size()];
    others.into_iter().for_each(|(rank, other)| all[rank] = other);
    Ok(all)
}

/// The value of rank 0, and the reports of the ranks with another value.
pub(crate) struct Unlike<K, R> {
    pub(crate) first: K,
    /// With their ranks, ascending.
    pub(crate) others: Vec<(usize, R)>,
}

impl<T> Unlike<T, T> {
    /// The values of all ranks of `group`: stretches of ranks with the value of rank 0, and the others one by one.
    pub(crate) fn stretches(&self, group: &dyn Group) -> Vec<(Range<usize>, &T)> {
        let (mut all, mut next) = (Vec::new(), 0);
        for (rank, other) in &self.others {
            all.extend([(next..*rank, &self.first), (*rank..rank + 1, other)]);
            next = rank + 1;
        }
        all.push((next..group.size(), &self.first));
        all.retain(|(ranks, _)| !ranks.is_empty());
        all
    }
}

/// Compares the values of all ranks with that of rank 0, and gathers the reports of those that differ. If no rank
/// differs, no rank receives anything from every other. Collective.
pub(crate) fn gather_unlike<K, R>(group: &dyn Group, mine: &K, report: &R) -> Result<Unlike<K, R>>
where
    K: Serialize + for<'a> Deserialize<'a>,
    R: Serialize + for<'a> Deserialize<'a>,
{
    let mine = encode(mine)?;
    if are_same(group, &mine)? {
        return Ok(Unlike { first: decode(&mine)?, others: Vec::new() });
    }
    let mut first = mine.clone();
    group.broadcast(0, &mut first)?;
    let report = if mine == first { None } else { Some(encode(report)?) };
    let all = group.all_gather(&report.map_or_else(Vec::new, |report| [&[1], &report[..]].concat()))?;
    let others = all.iter().enumerate().filter_map(|(rank, report)| Some((rank, decode(report.get(1..)?))));
    let others = others.map(|(rank, report)| Ok((rank, report?))).collect::<Result<_>>()?;
    Ok(Unlike { first: decode(&first)?, others })
}

/// Whether `mine` is the same on all ranks. Compares hashes of 128 bits. Collective.
fn are_same(group: &dyn Group, mine: &[u8]) -> Result<bool> {
    let hash = u128::from_le_bytes(hash(mine));
    let [high, low] = [(hash >> 64) as u64, hash as u64];
    // The highest of all hashes, and the complement of the lowest.
    let mut all = [high, low, !high, !low];
    group.all_max(&mut all)?;
    Ok(all == [high, low, !high, !low])
}

/// The value of rank `root`. Collective.
pub(crate) fn broadcast<T: Serialize + for<'a> Deserialize<'a>>(group: &dyn Group, root: usize, mine: &T) -> Result<T> {
    let mut bytes = if group.rank() == root { encode(mine)? } else { Vec::new() };
    group.broadcast(root, &mut bytes)?;
    decode(&bytes)
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

    /// The results of `work` on each rank.
    fn on_all<T: Send>(ranks: usize, work: impl Fn(ThreadGroup) -> Result<T> + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let work = &work;
            let running: Vec<_> =
                ThreadGroup::new(ranks).into_iter().map(|group| scope.spawn(move || work(group))).collect();
            running.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect()
        })
    }

    #[test]
    fn equal_values_are_gathered_once() {
        for (values, expected) in [
            (["a", "a", "a", "a"], vec!["a"]),
            (["a", "b", "a", ""], vec!["a", "b", "a", ""]),
            (["b", "a", "a", "a"], vec!["b", "a", "a", "a"]),
            (["", "", "", ""], vec![""]),
        ] {
            let all = on_all(4, |group| {
                let value = values[group.rank()].to_owned();
                // No rank leaves before all are done.
                gather_unequal(&group, &value).and_then(|all| agree(&group, Ok(all)))
            });
            assert!(all.iter().all(|found| *found == expected), "{all:?}");
        }
    }

    #[test]
    fn only_ranks_unlike_rank_0_report() {
        let all = on_all(5, |group| {
            let (kind, rank) = (group.rank() % 3, group.rank());
            let Unlike { first, others } = gather_unlike(&group, &kind, &rank)?;
            agree(&group, Ok((first, others)))
        });
        assert!(all.iter().all(|found| *found == (0, vec![(1, 1), (2, 2), (4, 4)])), "{all:?}");
        let all = on_all(5, |group| {
            let kind = group.rank() / 2 % 2;
            let unlike = gather_unlike(&group, &kind, &kind)?;
            let stretches = unlike.stretches(&group).into_iter().map(|(ranks, kind)| (ranks, *kind)).collect();
            agree(&group, Ok::<Vec<_>, _>(stretches))
        });
        assert!(all.iter().all(|found| *found == [(0..2, 0), (2..3, 1), (3..4, 1), (4..5, 0)]), "{all:?}");
    }

    #[test]
    fn a_value_comes_from_its_root() {
        let all = on_all(3, |group| {
            let value = broadcast(&group, 1, &group.rank())?;
            agree(&group, Ok(value))
        });
        assert_eq!(all, [1; 3]);
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

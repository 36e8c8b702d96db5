//! Collective data exchange: data of all ranks is combined along a tree of ranks and sent back to all of them.

use crate::wire::{Arriving, Wire};
use mainstay_engine::{Error, Failure, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The ranks that get the data of `root` from `rank`.
pub(crate) fn below(rank: usize, root: usize, ranks: usize) -> impl Iterator<Item = usize> {
    let at = (rank + ranks - root) % ranks;
    [2 * at + 1, 2 * at + 2].into_iter().filter(move |at| *at < ranks).map(move |at| (at + root) % ranks)
}

fn above(rank: usize) -> Option<usize> {
    (rank > 0).then(|| (rank - 1) / 2)
}

/// Combines the data of all ranks with `unite`, up the tree, and returns the result on all of them. Collective.
pub(crate) fn reduce(
    wire: &dyn Wire,
    mine: Vec<u8>,
    mut unite: impl FnMut(Vec<u8>, Vec<u8>) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let (rank, ranks) = (wire.rank(), wire.ranks());
    let mut all = mine;
    // Report an error of `unite` only when no other rank waits any more.
    let mut united = Ok(());
    for from in below(rank, 0, ranks) {
        let came = receive(wire, from)?;
        if united.is_ok() {
            match unite(std::mem::take(&mut all), came) {
                Ok(both) => all = both,
                Err(error) => united = Err(error),
            }
        }
    }
    if let Some(to) = above(rank) {
        send(wire, to, &all)?;
        all = receive(wire, to)?;
    }
    for to in below(rank, 0, ranks) {
        send(wire, to, &all)?;
    }
    united.map(|()| all)
}

/// The data of each rank, in the order of ranks, on all of them. Collective.
pub(crate) fn gather<T: Serialize + DeserializeOwned>(wire: &dyn Wire, mine: &T) -> Result<Vec<T>> {
    let mine = encode(&vec![(wire.rank() as u32, encode(mine)?)])?;
    let all = reduce(wire, mine, |low, high| {
        let mut both: Vec<(u32, Vec<u8>)> = decode(&low)?;
        both.extend(decode::<Vec<(u32, Vec<u8>)>>(&high)?);
        encode(&both)
    })?;
    let mut all: Vec<(u32, Vec<u8>)> = decode(&all)?;
    all.sort_by_key(|(rank, _)| *rank);
    if all.iter().enumerate().any(|(at, (rank, _))| at != *rank as usize) || all.len() != wire.ranks() {
        return Err(garbled());
    }
    all.iter().map(|(_, told)| decode(told)).collect()
}

/// The same result on all ranks: `Ok` if it is on each, else the error of the lowest rank that has one. Collective.
pub(crate) fn agree<T>(wire: &dyn Wire, mine: Result<T>) -> Result<T> {
    if matches!(&mine, Err(error) if error.kind() == mainstay_engine::ErrorKind::GroupFailed) {
        return mine;
    }
    let told = gather(wire, &mine.as_ref().err().map(told_of))?;
    match told.into_iter().enumerate().find_map(|(rank, told)| Some((rank, told?))) {
        None => mine,
        Some((_, Told::Argument { what, why })) => Err(Error::argument(what, why)),
        Some((rank, Told::Other(failure))) => Err(Error::OnRank { rank, failure }),
    }
}

/// An error in the form for other ranks.
#[derive(Serialize, Deserialize)]
enum Told {
    /// It names an object, which may be on any rank.
    Argument {
        what: String,
        why: String,
    },
    Other(Failure),
}

fn told_of(error: &Error) -> Told {
    match error {
        Error::InvalidArgument { what, why } => Told::Argument { what: what.clone(), why: why.clone() },
        other => Told::Other(Failure::from(other)),
    }
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    postcard::to_allocvec(value).map_err(|error| Error::Internal { what: format!("encoding for other ranks: {error}") })
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|_| garbled())
}

pub(crate) fn garbled() -> Error {
    Error::GroupFailed {
        what: "a rank has sent an invalid message; use the same Mainstay version on all ranks".to_owned(),
    }
}

fn send(wire: &dyn Wire, to: usize, bytes: &[u8]) -> Result<()> {
    let length = (bytes.len() as u64).to_le_bytes();
    wire.exchange(&[(to, &length)], &mut Vec::new(), &mut || false)?;
    wire.exchange(&[(to, bytes)], &mut Vec::new(), &mut || false)
}

fn receive(wire: &dyn Wire, from: usize) -> Result<Vec<u8>> {
    let mut length = vec![Arriving { from, bytes: vec![0; 8] }];
    wire.exchange(&[], &mut length, &mut || false)?;
    let length = length.first().and_then(|one| one.bytes.as_slice().try_into().ok()).map(u64::from_le_bytes);
    let room = length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length < 1 << 40);
    let mut arriving = vec![Arriving { from, bytes: vec![0; room.ok_or_else(garbled)?] }];
    wire.exchange(&[], &mut arriving, &mut || false)?;
    arriving.pop().map(|one| one.bytes).ok_or_else(garbled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_engine::ErrorKind;

    struct Alone;

    impl Wire for Alone {
        fn rank(&self) -> usize {
            0
        }

        fn ranks(&self) -> usize {
            1
        }

        fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()> {
            from.copy_from_slice(to);
            Ok(())
        }

        fn exchange(&self, _: &[(usize, &[u8])], _: &mut Vec<Arriving>, _: &mut dyn FnMut() -> bool) -> Result<()> {
            Ok(())
        }
    }

    /// Story: a checkpoint of objects on a full disk failed with an invalid argument.
    #[test]
    fn an_error_keeps_its_kind() {
        let full = Error::PoolFull { path: "/pool".to_owned(), needed: 2, available: 1 };
        let told = agree::<()>(&Alone, Err(full.clone())).unwrap_err();
        assert_eq!((told.kind(), told.to_string()), (ErrorKind::PoolFull, format!("on rank 0: {full}")));
        let wrong = agree::<()>(&Alone, Err(Error::argument("object cell[3]", "it is wrong"))).unwrap_err();
        assert_eq!(
            (wrong.kind(), wrong.to_string()),
            (ErrorKind::InvalidArgument, "object cell[3]: it is wrong".to_owned())
        );
    }
}

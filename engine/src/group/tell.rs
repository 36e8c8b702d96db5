//! Sends values from one rank to another.

use super::{
    Group,
    agree::{decode, encode},
};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Sends `value` to rank `to`, which calls `hear`.
pub(crate) fn tell<T: Serialize>(group: &dyn Group, to: usize, value: &T) -> Result<()> {
    let bytes = encode(value)?;
    group.send(to, &(bytes.len() as u64).to_le_bytes())?;
    group.send(to, &bytes)
}

/// Receives the next value that `from` sends to this rank.
pub(crate) fn hear<T: for<'a> Deserialize<'a>>(group: &dyn Group, from: usize) -> Result<T> {
    let mut length = [0; 8];
    group.receive(from, &mut length)?;
    let length = u64::from_le_bytes(length) as usize;
    let mut bytes = Vec::new();
    let refused = |_| Error::GroupFailed { what: format!("a message of {length} bytes from rank {from}") };
    bytes.try_reserve_exact(length).map_err(refused)?;
    bytes.resize(length, 0);
    group.receive(from, &mut bytes)?;
    decode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::ErrorKind, group::ThreadGroup};
    use std::thread;

    #[test]
    fn a_length_that_no_memory_has_is_an_error() {
        let group = ThreadGroup::new(2);
        thread::scope(|scope| {
            scope.spawn(|| group[0].send(1, &u64::MAX.to_le_bytes()).unwrap());
            let heard = scope.spawn(|| hear::<u64>(&group[1], 0)).join().unwrap();
            assert_eq!(heard.unwrap_err().kind(), ErrorKind::GroupFailed);
        });
    }
}

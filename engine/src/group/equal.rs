//! Collectives for adapters that need the same number of bytes from every rank, as MPI does: lengths are exchanged
//! first.

use crate::error::Result;

/// [`Group::all_gather`](super::Group::all_gather) by means of `gather`. `gather` gets the same number of bytes on
/// every rank, and returns the bytes of all ranks, one after the other. Collective.
pub fn gather_padded(mine: &[u8], gather: impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let lengths = gather(&(mine.len() as u64).to_le_bytes())?;
    let (lengths, _) = lengths.as_chunks();
    let lengths = lengths.iter().map(|bytes| u64::from_le_bytes(*bytes) as usize);
    let longest = lengths.clone().max().unwrap_or(0).max(1);
    let mut padded = mine.to_vec();
    padded.resize(longest, 0);
    let all = gather(&padded)?;
    Ok(all.chunks_exact(longest).zip(lengths).map(|(bytes, length)| bytes[..length].to_vec()).collect())
}

/// [`Group::broadcast`](super::Group::broadcast) by means of `broadcast`, which gets the same number of bytes on every
/// rank. Collective.
pub fn broadcast_sized(bytes: &mut Vec<u8>, broadcast: impl Fn(&mut [u8]) -> Result<()>) -> Result<()> {
    let mut length = (bytes.len() as u64).to_le_bytes();
    broadcast(&mut length)?;
    bytes.resize(u64::from_le_bytes(length) as usize, 0);
    broadcast(bytes)
}

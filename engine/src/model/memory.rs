//! The memory that a level in memory needs.

/// Bytes of the node's memory for one rank that holds as many copies as it gives. `shard` × `copies` × (`keep` + 1) is
/// for the kept revisions and the one being saved. The rank's own shard is added once for each of the `feeds` slower
/// levels that are fed from there, because each may still read a revision of its own. `None`: the number is too large.
pub fn memory_bytes(shard: u64, copies: u64, keep: u64, feeds: u64) -> Option<u64> {
    let shards = copies.checked_mul(keep.checked_add(1)?)?.checked_add(feeds)?;
    shard.checked_mul(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_is_being_saved_and_one_more_is_read() {
        assert_eq!([0, 1, 2].map(|feeds| memory_bytes(100, 2, 2, feeds)), [600, 700, 800].map(Some));
        assert_eq!([0, 1, 2].map(|feeds| memory_bytes(100, 1, 1, feeds)), [200, 300, 400].map(Some));
        assert_eq!((memory_bytes(0, 2, 1, 1), memory_bytes(u64::MAX, 1, 0, 0)), (Some(0), Some(u64::MAX)));
        assert_eq!((memory_bytes(u64::MAX, 2, 1, 1), memory_bytes(1, 1, u64::MAX, 0)), (None, None));
    }
}

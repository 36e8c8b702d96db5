//! How much memory a level in memory takes.

/// Bytes that a rank's part of the node holds, where it holds as many copies as it gives: `shard` × `copies` × (`keep` +
/// 1), for what is kept and what is being saved; and one revision more while a slower level is fed from there. `None`: more
/// than can be.
pub fn memory_bytes(shard: u64, copies: u64, keep: u64, feeds: bool) -> Option<u64> {
    let revisions = keep.checked_add(1)?.checked_add(u64::from(feeds))?;
    shard.checked_mul(copies)?.checked_mul(revisions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_is_being_saved_and_one_more_is_read() {
        assert_eq!((memory_bytes(100, 2, 2, false), memory_bytes(100, 2, 2, true)), (Some(600), Some(800)));
        assert_eq!((memory_bytes(0, 2, 1, true), memory_bytes(u64::MAX, 1, 0, false)), (Some(0), Some(u64::MAX)));
        assert_eq!((memory_bytes(u64::MAX, 2, 1, true), memory_bytes(1, 1, u64::MAX, false)), (None, None));
    }
}

//! The node: the ranks that share a pool. Found by looking, not by comparing host names: those that see the
//! file that one of them has made. `MAINSTAY_NODE` tells ranks apart that see it all the same.

use crate::{
    config::Config,
    error::Result,
    group::{Group, agree, gather},
    pool::{Pool, Shape, ceiling, is_in_sight},
    space::format::BLOCK_BYTES,
};
use std::os::unix::ffi::OsStringExt;

/// What a rank has of its node.
pub(super) struct Node {
    /// Its lowest rank.
    pub(super) leader: usize,
    pub(super) pool: Pool,
}

impl Node {
    /// Finds the nodes of the job, and makes the pool of each: only its tables yet. Collective.
    pub(super) fn find(group: &dyn Group, config: &Config) -> Result<Node> {
        let (rank, size) = (group.rank(), group.size());
        let label = std::env::var_os("MAINSTAY_NODE").unwrap_or_default().into_vec();
        let labels = gather(group, &label)?;
        let members = labels.iter().filter(|theirs| **theirs == label).count().min(group.ranks_here().max(1));
        let mut mine: Option<(usize, [u8; 16], usize)> = None;
        let mut made = None;
        loop {
            // The lowest rank without a node leads the next one.
            let mut lowest = [if mine.is_none() { (size - rank) as u64 } else { 0 }];
            group.all_max(&mut lowest)?;
            if lowest[0] == 0 {
                break;
            }
            let next = size - lowest[0] as usize;
            let pool = if rank == next {
                Pool::create(&config.pool_directory, &shape(config, members, size)).map(Some)
            } else {
                Ok(None)
            };
            let pool = agree(group, pool)?;
            let told = pool.as_ref().map(|pool| (pool.id(), members));
            let told = gather(group, &told)?.swap_remove(next);
            let (id, members) = told.unwrap_or_default();
            let is_like = mine.is_none() && labels[next] == label;
            let sees = rank == next || (is_like && is_in_sight(&config.pool_directory, id));
            let index = gather(group, &sees)?[..rank].iter().filter(|sees| **sees).count();
            // More than were thought to be here: these have a pool of their own.
            if sees && index < members {
                (mine, made) = (Some((next, id, index)), pool);
            }
        }
        let (leader, id, index) = mine.unwrap_or_default();
        let joined = match made {
            Some(pool) => Ok(pool),
            None => Pool::join(&config.pool_directory, id, index as u32),
        };
        let pool = agree(group, joined)?;
        Ok(Node { leader, pool })
    }
}

/// `members` ranks of a job of `size` share it.
fn shape(config: &Config, members: usize, size: usize) -> Shape {
    let bytes = config.pool_bytes.unwrap_or_else(|| ceiling(&config.pool_directory));
    let suits = config.chunk_bytes.unwrap_or_else(|| chunk_bytes_for(bytes, members));
    let grows = config.pool_bytes.is_none();
    // Those who write for others are sent whole chunks, from the beginning on.
    let is_fixed = !grows || config.chunk_bytes.is_some() || (1..size).contains(&(config.aggregators as usize));
    Shape {
        bytes,
        grows,
        chunk_bytes: if is_fixed { suits } else { suits.min(CHUNK_LEAST) },
        chunk_bytes_max: suits,
        members: members as u32,
        held: config.pool_held,
        writes_max: config.writes_at_once(),
    }
}

/// Smaller writes cost more than the room is worth.
const CHUNK_LEAST: u64 = 256 << 10;

/// Bytes of a chunk where none are set: as published (000), or the power of two of which the pool has two for each rank.
/// A rank's last chunk is seldom full, and the rest of it serves nobody: with large ones ranks wait although the pool is
/// larger than all that they save.
fn chunk_bytes_for(pool_bytes: u64, ranks: usize) -> u64 {
    const PUBLISHED: u64 = 4 << 20;
    let share = (pool_bytes / (2 * ranks as u64)).clamp(CHUNK_LEAST, PUBLISHED);
    // One to fill while another is written, also in a pool that is tiny.
    (1 << share.ilog2()).min(pool_bytes / 2 / BLOCK_BYTES * BLOCK_BYTES).max(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn the_pool_has_two_chunks_for_each_rank_where_none_are_set() {
        let found = [
            (64 * MIB, 1, 4 * MIB),
            (64 * MIB, 8, 4 * MIB),
            (64 * MIB, 9, 2 * MIB),
            (64 * MIB - 1, 8, 2 * MIB),
            (64 * MIB, 64, 512 * KIB),
            (64 * MIB, 1000, 256 * KIB),
            (80_000_000, 32, MIB),
            (1 << 40, 64, 4 * MIB),
            (u64::MAX, 1, 4 * MIB),
            // Less than two of the smallest for each.
            (512 * KIB, 4, 256 * KIB),
            (300 * KIB, 1, 148 * KIB),
            (2 * BLOCK_BYTES, 3, BLOCK_BYTES),
            (3 * BLOCK_BYTES + 1, 1, BLOCK_BYTES),
        ];
        for (pool_bytes, ranks, expected) in found {
            assert_eq!(chunk_bytes_for(pool_bytes, ranks), expected, "{ranks} ranks, a pool of {pool_bytes} bytes");
        }
    }

    #[test]
    fn what_is_set_counts() {
        let set = Config { pool_bytes: Some(64 * MIB), ..Config::default() };
        let chunk = |config: &Config| {
            let shape = shape(config, 64, 64);
            (shape.chunk_bytes, shape.chunk_bytes_max)
        };
        assert_eq!(chunk(&set), (512 * KIB, 512 * KIB));
        for pool_bytes in [set.pool_bytes, None] {
            let config = Config { chunk_bytes: Some(32 * MIB), pool_bytes, ..Config::default() };
            assert_eq!(chunk(&config), (32 * MIB, 32 * MIB));
        }
    }

    #[test]
    fn chunks_of_a_pool_that_sizes_itself_fit_the_shards_unless_ranks_write_for_others() {
        let chunks = |aggregators| {
            let shape = shape(&Config { aggregators, ..Config::default() }, 1, 4);
            (shape.grows, shape.chunk_bytes == shape.chunk_bytes_max)
        };
        assert_eq!([0, 1, 3, 4].map(chunks), [(true, false), (true, true), (true, true), (true, false)]);
    }
}

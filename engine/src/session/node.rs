//! The node: the ranks that share a pool. Found by looking, not by comparing host names: those that see the
//! file that one of them has made. `MAINSTAY_NODE` tells ranks apart that see it all the same.

use crate::{
    config::Config,
    error::Result,
    group::{Group, agree, gather},
    pool::{Pool, Shape, is_in_sight},
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
                Pool::create(&config.pool_directory, &shape(config, members)).map(Some)
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

fn shape(config: &Config, members: usize) -> Shape {
    Shape {
        bytes: config.pool_bytes,
        chunk_bytes: config.chunk_bytes.unwrap_or_else(|| chunk_bytes_for(config.pool_bytes, members)),
        members: members as u32,
        held: config.pool_held,
        writes_max: config.writes_at_once(),
    }
}

/// Bytes of a chunk where none are set: as published (000), or the power of two of which the pool has two for each rank.
/// A rank's last chunk is seldom full, and the rest of it serves nobody: with large ones ranks wait although the pool is
/// larger than all that they save.
fn chunk_bytes_for(pool_bytes: u64, ranks: usize) -> u64 {
    const PUBLISHED: u64 = 4 << 20;
    /// Smaller writes cost more than the room is worth.
    const LEAST: u64 = 256 << 10;
    let share = (pool_bytes / (2 * ranks as u64)).clamp(LEAST, PUBLISHED);
    // One to fill while another is written, also in a pool that is tiny.
    (1 << share.ilog2()).min(pool_bytes / 2 / BLOCK_BYTES * BLOCK_BYTES)
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
        let config = Config { chunk_bytes: Some(32 * MIB), ..Config::default() };
        assert_eq!(shape(&config, 64).chunk_bytes, 32 * MIB);
        assert_eq!(shape(&Config::default(), 64).chunk_bytes, 512 * KIB);
    }
}

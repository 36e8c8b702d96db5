//! The node: the ranks that share a pool. Found by looking, not by comparing host names: those that see the
//! file that one of them has made. `MAINSTAY_NODE` tells ranks apart that see it all the same.

use crate::{
    config::Config,
    error::Result,
    group::{Group, agree, gather},
    pool::{Pool, Shape, is_in_sight},
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
        let members = group.ranks_here().max(1);
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
            let told = pool.as_ref().map(|pool| (pool.id(), members, label.clone()));
            let told = gather(group, &told)?.swap_remove(next);
            let (id, members, theirs) = told.unwrap_or_default();
            let sees = rank == next || (mine.is_none() && theirs == label && is_in_sight(&config.pool_directory, id));
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
        chunk_bytes: config.chunk_bytes,
        members: members as u32,
        held: config.pool_held,
        writes_max: config.writes_at_once(),
    }
}

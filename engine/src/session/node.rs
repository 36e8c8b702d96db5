//! The node: the ranks that share a pool. Found by looking, not by comparing host names: those that see the
//! file that one of them has made. `MAINSTAY_NODE` tells ranks apart that see it all the same.

use crate::{
    config::Config,
    error::Result,
    group::{Group, agree, gather},
    pool::{Pool, Record, Shape, is_here},
};
use std::{os::unix::ffi::OsStringExt, sync::Arc};

/// What a rank has of its node.
pub(super) struct Node {
    /// Its lowest rank.
    pub(super) leader: usize,
    pub(super) pool: Pool,
    pub(super) record: Arc<Record>,
}

impl Node {
    /// Finds the nodes of the job, and makes the pool of each: only its tables yet. Collective.
    pub(super) fn find(group: &dyn Group, config: &Config) -> Result<Node> {
        let (rank, size) = (group.rank(), group.size());
        let label = std::env::var_os("MAINSTAY_NODE").unwrap_or_default().into_vec();
        let mut mine: Option<(usize, [u8; 16])> = None;
        let mut made = None;
        loop {
            // The lowest rank without a node leads the next one.
            let mut lowest = [if mine.is_none() { (size - rank) as u64 } else { 0 }];
            group.all_max(&mut lowest)?;
            if lowest[0] == 0 {
                break;
            }
            let next = size - lowest[0] as usize;
            let pool = if rank == next { Pool::create(&config.pool_directory, &shape(group, config)).map(Some) } else { Ok(None) };
            let pool = agree(group, pool)?;
            let mut name = pool.as_ref().map_or(Vec::new(), |pool| [&pool.id()[..], &label].concat());
            group.broadcast(next, &mut name)?;
            let id: [u8; 16] = name.get(..16).and_then(|id| id.try_into().ok()).unwrap_or_default();
            let sees = name.get(16..) == Some(&label) && is_here(&config.pool_directory, id);
            if rank == next || (mine.is_none() && sees) {
                (mine, made) = (Some((next, id)), pool.or(made));
            }
        }
        let (leader, id) = mine.unwrap_or_default();
        let leaders = gather(group, &leader)?;
        let index = leaders[..rank].iter().filter(|other| **other == leader).count();
        let joined = match made {
            Some(pool) => Ok(pool),
            None => Pool::join(&config.pool_directory, id, index as u32),
        };
        let pool = agree(group, joined)?;
        let record = agree(group, Record::create(&pool, rank as u32))?;
        Ok(Node { leader, pool, record: Arc::new(record) })
    }
}

fn shape(group: &dyn Group, config: &Config) -> Shape {
    Shape {
        bytes: config.pool_bytes,
        chunk_bytes: config.chunk_bytes,
        members: group.ranks_here().max(1) as u32,
        members_max: group.size() as u32,
        held: config.pool_held,
        writes_max: config.io_threads_for(1) as u32,
    }
}

//! Moves the captured bytes out of the program's way.
//!
//! `pool` (WAG-DBI, paper 000 §III): into chunks of a bounded pool, which I/O threads empty. `direct`:
//! no buffer, the program's own thread writes each region as it is; the baseline. Owns the pool.
//! What must hold: after t2 nothing here refers to the program's memory.

mod direct;
mod making;
mod pool;

pub(crate) use direct::write_direct;
pub(crate) use making::PoolInMaking;
use pool::{Chunk, Pool};

use crate::{
    capture::{Piece, Region, Stream},
    place::{IoThreads, Saving, Staged},
};
use std::{sync::Arc, time::Instant};

/// Which way bytes leave the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Into the node's pool, which I/O threads empty.
    #[default]
    Pool,
    /// Small pieces gathered by each rank, the others into a buffer of the node.
    Node,
    /// Into a buffer of each rank, which the program's own thread writes when it is full.
    Rank,
    /// Written by the program's own thread as it comes.
    Direct,
}

/// Copies the stream into chunks and hands each to the I/O threads. Writing begins at once: it takes a
/// device, and next to no processor. Hashing waits for t2, or for the program to run out of chunks: it
/// would take the memory's speed away from the copy. Stops early once the revision has failed: what is
/// left would not be written.
pub(crate) fn stage_pool(
    stream: &Stream,
    regions: &[Region],
    saving: &Arc<Saving>,
    pool: &Pool,
    threads: &IoThreads,
) -> Staged {
    let (mut staged, mut unhashed) = (Staged::default(), Vec::new());
    let hash = |unhashed: &mut Vec<(Arc<Chunk>, Piece)>| {
        for (chunk, piece) in unhashed.drain(..) {
            threads.hash(saving, chunk, piece);
        }
    };
    for piece in saving.pieces(pool.chunk_bytes()) {
        let asked = Instant::now();
        let mut chunk = pool.take_now().unwrap_or_else(|| {
            hash(&mut unhashed);
            pool.take()
        });
        let taken = Instant::now();
        if saving.has_failed() {
            break;
        }
        stream.fill(piece, regions, &mut chunk.bytes_mut()[..piece.bytes as usize]);
        staged.buffer_wait += taken - asked;
        staged.copy += taken.elapsed();
        staged.chunks += 1;
        let chunk = Arc::new(chunk);
        threads.write(saving, chunk.clone(), piece);
        unhashed.push((chunk, piece));
    }
    hash(&mut unhashed);
    staged
}

//! Moves the captured bytes out of the program's way.
//!
//! `pool` (WAG-DBI, paper 000 §III): into chunks of a bounded pool, which I/O threads empty. `direct`:
//! no buffer, the program's own thread writes each region as it is; the baseline. Owns the pool.
//! What must hold: after t2 nothing here refers to the program's memory.

mod direct;
mod pool;

pub(crate) use direct::write_direct;
pub(crate) use pool::{Chunk, Pool};

use crate::{
    capture::{Region, Stream},
    place::{IoThreads, Saving, Staged},
};
use std::{sync::Arc, time::Instant};

/// Which way bytes leave the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    #[default]
    Pool,
    Direct,
}

/// Copies the stream into chunks and hands each to the I/O threads. Stops early once the revision has
/// failed: what is left would not be written.
pub(crate) fn stage_pool(
    stream: &Stream,
    regions: &[Region],
    saving: &Arc<Saving>,
    pool: &Pool,
    threads: &IoThreads,
) -> Staged {
    let mut staged = Staged::default();
    for piece in saving.pieces(pool.chunk_bytes()) {
        let asked = Instant::now();
        let mut chunk = pool.take();
        let taken = Instant::now();
        if saving.has_failed() {
            break;
        }
        stream.fill(piece, regions, &mut chunk.bytes_mut()[..piece.bytes as usize]);
        staged.buffer_wait += taken - asked;
        staged.copy += taken.elapsed();
        staged.chunks += 1;
        threads.carry(saving, Box::new(chunk), piece);
    }
    staged
}

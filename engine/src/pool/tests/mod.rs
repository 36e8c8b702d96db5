mod growing;
mod hostile;
mod left_behind;
mod opening;
mod peer;
mod recording;
mod scarce;
mod sharing;

use super::{Chunk, Pool, Shape};
use crate::{Result, config::PoolHeld, space::draw_id};
use std::path::Path;
use tempfile::TempDir;

const CHUNK: u64 = 64 << 10;

fn shape(members: u32, chunks: u32) -> Shape {
    Shape {
        bytes: u64::from(chunks) * CHUNK,
        grows: false,
        chunk_bytes: CHUNK,
        chunk_bytes_max: CHUNK,
        members,
        held: PoolHeld::Always,
        writes_max: 1,
    }
}

fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn create(directory: &Path, shape: &Shape) -> Result<Pool> {
    Pool::create(directory, draw_id()?, shape)
}

fn pool(directory: &TempDir, members: u32, chunks: u32) -> Pool {
    create(directory.path(), &shape(members, chunks)).unwrap()
}

fn take(pool: &Pool) -> Chunk {
    pool.take_now().expect("a chunk is free").unwrap()
}

fn take_all(pool: &Pool) -> Vec<Chunk> {
    std::iter::from_fn(|| pool.take_now()).map(Result::unwrap).collect()
}

fn files(directory: &Path) -> Vec<String> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

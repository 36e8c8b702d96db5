//! Taking revisions out of a space.

mod array;
mod copy;
mod cover;
mod export;
mod unfinished;
mod view;

pub use copy::copy;
pub use cover::{Block, left_by};
pub use export::export;
pub use view::view;

/// Name of a shard in the output of `export` and `view`: as wide as the longest, so that names sort.
fn shard_path(shard: u32, shards: u32) -> String {
    let digits = shards.saturating_sub(1).to_string().len().max(4);
    format!("shard/{shard:0digits$}")
}

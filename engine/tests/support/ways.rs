//! The ways to spread a job: over the files of its layout, and over nodes.

use mainstay_engine::{Capture, Compress, space::Per};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// The ranks that share a file, and the number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    pub per: Per,
    pub nodes: usize,
}

pub const ONE_FILE: Way = Way { per: Per::App, nodes: 1 };

pub const WAYS: [Way; 6] = [
    ONE_FILE,
    Way { per: Per::Rank, nodes: 2 },
    Way { per: Per::Node, nodes: 2 },
    Way { per: Per::Rank, nodes: 1 },
    Way { per: Per::App, nodes: 2 },
    Way { per: Per::Node, nodes: 1 },
];

/// The kind of capture by the number of a case: the whole state, or the changes.
pub fn capture_of(number: usize) -> Capture {
    [Capture::Incremental, Capture::Whole, Capture::IncrementalSnapshot][number % 3]
}

/// The ways on one node, with a pool that all ranks share.
pub fn on_one_node() -> impl Iterator<Item = Way> + Clone {
    WAYS.into_iter().filter(|way| way.nodes == 1)
}

/// The compression by the number of a case.
pub fn compress_of(number: usize) -> Compress {
    [Compress::Lz4, Compress::Off, Compress::Zstd][number % 3]
}

impl Way {
    /// The way with the number `seed`, modulo their count.
    pub fn of(seed: u64) -> Way {
        WAYS[(seed % WAYS.len() as u64) as usize]
    }

    /// The directory of the pools of the node of `rank`. With two nodes, rank 0 is alone on its node.
    pub fn pools_of(self, rank: usize, pools: &Path) -> PathBuf {
        if self.nodes == 1 { pools.to_owned() } else { pools.join(format!("node{}", rank.min(1))) }
    }

    /// The directories of all nodes, which are made if missing.
    pub fn all_pools(self, pools: &Path) -> Vec<PathBuf> {
        let all: Vec<PathBuf> = (0..self.nodes).map(|rank| self.pools_of(rank, pools)).collect();
        all.iter().for_each(|node| fs::create_dir_all(node).unwrap());
        all
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a file for each {:?}, {} node(s)", self.per, self.nodes)
    }
}

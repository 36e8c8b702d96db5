//! The items of one shard in a view, each as a dataset.

use super::pieces::Piece;
use mainstay_engine::{
    ShardSurvey,
    space::format::{ElementType, Item},
};
use std::path::PathBuf;

pub struct Shard<'a> {
    pub survey: &'a ShardSurvey,
    /// The group of its datasets.
    pub path: String,
    /// The layout file of the shard.
    pub file: PathBuf,
    pub datasets: Vec<Dataset>,
}

pub struct Dataset {
    pub path: String,
    pub item: Item,
    pub element: ElementType,
    pub shape: Vec<u64>,
    /// The places of its bytes in the layout file.
    pub pieces: Vec<Piece>,
}

pub struct LeftOut {
    /// `None` for an array of all shards.
    pub shard: Option<u32>,
    pub item: String,
    pub why: String,
}

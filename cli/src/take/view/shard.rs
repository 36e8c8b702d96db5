//! What a view shows of one shard, each item as a dataset.

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
    /// The layout's file that it lies in.
    pub file: PathBuf,
    pub datasets: Vec<Dataset>,
}

pub struct Dataset {
    pub path: String,
    pub item: Item,
    pub element: ElementType,
    pub shape: Vec<u64>,
    /// Where its bytes are in the layout's file.
    pub pieces: Vec<Piece>,
}

pub struct LeftOut {
    /// `None` of an array of all shards.
    pub shard: Option<u32>,
    pub item: String,
    pub why: String,
}

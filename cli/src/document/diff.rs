//! The document of `mainstay diff`.

use super::Key;
use mainstay_engine::space::format::Item;
use serde::Serialize;

#[derive(Serialize)]
pub struct Diff<'a> {
    pub space: &'a str,
    pub first: Key,
    pub second: Key,
    pub same: bool,
    pub items: Vec<ItemDiff>,
}

/// An item of one shard; of a global array that is compared as a whole, the box that a shard of the first revision has.
#[derive(Serialize)]
pub struct ItemDiff {
    pub item: String,
    pub shard: u32,
    /// Compared cell by cell with whichever shards of the second revision have them.
    pub global: bool,
    pub state: DiffState,
    pub first: Option<DiffSide>,
    pub second: Option<DiffSide>,
    /// Of 4 KiB, of the larger of the two.
    pub blocks: u64,
    pub blocks_changed: u64,
    /// Bytes, where nothing was said of elements. Those at the end of the larger one are not counted.
    pub elements_changed: u64,
    /// Of those whose difference is a finite number; of complex ones its absolute value.
    pub largest_difference: Option<f64>,
    /// Where: the index in each dimension, of the global array if it belongs to one.
    pub largest_at: Option<Vec<u64>>,
    /// Changed elements whose difference is infinite or no number.
    pub not_finite: u64,
    /// The first element that has changed: where, as above, and as both revisions have it.
    pub first_at: Option<Vec<u64>>,
    pub first_values: Option<[String; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffState {
    Same,
    Changed,
    /// The type or shape differs.
    Reshaped,
    OnlyInFirst,
    OnlyInSecond,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffSide {
    pub bytes: u64,
    pub element_type: &'static str,
    pub shape: Vec<u64>,
    pub global_shape: Option<Vec<u64>>,
    pub offset: Option<Vec<u64>>,
}

impl DiffSide {
    pub fn of(item: &Item) -> DiffSide {
        DiffSide {
            bytes: item.bytes,
            element_type: item.element.name(),
            shape: item.shape.clone(),
            global_shape: item.place.as_ref().map(|place| place.global_shape.clone()),
            offset: item.place.as_ref().map(|place| place.offset.clone()),
        }
    }
}

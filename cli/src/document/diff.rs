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

/// An item of one shard. For a global array that is compared as a whole: the box of a shard of the first revision.
#[derive(Serialize)]
pub struct ItemDiff {
    pub item: String,
    pub shard: u32,
    /// Compared cell by cell with any shards of the second revision.
    pub global: bool,
    pub state: DiffState,
    pub first: Option<DiffSide>,
    pub second: Option<DiffSide>,
    /// Blocks of 4 KiB, of the larger item.
    pub blocks: u64,
    pub blocks_changed: u64,
    /// Bytes, if the item has no element type. Elements at the end of the larger item are not counted.
    pub elements_changed: u64,
    /// The largest finite difference; for complex numbers the absolute value.
    pub largest_difference: Option<f64>,
    /// Its index in each dimension, in the global array if there is one.
    pub largest_at: Option<Vec<u64>>,
    /// Changed elements with an infinite difference or NaN.
    pub not_finite: u64,
    /// The first changed element: its index, as above, and both its values.
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

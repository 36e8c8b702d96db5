//! Items of a shard, for readers and sessions alike.

use crate::error::c_text;
use mainstay_engine::{Error, space::format::Item as EngineItem};
use std::ffi::{CString, c_char};

/// An item of a shard. Its pointers are valid until mainstay_reader_close. For an item of a session, they are valid
/// until the next mainstay_bring_shards or mainstay_restore, or the close.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Item {
    pub name: *const c_char,
    /// 0: a region, 1: a buffer of mainstay_put (the command prints `object`), 2: a stream.
    pub kind: u32,
    /// A mainstay_type.
    pub r#type: u32,
    pub bytes: u64,
    pub dimensions: usize,
    /// `dimensions` numbers of elements, slowest first.
    pub shape: *const u64,
    /// Shape of the global array in which the item is a box, and the beginning of that box; NULL: it is none.
    pub global_shape: *const u64,
    pub offset: *const u64,
}

impl Item {
    /// In place of a missing item.
    pub(crate) fn none() -> Item {
        let (name, shape) = (std::ptr::null(), std::ptr::null());
        Item { name, kind: 0, r#type: 0, bytes: 0, dimensions: 0, shape, global_shape: shape, offset: shape }
    }
}

/// An item, with its name as a C string.
pub(crate) struct Named {
    name: CString,
    item: EngineItem,
}

impl Named {
    pub(crate) fn all<'a>(items: impl IntoIterator<Item = &'a EngineItem>) -> Vec<Named> {
        items.into_iter().cloned().map(Named::of).collect()
    }

    pub(crate) fn of(item: EngineItem) -> Named {
        Named { name: c_text(&item.name), item }
    }

    /// The C form of this item, valid as long as `self`.
    pub(crate) fn told(&self) -> Item {
        let Named { name, item } = self;
        let place = item.place.as_ref();
        Item {
            name: name.as_ptr(),
            kind: item.kind as u32,
            r#type: item.element as u32,
            bytes: item.bytes,
            dimensions: item.shape.len(),
            shape: item.shape.as_ptr(),
            global_shape: place.map_or(std::ptr::null(), |place| place.global_shape.as_ptr()),
            offset: place.map_or(std::ptr::null(), |place| place.offset.as_ptr()),
        }
    }
}

/// Item `index` of a shard.
pub(crate) fn told(items: &[Named], shard: u32, index: usize) -> Result<Item, Error> {
    let why = || Error::argument("index", format!("{index}, shard {shard} has {} items", items.len()));
    items.get(index).map(Named::told).ok_or_else(why)
}

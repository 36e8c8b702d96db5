//! Brings what was saved and what is protected together.

use super::scatter::Scatter;
use crate::{
    capture::{Region, kind_of},
    error::{Error, Result},
    space::format::{ElementType, Item, ItemKind, Manifest},
};
use std::collections::HashMap;

/// Where the bytes of a portion go.
pub(crate) struct Targets<'a>(Scatter<&'a Region>);

/// Pairs each item of the manifest with the region of its name. Every region that was saved must be
/// protected with the type and size that it was saved with, and every protected region must have been saved.
pub(crate) fn match_regions<'a>(manifest: &Manifest, regions: &'a [Region], number: u64) -> Result<Targets<'a>> {
    let mut missing: HashMap<&str, &'a Region> =
        regions.iter().map(|region| (region.description.name.as_str(), region)).collect();
    let mut pairs = Vec::with_capacity(manifest.items.len());
    for item in &manifest.items {
        let region = missing.remove(item.name.as_str());
        if item.kind != ItemKind::Region && region.is_none() {
            // Streams, and what was put, have no region: the program reads them when it wants to.
            continue;
        }
        let Some(region) = region else {
            let why = format!(
                "is in revision {number} and not protected; protect it before the restore, or open another space"
            );
            return Err(Error::RegionMissing { name: item.name.clone(), why });
        };
        if !is_same(item, region) {
            return Err(Error::RegionChanged {
                name: item.name.clone(),
                saved: saved_as(item),
                now: region.description.kind(),
            });
        }
        pairs.push((item, region));
    }
    if let Some(name) = missing.into_keys().min() {
        let why = format!("is protected and not in revision {number}; protect it only after the restore");
        return Err(Error::RegionMissing { name: name.to_owned(), why });
    }
    Ok(Targets(Scatter::new(pairs)))
}

pub(super) fn saved_as(item: &Item) -> String {
    match item.kind {
        ItemKind::Stream => format!("a stream of {} bytes, which read() gives back,", item.bytes),
        _ => kind_of(item.element, &item.shape, item.place.as_ref(), item.bytes),
    }
}

/// Whether a saved item is what a region is now: the sizes must agree; type, shape and place too, where both sides say more
/// than a number of bytes.
pub(super) fn is_same(item: &Item, region: &Region) -> bool {
    let now = &region.description;
    let opaque = item.element == ElementType::Bytes || now.element == ElementType::Bytes;
    item.kind != ItemKind::Stream
        && item.bytes == now.bytes
        && (opaque || (item.element == now.element && item.shape == now.shape))
        && (item.place.is_none() || now.place.is_none() || item.place == now.place)
}

/// Whether a region is now another box of the global array than the item of its name is: its cells lie in
/// other shards.
pub(crate) fn has_moved(manifest: &Manifest, regions: &[Region]) -> bool {
    regions.iter().map(|region| &region.description).filter(|now| now.place.is_some()).any(|now| {
        let saved = manifest.items.iter().find(|item| item.name == now.name);
        // A rank that had no part of the global array may have one now.
        saved.is_none_or(|item| item.place.is_some() && (&item.place, &item.shape) != (&now.place, &now.shape))
    })
}

impl<'a> Targets<'a> {
    /// Pairs one item alone with a region of its size.
    pub(crate) fn of(item: &Item, region: &'a Region) -> Targets<'a> {
        Targets(Scatter::new([(item, region)]))
    }

    /// Puts zeros where they belong.
    pub(crate) fn fill_zeros(&self) {
        self.0.fill_zeros(Region::put_zeros);
    }

    /// Copies `bytes`, which lie from offset `at` on in the portion, to where they belong.
    pub(crate) fn fill(&self, at: u64, bytes: &[u8]) {
        self.0.fill(at, bytes, |region, offset, part| region.copy_in(offset, part));
    }
}

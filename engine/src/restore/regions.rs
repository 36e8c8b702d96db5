//! Pairs saved items with protected regions.

use super::scatter::Scatter;
use crate::{
    capture::{Region, kind_of},
    error::{Error, Result},
    space::format::{ElementType, Item, ItemKind, Manifest},
};
use std::collections::HashMap;

/// The destinations of the bytes of a portion.
pub(crate) struct Targets<'a>(Scatter<&'a Region>);

/// Pairs each item of the manifest with the region of its name. Every saved region must be protected with its saved
/// type and size, and every protected region must have been saved.
pub(crate) fn match_regions<'a>(manifest: &Manifest, regions: &'a [Region], number: u64) -> Result<Targets<'a>> {
    let mut missing: HashMap<&str, &'a Region> =
        regions.iter().map(|region| (region.description.name.as_str(), region)).collect();
    let mut pairs = Vec::with_capacity(manifest.items.len());
    for item in &manifest.items {
        let region = missing.remove(item.name.as_str());
        if item.kind != ItemKind::Region && region.is_none() {
            // Streams and put buffers have no region: the program reads them when it needs them.
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

/// Pairs each of `regions` with the item of its name. Other items are left alone.
pub(crate) fn match_some<'a>(manifest: &Manifest, regions: &'a [Region], number: u64) -> Result<Targets<'a>> {
    let items: HashMap<&str, &Item> = manifest.items.iter().map(|item| (item.name.as_str(), item)).collect();
    let pair = |region: &'a Region| {
        let now = &region.description;
        match items.get(now.name.as_str()) {
            Some(item) if is_same(item, region) => Ok((*item, region)),
            Some(item) => Err(Error::RegionChanged { name: now.name.clone(), saved: saved_as(item), now: now.kind() }),
            None => {
                let why = format!("is not in this shard of revision {number}; give names that are");
                Err(Error::RegionMissing { name: now.name.clone(), why })
            }
        }
    };
    Ok(Targets(Scatter::new(regions.iter().map(pair).collect::<Result<Vec<_>>>()?)))
}

pub(super) fn saved_as(item: &Item) -> String {
    match item.kind {
        ItemKind::Stream => format!("a stream of {} bytes, which read() returns,", item.bytes),
        _ => kind_of(item.element, &item.shape, item.place.as_ref(), item.bytes),
    }
}

/// Whether a region is still as it was saved. The sizes must agree; type, shape and place too, if both sides give more
/// than a number of bytes.
pub(super) fn is_same(item: &Item, region: &Region) -> bool {
    let now = &region.description;
    let opaque = item.element == ElementType::Bytes || now.element == ElementType::Bytes;
    item.kind != ItemKind::Stream
        && item.bytes == now.bytes
        && (opaque || (item.element == now.element && item.shape == now.shape))
        && (item.place.is_none() || now.place.is_none() || item.place == now.place)
}

/// Whether a region is now another box of the global array than the item of its name. Its cells are then in other
/// shards.
pub(crate) fn has_moved(manifest: &Manifest, regions: &[Region]) -> bool {
    regions.iter().map(|region| &region.description).filter(|now| now.place.is_some()).any(|now| {
        let saved = manifest.items.iter().find(|item| item.name == now.name);
        // A rank that had no part of the global array may have one now.
        saved.is_none_or(|item| item.place.is_some() && (&item.place, &item.shape) != (&now.place, &now.shape))
    })
}

impl<'a> Targets<'a> {
    /// Pairs a single item with a region of its size.
    pub(crate) fn of(item: &Item, region: &'a Region) -> Targets<'a> {
        Targets(Scatter::new([(item, region)]))
    }

    /// Fills in the zeros.
    pub(crate) fn fill_zeros(&self) {
        self.0.fill_zeros(Region::put_zeros);
    }

    /// Copies `bytes`, which are at `at` in the portion, to their regions.
    pub(crate) fn fill(&self, at: u64, bytes: &[u8]) {
        self.0.fill(at, bytes, |region, offset, part| region.copy_in(offset, part));
    }
}

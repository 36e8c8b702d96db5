//! Brings what was saved and what is protected together.

use crate::{
    capture::{Region, kind_of},
    error::{Error, Result},
    space::format::{ElementType, Item, Manifest},
};
use std::collections::HashMap;

/// Where the bytes of a portion go: the extents of all regions, ascending.
pub(crate) struct Targets<'a> {
    extents: Vec<Target<'a>>,
}

struct Target<'a> {
    at: u64,
    bytes: u64,
    region: &'a Region,
    offset: u64,
    /// Where the furthest of this and all before it ends: items may share bytes.
    reach: u64,
}

/// Pairs each item of the manifest with the region of its name. Every saved item must be protected
/// with the type and size that it was saved with, and every protected region must have been saved.
pub(crate) fn match_regions<'a>(manifest: &Manifest, regions: &'a [Region], number: u64) -> Result<Targets<'a>> {
    let mut missing: HashMap<&str, &'a Region> =
        regions.iter().map(|region| (region.description.name.as_str(), region)).collect();
    let mut extents = Vec::new();
    for item in &manifest.items {
        let Some(region) = missing.remove(item.name.as_str()) else {
            let why = format!("is in revision {number} and not protected; protect it before the restore");
            return Err(Error::RegionMissing { name: item.name.clone(), why });
        };
        if !is_same(item, region) {
            return Err(Error::RegionChanged {
                name: item.name.clone(),
                saved: kind_of(item.element, &item.shape, item.bytes),
                now: region.description.kind(),
            });
        }
        let mut offset = 0;
        for extent in &item.extents {
            extents.push(Target { at: extent.at, bytes: extent.bytes, region, offset, reach: 0 });
            offset += extent.bytes;
        }
    }
    if let Some(name) = missing.into_keys().min() {
        let why = format!("is protected and not in revision {number}; protect it only after the restore");
        return Err(Error::RegionMissing { name: name.to_owned(), why });
    }
    extents.sort_by_key(|target| target.at);
    let mut reach = 0;
    for target in &mut extents {
        reach = reach.max(target.at + target.bytes);
        target.reach = reach;
    }
    Ok(Targets { extents })
}

/// Sizes must agree; type and shape too, where both sides say more than a number of bytes.
fn is_same(item: &Item, region: &Region) -> bool {
    let now = &region.description;
    let opaque = item.element == ElementType::Bytes || now.element == ElementType::Bytes;
    item.bytes == now.bytes && (opaque || (item.element == now.element && item.shape == now.shape))
}

impl Targets<'_> {
    /// Puts the bytes of the portion from offset `at` on where they belong.
    pub(crate) fn fill(&self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        let first = self.extents.partition_point(|target| target.reach <= at);
        for target in self.extents[first..].iter().take_while(|target| target.at < end) {
            let (from, to) = (target.at.max(at), (target.at + target.bytes).min(end));
            if to <= from {
                continue;
            }
            let part = &bytes[(from - at) as usize..(to - at) as usize];
            target.region.copy_in(target.offset + (from - target.at), part);
        }
    }
}

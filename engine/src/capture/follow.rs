//! Regions that are asked where they lie, at each checkpoint and at each restore: programs swap their pointers.
//!
//! What must hold: between two looks nothing of the program's memory is touched; a look finds all regions, or changes
//! none.

use super::region::Region;
use crate::error::Result;
use std::{fmt, ops::Range, sync::Arc};

type Asked = dyn Fn(&Region) -> Result<Region> + Send + Sync;

/// What a region is now, given what it was.
#[derive(Clone)]
pub(crate) struct Look(Arc<Asked>);

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Look")
    }
}

impl Look {
    pub(crate) fn new(look: impl Fn(&Region) -> Result<Region> + Send + Sync + 'static) -> Look {
        Look(Arc::new(look))
    }

    /// Where `region` is now.
    pub(super) fn at(&self, region: &Region) -> Result<Region> {
        (self.0)(region)?.in_place_of(region)
    }

    /// An error if what is followed is not what is protected: another variable, or the memory in place of the pointer.
    pub(super) fn check(&self, region: &Region) -> Result<()> {
        let now = self.at(region)?;
        let empty = now.description.bytes == 0 && region.description.bytes == 0;
        if empty || now.begins_at() == region.begins_at() {
            return Ok(());
        }
        let why = "what it follows points elsewhere than the region lies; let it point to the region's memory first";
        Err(region.refused(why.to_owned()))
    }
}

/// An error if two regions, one of which is `followed`, lie in the same memory: a restore would fill it with both. Of
/// regions with gaps those are found that begin in the same place; others may lie in each other's gaps.
pub(super) fn check_apart(regions: &[Region], followed: impl Fn(&Region) -> bool) -> Result<()> {
    for has_gaps in [false, true] {
        let full = regions.iter().filter(|region| region.description.bytes > 0);
        let mut spans: Vec<(Range<usize>, &Region)> = full
            .filter(|region| region.row().is_none() == has_gaps)
            .map(|region| (region.begins_at()..region.begins_at().saturating_add(region.row_bytes()), region))
            .collect();
        spans.sort_by_key(|(span, _)| span.start);
        // The region, among those that begin before, that reaches furthest.
        let mut furthest: Option<(usize, &Region)> = None;
        for (span, region) in spans {
            if let Some((_, other)) = furthest.filter(|(end, _)| span.start < *end)
                && (followed(region) || followed(other))
            {
                return Err(region.refused(format!(
                    "it lies in the same memory as {:?}, and a restore would fill that with both; let each point to \
                     memory of its own",
                    other.description.name
                )));
            }
            if furthest.is_none_or(|(end, _)| end < span.end) {
                furthest = Some((span.end, region));
            }
        }
    }
    Ok(())
}

//! Selects the regions to watch for written pages.

use crate::{capture::Region, space::format::BLOCK_BYTES};
use std::ops::Range;

/// Regions with fewer bytes than this are hashed: that costs less than asking for their pages.
pub(super) const TRACKED_BYTES_MIN: u64 = 16 * BLOCK_BYTES;

/// The addresses of a region, if watching its pages is worthwhile. A put buffer has another address each time, or had
/// another use meanwhile.
pub(super) fn range_of(region: &Region) -> Option<Range<usize>> {
    if region.is_put() {
        return None;
    }
    let row = region.row().filter(|row| row.len() as u64 >= TRACKED_BYTES_MIN && !region.is_untracked())?;
    let start = row.as_ptr().addr();
    Some(start..start + row.len())
}

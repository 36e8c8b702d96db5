//! Regions that are asked where they lie, at each checkpoint and at each restore: programs swap their pointers.
//!
//! What must hold: between two looks nothing of the program's memory is touched; a look finds all regions, or changes
//! none.

use super::region::Region;
use crate::error::Result;
use std::{fmt, sync::Arc};

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

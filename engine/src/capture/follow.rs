//! Regions that are looked up at each checkpoint and restore, because programs swap their pointers.
//!
//! Invariant: the program's memory is not touched between two lookups; a lookup finds all regions or changes none.

use super::region::Region;
use crate::{
    error::Result,
    space::format::{Item, ItemKind},
};
use std::{fmt, sync::Arc};

type Asked = dyn Fn(&Region) -> Result<Region> + Send + Sync;
type Resized = dyn Fn(&[u64]) -> Result<()> + Send + Sync;

/// Finds the current place of a region, and gives it another shape if the program can.
#[derive(Clone)]
pub(crate) struct Look {
    at: Arc<Asked>,
    resize: Option<Arc<Resized>>,
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Look")
    }
}

impl Look {
    pub(crate) fn new(look: impl Fn(&Region) -> Result<Region> + Send + Sync + 'static) -> Look {
        Look { at: Arc::new(look), resize: None }
    }

    /// The same for a region that a restore can resize.
    pub(crate) fn resizing(self, resize: impl Fn(&[u64]) -> Result<()> + Send + Sync + 'static) -> Look {
        Look { resize: Some(Arc::new(resize)), ..self }
    }

    pub(super) fn can_resize(&self) -> bool {
        self.resize.is_some()
    }

    /// The region after the program has given it the shape of `item`. `None` if it has that shape already or cannot
    /// take it.
    pub(super) fn resized(&self, region: &Region, item: &Item) -> Result<Option<Region>> {
        let now = &region.description;
        let is_alike =
            item.kind != ItemKind::Stream && item.element == now.element && item.shape.len() == now.shape.len();
        let is_placed = item.place.is_some() || now.place.is_some();
        let Some(resize) = self.resize.as_ref().filter(|_| is_alike && !is_placed && item.shape != now.shape) else {
            return Ok(None);
        };
        let Some(wanted) = region.reshaped(item) else { return Ok(None) };
        resize(&item.shape)?;
        let found = self.at(&wanted)?;
        if found.description.shape == item.shape {
            return Ok(Some(found));
        }
        let (saved, now) = (wanted.description.kind(), found.description.kind());
        Err(region.refused(format!("it was saved as {saved}, and the program has made it {now} for the restore")))
    }

    /// The current place of `region`.
    pub(super) fn at(&self, region: &Region) -> Result<Region> {
        (self.at)(region)?.in_place_of(region)
    }

    /// An error if the followed pointer does not point to the protected region: it is another variable, or the memory
    /// itself.
    pub(super) fn check(&self, region: &Region) -> Result<()> {
        let now = self.at(region)?;
        let empty = now.description.bytes == 0 && region.description.bytes == 0;
        if empty || now.begins_at() == region.begins_at() {
            return Ok(());
        }
        let why = "the pointer that it follows does not point to the region; let it point to the region's memory first";
        Err(region.refused(why.to_owned()))
    }
}

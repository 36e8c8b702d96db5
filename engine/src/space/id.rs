//! Ids that tell apart what could not see one another.

use crate::error::{Error, Result};

/// Sixteen bytes from the system's random numbers.
pub(crate) fn draw_id() -> Result<[u8; 16]> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|e| Error::io("drawing a random number from", "the system", e.into()))?;
    Ok(id)
}

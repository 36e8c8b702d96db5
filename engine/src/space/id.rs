//! Ids that tell apart objects that were made independently.

use crate::{
    error::{Error, Result},
    ground,
};

/// Sixteen bytes from the system's random number generator.
pub(crate) fn draw_id() -> Result<[u8; 16]> {
    let mut id = [0; 16];
    ground::random(&mut id).map_err(|e| Error::io("drawing a random number from", "the system", e))?;
    Ok(id)
}

//! Ids that tell apart what could not see one another.

use crate::error::{Error, Result};

pub(crate) fn draw_id() -> Result<[u8; 16]> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|e| Error::Io {
        doing: "drawing a random number from".to_owned(),
        path: "the system".to_owned(),
        source: std::sync::Arc::new(e.into()),
    })?;
    Ok(id)
}

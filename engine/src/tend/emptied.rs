//! Layouts that hold nothing, and their removal.
//!
//! What must hold: only a layout that is known to hold nothing is removed. If a layout was not closed in order, a
//! killed job's pool may hold a revision for it, on another node too; a revision that cannot be read may still be one.

use crate::{
    device::Device,
    error::{Error, Result},
    space::{LayoutFile, remove_layout},
    survey::{RevisionSurvey, SpaceSurvey},
};

/// Whether each portion of the layout `id` that is here is whole, was closed in order and holds no revision but such as
/// go, by `goes`.
pub(super) fn holds_nothing(survey: &SpaceSurvey, id: [u8; 16], goes: impl Fn(&RevisionSurvey) -> bool) -> bool {
    let mut files = survey.layouts.iter().filter(|file| file.header.layout_id == id).peekable();
    let mut revisions = survey.revisions.iter().filter(|revision| revision.layout == id);
    files.peek().is_some() && files.all(|file| file.whole && file.clean) && revisions.all(goes)
}

/// Removes `files`; returns their names.
pub(super) fn remove(device: &dyn Device, files: &[LayoutFile]) -> Result<Vec<String>> {
    files.iter().try_for_each(|file| remove_layout(device, file))?;
    if !files.is_empty() {
        device.sync_directory().map_err(|e| Error::io("syncing", device.path(), e))?;
    }
    Ok(files.iter().map(|file| file.name.clone()).collect())
}

//! Empty layouts, and their removal.
//!
//! Invariant: a layout is removed only if it is known to be empty. If a layout was not closed normally, a killed job's
//! pool may hold a revision for it, possibly on another node. An unreadable revision may still be one.

use crate::{
    device::Device,
    error::{Error, Result},
    space::{LayoutFile, remove_layout},
    survey::{RevisionSurvey, SpaceSurvey},
};

/// Whether each portion of the layout `id` that is here is undamaged, was closed normally, and holds only revisions for
/// which `goes` is true.
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

//! Layouts that hold nothing, and their removal.
//!
//! What must hold: only what is known to hold nothing goes. Of a layout that was not closed in order a killed job's
//! pool may hold a revision, on another node too; what cannot be read may be one.

use crate::{
    device::Device,
    error::{Error, Result},
    space::{LayoutFile, remove_layout},
    survey::{RevisionSurvey, SpaceSurvey},
};

/// Whether each portion of the layout of this id that is here is whole, was closed in order and holds no revision
/// but those of which `goes` says that they go.
pub(super) fn holds_nothing(survey: &SpaceSurvey, id: [u8; 16], goes: impl Fn(&RevisionSurvey) -> bool) -> bool {
    let mut files = survey.layouts.iter().filter(|file| file.header.layout_id == id).peekable();
    let mut revisions = survey.revisions.iter().filter(|revision| revision.layout == id);
    files.peek().is_some() && files.all(|file| file.whole && file.clean) && revisions.all(goes)
}

/// Removes `files`; their names.
pub(super) fn remove(device: &dyn Device, files: &[LayoutFile]) -> Result<Vec<String>> {
    files.iter().try_for_each(|file| remove_layout(device, file))?;
    if !files.is_empty() {
        device.sync_directory().map_err(|e| Error::io("syncing", device.path(), e))?;
    }
    Ok(files.iter().map(|file| file.name.clone()).collect())
}

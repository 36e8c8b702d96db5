//! An open layout file.

use super::{format::Header, space_of_level};
use crate::{
    device::{Device, Directory, File},
    error::{Error, Result},
};
use std::sync::{Arc, atomic::AtomicBool};

/// A file of a layout, with all its portions or those of one node.
#[derive(Debug, Clone)]
pub(crate) struct LayoutFile {
    pub(crate) name: String,
    pub(crate) path: Arc<str>,
    pub(crate) header: Header,
    /// The directory of the file; `None` if it is in none.
    pub(crate) directory: Option<Arc<Directory>>,
    pub(crate) file: Arc<dyn File>,
    /// A thread is about to map the file, which takes as long as allocating its memory.
    pub(crate) is_mapping_awaited: Arc<AtomicBool>,
    /// Length of the file when it was opened.
    pub(crate) bytes: u64,
}

impl LayoutFile {
    /// Bytes on the medium, as counted by the file system.
    pub(crate) fn allocated_bytes(&self) -> Result<u64> {
        self.file.allocated_bytes().map_err(|e| Error::io("asking for the blocks of", &self.path, e))
    }

    pub(crate) fn is_lazy(&self) -> bool {
        self.file.is_lazy()
    }

    /// Whether the file is shorter than it was made.
    pub(crate) fn is_cut(&self) -> bool {
        self.bytes < self.header.file_bytes
    }

    /// The message for such a file.
    pub(crate) fn cut_text(&self) -> String {
        format!("{}: cut short, it has {} of its {} bytes", self.path, self.bytes, self.header.file_bytes)
    }

    /// A message if the file is in a level's directory, on `device`, and belongs to another space.
    pub(crate) fn foreign_text(&self, device: &dyn Device) -> Option<String> {
        let id = space_of_level(device.directory())?;
        let is_own = [id, [0; 16]].contains(&self.header.space_id);
        (!is_own).then(|| format!("{}: it belongs to another space, and is skipped", self.path))
    }
}

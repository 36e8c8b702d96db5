//! File systems that are full, broken or slow for a while.

use super::scheduler::Cluster;
use mainstay_engine::FileOperation;
use std::{
    fs, io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

/// A file system of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The file system that all nodes see.
    Shared,
    /// The disk of this node.
    Disk(usize),
}

/// The state of a file system. It can still be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ailment {
    /// Each change and each sync fails.
    Io,
    /// Each write and each new file fails.
    Full,
    /// Operations take a hundred times as long.
    Slow,
}

impl Cluster {
    /// From now on `part` ails, until `mend`.
    pub fn ails(&self, part: Part, ailment: Ailment) {
        let folder = match part {
            Part::Shared => self.shared_folder(),
            Part::Disk(node) => self.node_folder(node).join("disk"),
        };
        let mut state = self.lock();
        state.tell(|| format!("{part:?}: {ailment:?}"));
        state.ailing.push((folder, ailment));
    }

    /// Whether any file system ails now.
    pub fn is_ailing(&self) -> bool {
        !self.lock().ailing.is_empty()
    }

    /// Ends all ailments.
    pub fn mend(&self) {
        self.lock().ailing.clear();
    }
}

/// The ailments that `operation` meets.
pub(super) fn met(ailing: &[(PathBuf, Ailment)], operation: FileOperation<'_>) -> Vec<Ailment> {
    if ailing.is_empty() {
        return Vec::new();
    }
    let path = path_of(operation);
    ailing.iter().filter(|(folder, _)| path.starts_with(folder)).map(|(_, ailment)| *ailment).collect()
}

impl Ailment {
    /// The error that `operation` meets, if any.
    pub(super) fn error(self, operation: FileOperation<'_>) -> Option<io::Error> {
        let code = match (self, operation) {
            (Ailment::Io, FileOperation::Lock { .. }) | (Ailment::Slow, _) => return None,
            (Ailment::Io, _) => libc::EIO,
            (Ailment::Full, FileOperation::Write { .. } | FileOperation::Make { .. }) => libc::ENOSPC,
            (Ailment::Full, _) => return None,
        };
        Some(io::Error::from_raw_os_error(code))
    }
}

fn path_of(operation: FileOperation<'_>) -> PathBuf {
    match operation {
        FileOperation::Open { path }
        | FileOperation::Make { path }
        | FileOperation::Remove { path }
        | FileOperation::SyncDirectory { path }
        | FileOperation::Rename { to: path, .. }
        | FileOperation::Link { name: path, .. } => Path::to_owned(path),
        FileOperation::Read { file }
        | FileOperation::Write { file, .. }
        | FileOperation::Sync { file }
        | FileOperation::Lock { file, .. } => {
            fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
        }
    }
}

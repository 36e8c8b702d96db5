//! The file system below a directory, as far as the layout of portions depends on it: whether files are striped over
//! servers, and whether its promise of room can be trusted.

use rustix::fs::{FsWord, getxattr};
use std::{
    env,
    path::{Path, PathBuf},
};

/// The file systems that Mainstay distinguishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSystem {
    /// Files get their stripes by attributes, set while they are empty. Room cannot be reserved.
    Ceph,
    /// Files get their stripes from the tool `lfs`, if it is installed.
    Lustre { lfs: Option<PathBuf> },
    /// A program cannot choose the stripes of files.
    Other,
}

// linux/magic.h, and Lustre's lustre_user.h.
const CEPH: FsWord = 0x00c3_6400;
pub(super) const FUSE: FsWord = 0x6573_5546;
const LUSTRE: FsWord = 0x0bd0_0bd0;
/// Every directory of a CephFS has this attribute, even with ceph-fuse.
const CEPH_ATTRIBUTE: &str = "ceph.dir.entries";

impl FileSystem {
    /// The file system of `directory`, with this number in `statfs`.
    pub(super) fn of(directory: &Path, kind: FsWord) -> FileSystem {
        match kind {
            CEPH => FileSystem::Ceph,
            FUSE if is_ceph_fuse(directory) => FileSystem::Ceph,
            LUSTRE => FileSystem::Lustre { lfs: find_lfs() },
            _ => FileSystem::Other,
        }
    }

    /// Whether stripes can be chosen here.
    pub fn has_stripes(&self) -> bool {
        matches!(self, FileSystem::Ceph | FileSystem::Lustre { lfs: Some(_) })
    }

    /// Whether room can be reserved, and the counted blocks are really allocated.
    pub fn sets_aside(&self) -> bool {
        *self != FileSystem::Ceph
    }

    /// Whether writers on several machines wait for each other if they share a file.
    pub fn shares_badly(&self) -> bool {
        *self == FileSystem::Ceph
    }

    /// The name of the file system, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            FileSystem::Ceph => "CephFS",
            FileSystem::Lustre { .. } => "Lustre",
            FileSystem::Other => "other",
        }
    }
}

fn is_ceph_fuse(directory: &Path) -> bool {
    let mut value = [0_u8; 64];
    getxattr(directory, CEPH_ATTRIBUTE, &mut value[..]).is_ok()
}

fn find_lfs() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join("lfs")).find(|lfs| lfs.is_file())
}

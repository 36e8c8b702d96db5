//! Checks whether several ranks have named the same file: a restore would cut it to the length that one of them
//! recorded.
//!
//! Invariant: two files on different nodes are not taken for one, even under the same path.

use super::output::born_unix_ns;
use crate::{ground::kernel_text, printable::printable_path};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::MetadataExt,
    },
    path::Path,
    sync::LazyLock,
};

/// The id of this node's boot; empty if the kernel does not say.
static BOOT: LazyLock<String> = LazyLock::new(|| kernel_text("/proc/sys/kernel/random/boot_id").unwrap_or_default());

/// An output file that a rank has named, for comparison with those of other ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedOutput {
    path: Vec<u8>,
    /// The boot of the node: device numbers mean nothing on another node.
    boot: String,
    device: u64,
    inode: u64,
    /// The time of the file's creation, in nanoseconds since 1970; 0 if the file system does not say, or the file does
    /// not exist yet.
    born_unix_ns: u64,
    /// For a file that does not exist yet: its name in the directory `inode`. Empty: `inode` is the file.
    name: Vec<u8>,
}

impl NamedOutput {
    /// The file that has the path now; `None` if it cannot be read.
    pub(super) fn at(path: &Path) -> Option<NamedOutput> {
        let (found, name) = match fs::metadata(path) {
            Ok(found) => (found, Vec::new()),
            Err(_) => (fs::metadata(path.parent()?).ok()?, path.file_name()?.to_owned().into_vec()),
        };
        Some(NamedOutput {
            path: path.as_os_str().as_bytes().to_vec(),
            boot: BOOT.clone(),
            device: found.dev(),
            inode: found.ino(),
            born_unix_ns: if name.is_empty() { born_unix_ns(&found) } else { 0 },
            name,
        })
    }

    /// Whether both are the same file. Inode, creation time and name must agree. On one node, the device must agree
    /// too. Between two nodes the device means nothing, and the creation time must be known.
    fn is(&self, other: &NamedOutput) -> bool {
        let is_alike = self.key() == other.key();
        let is_here = self.boot == other.boot;
        is_alike && if is_here { self.device == other.device } else { self.born_unix_ns > 0 }
    }

    fn key(&self) -> (u64, u64, &[u8]) {
        (self.inode, self.born_unix_ns, &self.name)
    }
}

/// A file that two ranks have named, if there is one. `all`: the files of each rank.
pub(crate) fn named_twice(all: &[Vec<NamedOutput>]) -> Option<String> {
    let mut alike = BTreeMap::<_, Vec<(usize, &NamedOutput)>>::new();
    for (rank, output) in
        all.iter().enumerate().flat_map(|(rank, named)| named.iter().map(move |output| (rank, output)))
    {
        let earlier = alike.entry(output.key()).or_default();
        if let Some((other, same)) = earlier.iter().find(|(other, same)| *other != rank && same.is(output)) {
            let path = printable_path(Path::new(OsStr::from_bytes(&same.path)));
            return Some(format!(
                "{path} is named on rank {other} and on rank {rank}; name each file once, on the rank that writes it"
            ));
        }
        earlier.push((rank, output));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_one_on_all_nodes_and_others_are_not() {
        let on = |boot: &str, device, born_unix_ns| NamedOutput {
            path: b"/a/log.txt".to_vec(),
            boot: boot.to_owned(),
            device,
            inode: 7,
            born_unix_ns,
            name: Vec::new(),
        };
        let one = on("one", 1, 9);
        for (other, is_one) in [
            (on("one", 1, 9), true),
            (on("two", 1, 9), true),
            (on("two", 2, 9), true),
            // Two disks of one node.
            (on("one", 2, 9), false),
            (on("two", 1, 8), false),
            (NamedOutput { name: b"log".to_vec(), ..on("one", 1, 9) }, false),
        ] {
            let refusal = named_twice(&[vec![], vec![one.clone()], vec![other.clone()]]);
            assert_eq!(refusal.is_some(), is_one, "{other:?}");
            let says = "/a/log.txt is named on rank 1 and on rank 2; name each";
            assert!(refusal.is_none_or(|refusal| refusal.starts_with(says)));
        }
        // Without a creation time, only files of one node can be identified as the same.
        let unborn = |boot| vec![on(boot, 1, 0)];
        assert!(named_twice(&[unborn("one"), unborn("one")]).is_some());
        assert!(named_twice(&[unborn("one"), unborn("two")]).is_none());
        assert!(named_twice(&[vec![one.clone(), one]]).is_none(), "its own rank reports that");
    }
}

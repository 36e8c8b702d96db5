//! Whether several ranks have named one file: a restore would cut it to the length that one of them knew.
//!
//! What must hold: ranks on different nodes are told apart where their files are, even under one path.

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

/// The id of this node's boot; empty if the kernel does not tell.
static BOOT: LazyLock<String> = LazyLock::new(|| kernel_text("/proc/sys/kernel/random/boot_id").unwrap_or_default());

/// An output file that a rank has named, for the others to compare with theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedOutput {
    path: Vec<u8>,
    /// The boot of the node: numbers of devices say nothing on another.
    boot: String,
    device: u64,
    inode: u64,
    /// When the file was made, in nanoseconds since 1970; 0: the file system does not tell, or there is no file yet.
    born_unix_ns: u64,
    /// The name in the directory that `inode` is, of a file that is not there yet; empty: `inode` is the file.
    name: Vec<u8>,
}

impl NamedOutput {
    /// The file that has the path now; `None` if it cannot be looked at.
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

    /// Whether both are one file. On one node, clocks tick alike and disks number alike; on two, nothing else does.
    fn is(&self, other: &NamedOutput) -> bool {
        let is_alike = self.key() == other.key();
        let is_here = self.boot == other.boot;
        is_alike && if is_here { self.device == other.device } else { self.born_unix_ns > 0 }
    }

    fn key(&self) -> (u64, u64, &[u8]) {
        (self.inode, self.born_unix_ns, &self.name)
    }
}

/// Which file two of the ranks have named, if any have; `all`: what each rank has.
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
            let told = named_twice(&[vec![], vec![one.clone()], vec![other.clone()]]);
            assert_eq!(told.is_some(), is_one, "{other:?}");
            let says = "/a/log.txt is named on rank 1 and on rank 2; name each";
            assert!(told.is_none_or(|told| told.starts_with(says)));
        }
        // Without a time of birth only those of one node are known to be one.
        let unborn = |boot| vec![on(boot, 1, 0)];
        assert!(named_twice(&[unborn("one"), unborn("one")]).is_some());
        assert!(named_twice(&[unborn("one"), unborn("two")]).is_none());
        assert!(named_twice(&[vec![one.clone(), one]]).is_none(), "its own rank tells that");
    }
}

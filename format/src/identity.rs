//! The facts that identify an output file again: they survive another spelling of its path, a moved directory, and
//! another mount point.

use super::{Hash, Refusal, damaged, sections::Sections};
use serde::{Deserialize, Serialize};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct IdentityRecord {
    inode: U64,
    born_unix_ns: U64,
    hash: Hash,
    path_bytes: U32,
    from_space_bytes: U32,
}

const _: () = assert!(size_of::<IdentityRecord>() == 40);

/// The identity of an output file at t1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputIdentity {
    /// 0: the file did not exist.
    pub inode: u64,
    /// Time of creation, in nanoseconds since 1970; 0: the file system does not record it.
    pub born_unix_ns: u64,
    /// The hash of the file's first 4096 bytes and its last 4096 bytes; zeros: it was empty, or could not be read.
    pub hash: Hash,
    /// The path from the root, without links.
    pub path: Vec<u8>,
    /// The path from the directory of the space, without links.
    pub from_space: Vec<u8>,
}

impl OutputIdentity {
    pub(super) const BYTES: usize = size_of::<IdentityRecord>();

    pub(super) fn build(&self) -> Vec<u8> {
        let record = IdentityRecord {
            inode: self.inode.into(),
            born_unix_ns: self.born_unix_ns.into(),
            hash: self.hash,
            path_bytes: (self.path.len() as u32).into(),
            from_space_bytes: (self.from_space.len() as u32).into(),
        };
        [record.as_bytes(), &self.path, &self.from_space].concat()
    }

    pub(super) fn parse(sections: &mut Sections<'_>) -> Result<OutputIdentity, Refusal> {
        let record: &IdentityRecord = sections.record()?;
        let mut path = |bytes: U32| -> Result<Vec<u8>, Refusal> {
            let path: &[u8] = sections.table(bytes.get().into())?;
            if path.contains(&0) { damaged("the path of an output file is none") } else { Ok(path.to_vec()) }
        };
        Ok(OutputIdentity {
            inode: record.inode.get(),
            born_unix_ns: record.born_unix_ns.get(),
            hash: record.hash,
            path: path(record.path_bytes)?,
            from_space: path(record.from_space_bytes)?,
        })
    }

    /// Its bytes in a manifest.
    pub(super) fn bytes(&self) -> usize {
        Self::BYTES + self.path.len() + self.from_space.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_is_parsed_and_parts_of_it_are_refused() {
        let path = |path: &[u8]| path.to_vec();
        let identity = OutputIdentity {
            inode: 7,
            born_unix_ns: 1 << 60,
            hash: [9; 16],
            path: path(b"/a/\xff.csv"),
            from_space: path(b"../\xff.csv"),
        };
        let bytes = identity.build();
        assert_eq!(bytes.len(), identity.bytes());
        assert_eq!(OutputIdentity::parse(&mut Sections::new(&bytes, "manifest")), Ok(identity.clone()));
        for length in 0..bytes.len() {
            assert!(OutputIdentity::parse(&mut Sections::new(&bytes[..length], "manifest")).is_err(), "{length} bytes");
        }
        let hostile = OutputIdentity { path: path(b"/a\0b"), ..identity }.build();
        assert!(OutputIdentity::parse(&mut Sections::new(&hostile, "manifest")).is_err());
    }
}

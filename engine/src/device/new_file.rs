//! The properties of a new file: its length, the parts that will be written, the kind of allocation, and the stripes
//! over servers.

use super::{
    Mapping,
    allocate::{allocate_at, available, is_memory, within_limit},
    huge::give_all,
};
use std::{fs::File, io, ops::Range};

/// A file that is about to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewFile {
    pub bytes: u64,
    /// The parts that will be written: ascending, not adjacent.
    pub stretches: Vec<Range<u64>>,
    pub allocate: Allocate,
    pub stripes: Stripes,
    /// A file in memory is allocated only when it is first mapped, if there is enough room now.
    pub when_mapped: bool,
}

/// The strength of a file system's promise of room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allocate {
    /// No promise: the file has its length, and a later write may find no room.
    Sparse,
    /// Blocks are reserved, if the file system can.
    #[default]
    Blocks,
    /// The file is written with zeros: the strongest promise, and the slowest.
    Zero,
}

/// The distribution of a file over the servers of a parallel file system. With 0, the file system decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stripes {
    /// The number of servers, or disks of servers, of a file.
    pub count: u32,
    /// Bytes of one stripe.
    pub bytes: u64,
}

impl NewFile {
    /// A file of `bytes` bytes that will all be written, with its blocks reserved.
    pub fn of(bytes: u64) -> NewFile {
        NewFile { bytes, stretches: Some(0..bytes).into_iter().collect(), ..NewFile::default() }
    }

    /// Number of bytes that will be written.
    pub fn written_bytes(&self) -> u64 {
        self.stretches.iter().map(|stretch| stretch.end - stretch.start).fold(0, u64::saturating_add)
    }

    /// Number of bytes that the file needs room for: in memory all of it is allocated, as `set_aside` does.
    pub(crate) fn room_bytes(&self, in_memory: bool) -> u64 {
        if in_memory && self.allocate == Allocate::Blocks { self.bytes } else { self.written_bytes() }
    }

    /// Gives the empty `file` its length, and reserves the wanted room if its file system `sets_aside` any. Later
    /// writes never make the file longer.
    pub(super) fn set_aside(&self, file: &File, sets_aside: bool) -> io::Result<()> {
        within_limit(self.bytes)?;
        match self.allocate {
            // The whole file is allocated, so mapping it needs no further check of its pages.
            Allocate::Blocks if is_memory(file) && self.bytes > 0 => {
                file.set_len(self.bytes)?;
                if self.when_mapped && available(file).is_some_and(|room| room >= self.bytes) {
                    return Ok(());
                }
                match Mapping::new(file, self.bytes) {
                    Ok(map) => give_all(file, &map, self.bytes, 1)?,
                    Err(_) => allocate_at(file, 0, self.bytes)?,
                }
            }
            Allocate::Blocks if sets_aside => {
                let mut stretches = self.stretches.iter();
                stretches.try_for_each(|stretch| allocate_at(file, stretch.start, stretch.end - stretch.start))?;
            }
            _ => {}
        }
        if self.bytes > 0 { file.set_len(self.bytes) } else { Ok(()) }
    }
}

impl Stripes {
    pub fn is_chosen(&self) -> bool {
        *self != Stripes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{MapNew, mapped::Whole};
    use std::os::unix::fs::MetadataExt;

    fn in_memory(wanted: &NewFile) -> io::Result<File> {
        let file = tempfile::tempfile_in("/dev/shm")?;
        wanted.set_aside(&file, true).map(|()| file)
    }

    fn blocks(file: &File) -> u64 {
        file.metadata().unwrap().blocks()
    }

    #[test]
    fn a_file_in_memory_that_is_made_for_later_has_its_memory_once_it_is_mapped() {
        const BYTES: u64 = 1 << 20;
        let now = in_memory(&NewFile::of(BYTES)).unwrap();
        let later = in_memory(&NewFile { when_mapped: true, ..NewFile::of(BYTES) }).unwrap();
        assert_eq!([blocks(&now), blocks(&later)], [BYTES / 512, 0]);
        let whole = Whole::default();
        assert!(whole.part(&later, 0, BYTES, MapNew::Nothing).is_err());
        assert_eq!(blocks(&later), 0);
        whole.part(&later, 0, BYTES, MapNew::First(BYTES)).unwrap();
        whole.part(&later, 0, BYTES, MapNew::Nothing).unwrap();
        assert_eq!(blocks(&later), BYTES / 512);
    }
}

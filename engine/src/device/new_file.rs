//! What a new file is to be: how long, which parts of it will be written, how hard the room for them is
//! promised, and over how many servers it is striped.

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
    /// The parts that will be written: ascending, and not touching.
    pub stretches: Vec<Range<u64>>,
    pub allocate: Allocate,
    pub stripes: Stripes,
    /// A file in memory is given its memory only when it is first mapped, if there is room for all of it now.
    pub when_mapped: bool,
}

/// How hard a file system promises room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allocate {
    /// No room is promised: the file has its length, and a later write may find no room.
    Sparse,
    /// Blocks are set aside, where the file system can.
    #[default]
    Blocks,
    /// The file is written with zeros, which promises most and takes longest.
    Zero,
}

/// How a file is spread over the servers of a parallel file system. A number that is 0 leaves it to the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stripes {
    /// How many servers, or disks of servers, a file lies on.
    pub count: u32,
    /// Bytes of one stripe.
    pub bytes: u64,
}

impl NewFile {
    /// A file of `bytes` bytes, all of which will be written, with its blocks set aside.
    pub fn of(bytes: u64) -> NewFile {
        NewFile { bytes, stretches: Some(0..bytes).into_iter().collect(), ..NewFile::default() }
    }

    /// Bytes that will be written.
    pub fn written_bytes(&self) -> u64 {
        self.stretches.iter().map(|stretch| stretch.end - stretch.start).sum()
    }

    /// Gives the empty `file` its length, and sets aside as much of it as was asked for, where its file system `sets_aside`
    /// anything. A file that has its length is never made longer by a write.
    pub(super) fn set_aside(&self, file: &File, sets_aside: bool) -> io::Result<()> {
        within_limit(self.bytes)?;
        match self.allocate {
            // The whole file is set aside, so that it can be mapped without asking for each of its pages once more.
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
    use crate::device::mapped::Whole;
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
        whole.await_mapping();
        assert!(whole.is_awaited());
        whole.part(&later, 0, BYTES, BYTES).unwrap();
        assert!(!whole.is_awaited());
        assert_eq!(blocks(&later), BYTES / 512);
    }
}

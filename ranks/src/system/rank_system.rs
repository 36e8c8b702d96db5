//! The operating system, as one rank sees it.

use super::{
    clock::Clocks,
    descriptors::{Descriptors, SavedFile},
    directory::Directory,
    kernel,
    memory_calls::Heap,
    process::Process,
    removed::Removed,
    table::{Treatment, treatment},
};
use crate::{Error, Result, address::Slot, files::MappedFiles, slot::Areas};
use serde::{Deserialize, Serialize};

/// The end of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The result, or an error number below zero.
    Result(i64),
    /// The rank ends with this exit code.
    Exit(i32),
    /// A signal that the rank sent to itself ends it.
    Signal(i32),
}

pub(crate) type Arguments = [u64; 6];

/// The operating system, as one rank sees it.
#[derive(Debug)]
pub(crate) struct System {
    pub slot: Slot,
    pub rank: usize,
    pub areas: Areas,
    pub mapped: MappedFiles,
    /// Files are mapped as copies, and saved.
    pub with_libraries: bool,
    pub heap: Heap,
    pub process: Process,
    pub clocks: Clocks,
    pub(super) descriptors: Descriptors,
    pub(super) directory: Directory,
    pub removed: Removed,
    /// Refusals that were reported: once each.
    pub(super) reported: Vec<i64>,
    /// Messages for the user, in order.
    pub remarks: Vec<String>,
}

/// The part of a [`System`] that is saved.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedSystem {
    pub areas: Areas,
    pub mapped: MappedFiles,
    with_libraries: bool,
    heap: Heap,
    process: Process,
    clocks: Clocks,
    pub files: Vec<SavedFile>,
    removed: Removed,
    directory: Vec<u8>,
}

impl SavedSystem {
    /// Brings back the files that the rank has removed or renamed since the revision.
    pub fn take_back_files(&mut self) {
        let SavedSystem { files, removed, .. } = self;
        files.iter().filter_map(SavedFile::name).for_each(|path| removed.take_back(path));
    }
}

impl System {
    /// The system of a new rank.
    pub fn new(slot: Slot, rank: usize) -> Result<System> {
        Ok(System {
            slot,
            rank,
            areas: Areas::default(),
            mapped: MappedFiles::default(),
            with_libraries: false,
            heap: Heap::new(slot),
            process: Process::new(rank),
            clocks: Clocks::default(),
            descriptors: Descriptors::standard(rank)?,
            directory: Directory::current()?,
            removed: Removed::default(),
            reported: Vec::new(),
            remarks: Vec::new(),
        })
    }

    /// A revision is made of the rank as it is now.
    pub fn begin_revision(&mut self) {
        self.removed.begin_revision(self.descriptors.numbers());
    }

    /// The state to save. The rank does not run.
    pub fn save(&mut self) -> Result<SavedSystem> {
        Ok(SavedSystem {
            areas: self.areas.clone(),
            mapped: self.mapped.clone(),
            with_libraries: self.with_libraries,
            heap: self.heap.clone(),
            process: self.process.clone(),
            clocks: self.clocks.saved(),
            files: self.descriptors.save(&mut self.remarks),
            removed: self.removed.clone(),
            directory: self.directory.path()?,
        })
    }

    /// The system of a rank that is brought back: its files open again, each as long as it was. The memory is mapped by
    /// others.
    pub fn bring_back(slot: Slot, rank: usize, saved: SavedSystem) -> Result<System> {
        let mut remarks = Vec::new();
        let has_ended = saved.areas.iter().next().is_none();
        let clocks = if has_ended { Ok(saved.clocks) } else { saved.clocks.brought_back(slot) };
        let clocks = clocks.map_err(|error| Error::system("the clocks of a rank", error))?;
        let descriptors = Descriptors::open_again(rank, &saved.files, &mut remarks)?;
        Ok(System {
            slot,
            rank,
            areas: saved.areas,
            mapped: saved.mapped,
            with_libraries: saved.with_libraries,
            heap: saved.heap,
            process: saved.process,
            clocks,
            removed: saved.removed,
            descriptors,
            directory: Directory::open(&saved.directory)?,
            reported: Vec::new(),
            remarks,
        })
    }

    /// The rank has ended: it has no memory and no files any more. The files that it wrote are still cut back. `in_order`:
    /// protected files that it has left open are whole.
    pub fn end(&mut self, in_order: bool) {
        self.areas = Areas::default();
        self.descriptors.close_all(in_order);
    }

    /// Does system call `number`. `thread_pointer`: the rank's.
    pub fn call(&mut self, number: i64, arguments: Arguments, thread_pointer: &mut u64) -> Outcome {
        match treatment(number) {
            Treatment::Pass => Outcome::Result(kernel::call(number, arguments)),
            Treatment::Files(places) => Outcome::Result(self.on_files(number, arguments, places)),
            Treatment::Path(first) => Outcome::Result(self.at_path(number, arguments, first)),
            Treatment::Emulate(emulate) => match emulate(self, number, arguments) {
                Ok(result) => Outcome::Result(result),
                Err(error) => {
                    if error.raw_os_error() == Some(libc::ENOMEM) {
                        self.explain_no_memory(number, arguments);
                    }
                    Outcome::Result(kernel::number(&error))
                }
            },
            Treatment::ThreadPointer => Outcome::Result(kernel::thread_pointer(arguments, thread_pointer)),
            Treatment::Exit => Outcome::Exit(arguments[0] as i32 & 0xff),
            Treatment::Signal => self.process.signal(number, arguments),
            Treatment::Answer(result) => Outcome::Result(result),
            Treatment::Refuse(error, why) => {
                self.refuse(number, why);
                Outcome::Result(-i64::from(error))
            }
        }
    }

    /// Keeps a remark on a refused call, once for each call.
    pub(super) fn refuse(&mut self, number: i64, why: &str) {
        if !self.reported.contains(&number) {
            self.reported.push(number);
            self.remarks.push(format!("rank {}: {why}", self.rank));
        }
    }
}

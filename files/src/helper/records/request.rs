//! Requests of programs, and their answers.

use super::holders::Pid;
use crate::{file::Named, options::Options, stage::Id};
use std::{path::PathBuf, time::Instant};

/// A request of a process.
#[derive(Debug, Clone)]
pub struct Request {
    pub process: Pid,
    pub verb: Verb,
    /// The staged file that an earlier try of this request made, or for which it waits.
    pub granted: Option<Id>,
    pub(in crate::helper) since: Instant,
}

impl Request {
    pub fn new(process: Pid, verb: Verb) -> Request {
        Request { process, verb, granted: None, since: Instant::now() }
    }
}

#[derive(Debug, Clone)]
pub enum Verb {
    Write {
        named: Named,
        how: How,
        options: Options,
    },
    Change {
        named: Named,
        options: Options,
        locks: bool,
    },
    /// The end of a file that several nodes write: all ranks have closed it, or it is given up.
    Shared {
        id: Id,
        end: End,
    },
    Read {
        named: Named,
        options: Options,
    },
    Look {
        named: Named,
    },
    Settle {
        named: Named,
        appends: bool,
    },
    Rename {
        from: Named,
        to: Named,
        flags: u32,
    },
    RenameFolder {
        from: Named,
        to: Named,
        flags: u32,
    },
    Link {
        from: Named,
        to: Named,
    },
    Unlink {
        named: Named,
    },
    /// `beside`: Mainstay's own folder in the listed or removed folder.
    List {
        beside: Named,
    },
    RemoveFolder {
        beside: Named,
    },
    Hold {
        ids: Vec<Id>,
    },
    Holding {
        ids: Vec<Id>,
    },
    Closed {
        id: Id,
        was_synced: bool,
        has_mappings: bool,
    },
    /// A fork may write the file through a mapping.
    Mapped {
        id: Id,
    },
    Unmapped {
        id: Id,
    },
    /// A rank in a slot has the file open, and moves to another process, where it writes the file again.
    GivenUp {
        id: Id,
    },
    /// The process starts a program that cannot load the library.
    Uncaught {
        program: Vec<u8>,
    },
    Left {
        status: i32,
    },
    /// The process is about to end another one.
    Ends {
        other: Pid,
    },
    /// A supervisor reports for a process: `silent.rs`.
    Given {
        id: Id,
        holder: Pid,
    },
    /// A supervisor reports a child that has inherited the file.
    Inherits {
        id: Id,
        holder: Pid,
    },
    Dropped {
        id: Id,
    },
    Lost {
        id: Id,
    },
    Leaves {
        holder: Pid,
        status: i32,
    },
    /// `mainstay files` has started.
    Member {
        job: String,
    },
    /// Asks for the files that programs of this `mainstay files` have open.
    OpenOf {
        member: String,
    },
    /// The program of `mainstay files` has ended.
    Finish {
        job: String,
        has_failed: bool,
    },
}

/// The flags of an open to write.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    pub truncates: bool,
    pub creates: bool,
    pub is_exclusive: bool,
    pub writes_at_once: bool,
    /// The program locks the file, and may leave it unchanged.
    pub locks: bool,
    /// The open is part of MPI_File_open of several ranks.
    pub is_shared: bool,
    /// The first rank makes the file for all.
    pub leads: bool,
}

/// The end of a file that several nodes have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Whole,
    /// A rank could not write or sync its part.
    Failed,
    /// No rank could open it.
    Unused,
}

/// Device and inode.
pub type Inode = (u64, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Stage {
        id: Id,
        path: PathBuf,
        is_new: bool,
    },
    Base(PathBuf, Option<Inode>),
    /// The second part: the inode that the file will have under its name, if it is on its way there.
    At(PathBuf, Option<Inode>),
    Instead(PathBuf, String),
    Published,
    Plain(String),
    Ok,
    /// Lines on files that are torn or not saved, and remarks.
    Finished(Vec<String>, Vec<String>),
    Error(i32, String),
}

//! All errors of the engine. Each message names the problem, the object, and the remedy. After an error the program's
//! state and earlier revisions are intact, except where `restore` says that the regions are undefined.

mod failure;
mod kind;

pub use failure::Failure;
pub use kind::ErrorKind;

use crate::{plural::count, printable::printable};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::{io, ops::Range, sync::Arc};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("{what}: {why}")]
    InvalidArgument { what: String, why: String },

    #[error(
        "the name {name:?} cannot be used: {why}; names are 1 to 200 of the characters A-Z a-z 0-9 _ . - : [ ] /, \
         with no empty, '.' or '..' part between slashes"
    )]
    InvalidName { name: String, why: String },

    #[error(
        "a region named {name:?} is protected already; give each region a name of its own, or unprotect the old one first"
    )]
    DuplicateName { name: String },

    #[error("{path} is not a Mainstay space: {why}; give the directory that a session was opened on")]
    NotASpace { path: String, why: String },

    #[error("{path} has format version {found}, this build reads up to {known}: {hint}")]
    NewerVersion { path: String, found: u32, known: u32, hint: String },

    #[error(
        "damaged: {}; nothing was restored, and a region that a restore had begun to fill is undefined; `mainstay \
         verify` lists the undamaged revisions, and `mainstay rollback` goes back to one of them; if there is none, a \
         job starts afresh after the files of the damaged layout are moved away", .what.join("; ")
    )]
    Damaged { what: Vec<String> },

    #[error(
        "the portion of rank {rank} in {path} is too small: this shard needs {needed} bytes, {available} are available \
         beside the {kept} kept revision(s){}; keep + 1 = {revisions} revisions like it need a portion of {room} \
         bytes; while no job runs, `mainstay grow {} --per-rank {largest}` gives each rank room for one more than that \
         (with --keep as the job has it); or lower keep",
        and_held(*.held), directory_of(.path)
    )]
    PortionTooSmall {
        path: String,
        rank: u32,
        needed: u64,
        /// Need of the largest shard, over all ranks, among those that do not fit.
        largest: u64,
        available: u64,
        kept: usize,
        held: usize,
        /// Number of shards like this one that fit beside the held revisions in a portion of `room` bytes.
        revisions: usize,
        room: u64,
    },

    #[error(
        "no room {}: {doing} {path} ({source}){}; {}",
        where_full(source), lack(*needed, *available), room(source, *needed, *available)
    )]
    DiskFull { doing: String, path: String, source: Arc<io::Error>, needed: Option<u64>, available: Option<u64> },

    #[error(
        "the pool, or a record beside it, needs {needed} more bytes in {path}, which has {available} bytes free; set a \
         smaller pool_bytes or give {path} more memory; if a killed job's pool fills it, `mainstay salvage --all` \
         saves its contents and frees the memory"
    )]
    PoolFull { path: String, needed: u64, available: u64 },

    #[error(
        "the pool {path} cannot be used: {why}; end the job and start it again; `mainstay salvage --all --clean` \
         removes the rest of it"
    )]
    PoolRefused { path: String, why: String },

    #[error("{doing} {path} failed: {source}; {}", advice(doing, source))]
    Io { doing: String, path: String, source: Arc<io::Error> },

    #[error(
        "region {name:?} was saved as {saved} and is protected as {now}; protect it as it was saved (`saved` gives its \
         size, and a restore resizes a region if it may), or open another space"
    )]
    RegionChanged { name: String, saved: String, now: String },

    #[error("region {name:?} {why}")]
    RegionMissing { name: String, why: String },

    #[error(
        "revision {revision} in {path} was saved by {} and the job has {now}: {why}; start it on {}, or open another space",
        count((*.saved).into(), "rank"), count((*.saved).into(), "rank")
    )]
    RankCount { path: String, revision: u64, saved: u32, now: u32, why: String },

    #[error("{path}: {why}")]
    RevisionMissing { path: String, why: String },

    #[error("damaged: {}; no data of it was returned; `mainstay verify` lists the undamaged revisions", .what.join("; "))]
    Unreadable { what: Vec<String> },

    #[error("{path} is in use by another job or session{holder}; wait for its end, or use another space")]
    InUse { path: String, holder: String },

    #[error(
        "{path} was taken over by a newer job (lineage {found}, this job's is {own}); this job saves nothing more there"
    )]
    Fenced { path: String, own: u64, found: u64 },

    #[error(
        "a sync of {path} failed earlier ({cause}), so its contents are in doubt; close this session, check the \
         device, and open the space again"
    )]
    SyncFailed { path: String, cause: String },

    #[error(
        "communication between the ranks failed: {what}; if the setting `recovery` is on, call recover on all \
         remaining ranks, unless this was the close; otherwise end the job and start it again"
    )]
    GroupFailed { what: String },

    #[error(
        "the ranks have made different collective calls: {calls}; none of them had an effect{}; make the same calls in \
         the same order on all ranks", over(*is_over)
    )]
    CallMismatch { calls: String, is_over: bool },

    #[error(
        "this job would push out revision {revision} in {path}, which an earlier job saved, and has restored nothing: \
         call restore first, or get the saved data; to start afresh, set start = \"fresh\" (MAINSTAY_START=fresh, or \
         `mainstay run --fresh` for the first start); nothing was saved or changed"
    )]
    NotRestored { path: String, revision: u64 },

    #[error(
        "revision {revision} holds the globals of another program ({saved}; this one: {now}); start the build of the \
         program that saved them, or open another space; nothing was restored"
    )]
    OtherProgram { revision: u64, saved: String, now: String },

    #[error("this rank waited as a spare and was not needed: the job has ended; end this process normally")]
    NotNeeded,

    #[error(
        "lineage {lineage} in {path} stands for two different runs ({first} and {second}): the files of one were out of \
         sight when the other started, or were copied here; move the files of one of the two away"
    )]
    LineageConflict { path: String, lineage: u64, first: String, second: String },

    #[error(
        "shard {shard} of revision {revision} is not in {path} as rank {shard} sees it; place the ranks on the nodes \
         where they ran"
    )]
    OutOfSight { path: String, revision: u64, shard: u32 },

    #[error(
        "revision {revision} in {path} is out of sight: no rank sees the files {files} that hold {} of it; bring back \
         these files or their disk, or start the ranks on nodes that see them; to go on without that revision, {}; \
         nothing was changed",
        numbered("shard", .shards), go_on(*.is_disk_level)
    )]
    LayoutOutOfSight { path: String, revision: u64, shards: Vec<Range<u32>>, files: String, is_disk_level: bool },

    #[error(
        "the level disk, in {path}, is out of reach: revision {revision} {state} there, and {left} is left without it; bring the \
         disks back, or start the ranks on the nodes that have them; to go on from what is left, set disk_lost = \
         \"accepted\" (MAINSTAY_DISK_LOST=accepted) for one start; nothing was changed"
    )]
    DiskOutOfSight { path: String, revision: u64, state: &'static str, left: String },

    #[error("no {files} in {path} has the portion of rank {rank}; bring back that file or its disk")]
    PortionOutOfSight { path: String, rank: u32, files: String },

    #[error(
        "the last job in {path} did not end normally: data staged by {} may wait in memory that is not visible here, \
         and would be lost; start the job again, which completes it, or call `mainstay salvage {path}` on each of its \
         nodes; after that, or if there is nothing to save, --give-up-staged goes on without it; nothing was changed",
        numbered("rank", .ranks)
    )]
    StagedOutOfSight { path: String, ranks: Vec<Range<u32>> },

    #[error(
        "the output file {path} has {now} bytes, and had {saved} when the revision was saved: it was cut, or is another \
         file; put it back, or do not name it to this session"
    )]
    OutputShort { path: String, saved: u64, now: u64 },

    #[error(
        "the output file {path} is missing, and had {saved} bytes when the revision was saved: put it back, or a link to it{}",
        if *.is_named { ", or do not name it to this session" } else { "" }
    )]
    OutputMissing { path: String, saved: u64, is_named: bool },

    #[error("revision {revision} was not saved, earlier ones are unchanged: {failure}")]
    NotSaved { revision: u64, failure: Failure },

    #[error(
        "revision {revision}, shard {shard}: the staged data could not be completed in {path}: {failure}; the space \
         was not opened, and the data stays in memory: fix the cause and start again, or remove {pool} to give it up"
    )]
    NotCompleted { path: String, revision: u64, shard: u32, pool: String, failure: Failure },

    #[error("on rank {rank}: {failure}")]
    OnRank { rank: usize, failure: Failure },

    #[error("internal error, please report it: {what}")]
    Internal { what: String },
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidArgument { .. } => ErrorKind::InvalidArgument,
            Self::InvalidName { .. } => ErrorKind::InvalidName,
            Self::DuplicateName { .. } => ErrorKind::DuplicateName,
            Self::NotASpace { .. } => ErrorKind::NotASpace,
            Self::NewerVersion { .. } => ErrorKind::NewerVersion,
            Self::Damaged { .. } | Self::Unreadable { .. } | Self::PoolRefused { .. } => ErrorKind::Damaged,
            Self::PortionTooSmall { .. } => ErrorKind::PortionTooSmall,
            Self::DiskFull { .. } => ErrorKind::DiskFull,
            Self::PoolFull { .. } => ErrorKind::PoolFull,
            Self::Io { .. } => ErrorKind::Io,
            Self::RegionChanged { .. } => ErrorKind::RegionChanged,
            Self::RegionMissing { .. } => ErrorKind::RegionMissing,
            Self::RankCount { .. } => ErrorKind::RankCount,
            Self::InUse { .. } => ErrorKind::InUse,
            Self::Fenced { .. } => ErrorKind::Fenced,
            Self::SyncFailed { .. } => ErrorKind::SyncFailed,
            Self::GroupFailed { .. } => ErrorKind::GroupFailed,
            Self::LineageConflict { .. } => ErrorKind::LineageConflict,
            Self::OutOfSight { .. }
            | Self::LayoutOutOfSight { .. }
            | Self::DiskOutOfSight { .. }
            | Self::PortionOutOfSight { .. }
            | Self::StagedOutOfSight { .. } => ErrorKind::OutOfSight,
            Self::OutputShort { .. } | Self::OutputMissing { .. } => ErrorKind::OutputShort,
            Self::RevisionMissing { .. } => ErrorKind::RevisionMissing,
            Self::CallMismatch { .. } => ErrorKind::CallMismatch,
            Self::NotRestored { .. } => ErrorKind::NotRestored,
            Self::NotNeeded => ErrorKind::NotNeeded,
            Self::OtherProgram { .. } => ErrorKind::OtherProgram,
            Self::NotSaved { failure, .. } | Self::NotCompleted { failure, .. } | Self::OnRank { failure, .. } => {
                failure.kind
            }
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// `Io`, or `DiskFull`: the system's error while `doing` something to `path`.
    pub fn io(doing: &str, path: impl std::fmt::Display, source: io::Error) -> Self {
        let (doing, path, full) = (doing.to_owned(), path.to_string(), is_full(&source));
        let source = Arc::new(source);
        if full {
            Self::DiskFull { doing, path, source, needed: None, available: None }
        } else {
            Self::Io { doing, path, source }
        }
    }

    /// Adds the number of bytes to be written, and the free bytes, to the error of a full disk.
    pub(crate) fn for_want_of(mut self, bytes: u64, room: impl FnOnce() -> Option<u64>) -> Self {
        if let Self::DiskFull { source, needed, available, .. } = &mut self {
            *needed = Some(bytes);
            // The file system's free bytes ignore quotas, and limits on the size of files.
            *available = room().filter(|_| source.raw_os_error() == Some(libc::ENOSPC));
        }
        self
    }

    /// `InvalidArgument`: `what` is the argument in the caller's terms; `why` says why it is invalid, or gives an
    /// alternative.
    pub fn argument(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::InvalidArgument { what: what.into(), why: why.into() }
    }

    /// Whether the error concerns this process, which cannot get more files or memory, and not a medium.
    pub(crate) fn is_of_process(&self) -> bool {
        let lacks = [libc::EMFILE, libc::ENFILE, libc::ENOMEM].map(Some);
        let lacks =
            |source: &io::Error| source.kind() == io::ErrorKind::OutOfMemory || lacks.contains(&source.raw_os_error());
        matches!(self, Self::Io { source, .. } if lacks(source))
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: vec![what.into()] }
    }
}

/// Names, joined for a message: only as many as a reader will read.
pub(crate) fn named<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const NAMES_MAX: usize = 10;
    let more = (names.len() > NAMES_MAX).then_some("and more");
    let there: Vec<&str> = names.take(NAMES_MAX).chain(more).collect();
    if there.is_empty() { "none".to_owned() } else { printable(&there.join(", ")).into_owned() }
}

/// Numbers of shards or ranks, joined for a message; `what` is their noun.
pub(crate) fn numbered(what: &str, parts: &[Range<u32>]) -> String {
    let text = |part: &Range<u32>| match part.len() {
        1 => part.start.to_string(),
        _ => format!("{} to {}", part.start, part.end - 1),
    };
    let texts: Vec<String> = parts.iter().map(text).collect();
    let several = if parts.len() == 1 && parts[0].len() == 1 { "" } else { "s" };
    format!("{what}{several} {}", named(texts.iter().map(String::as_str)))
}

/// The directory of the space with this layout file.
fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(directory, _)| directory)
}

fn and_held(held: usize) -> String {
    match held {
        0 => String::new(),
        held => format!(", {held} of them held: `mainstay release` lets those go"),
    }
}

/// How to go on without a revision that is partly out of sight.
fn go_on(is_disk_level: bool) -> &'static str {
    match is_disk_level {
        true => "set disk_lost = \"accepted\" (MAINSTAY_DISK_LOST=accepted) for one start",
        false => "move the other files of this name away, on every node",
    }
}

fn over(is_over: bool) -> &'static str {
    if is_over { ", but the session is over on all ranks, and can only be closed" } else { "" }
}

fn lack(needed: Option<u64>, available: Option<u64>) -> String {
    let needed = match needed {
        None => String::new(),
        Some(0) => ": only a name was to be made there".to_owned(),
        Some(needed) => format!(": {needed} bytes were to go there"),
    };
    available.map_or(needed.clone(), |available| format!("{needed}, {available} are free"))
}

fn room(source: &io::Error, needed: Option<u64>, available: Option<u64>) -> &'static str {
    match source.raw_os_error() {
        // The file system did not lack the resource that it counts as free.
        Some(libc::ENOSPC) if needed.is_some_and(|needed| is_enough(needed, available)) => {
            "as that is enough, it has no more inodes (df -i), or the device below it is full, as where that is thinly \
             provisioned (the system's log may say more): free some space there or choose another place"
        }
        Some(libc::EFBIG) => too_large(getrlimit(Resource::RLIMIT_FSIZE).map_or(RLIM_INFINITY, |(limit, _)| limit)),
        Some(libc::EDQUOT) => "free some space of this user's, raise the quota, or choose another place",
        _ => "free some space or choose another place",
    }
}

/// Whether the free bytes suffice; a new name takes a block of its directory.
fn is_enough(needed: u64, available: Option<u64>) -> bool {
    const BLOCK: u64 = 4096;
    available.map_or(needed == 0, |available| available >= needed.max(BLOCK))
}

/// The place that is full.
fn where_full(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EFBIG) => "in a file",
        _ => "on the file system",
    }
}

/// The remedy for a file that would be too large; `limit`: of this process, in bytes.
fn too_large(limit: u64) -> &'static str {
    match limit {
        RLIM_INFINITY => {
            "the file system has no files as large; divide the space among more of them (per = node or per = rank), or \
             choose another place"
        }
        _ => "raise the limit on the size of files (ulimit -f), or choose another place",
    }
}

/// The action in the error for a failed copy of a snapshot, which has its own advice.
pub(crate) const SNAPSHOT: &str = "copying the snapshot of";

fn advice(doing: &str, source: &io::Error) -> &'static str {
    if let Some(libc::EMFILE | libc::ENFILE) = source.raw_os_error() {
        return "let the program have more files open (ulimit -n), or close some";
    }
    if source.raw_os_error() == Some(libc::ENAMETOOLONG) {
        return "choose a place with a shorter name";
    }
    if doing == SNAPSHOT {
        return match source.kind() {
            io::ErrorKind::InvalidInput => {
                "wait until a revision is complete before memory of it is given back, or allocate that as written by the system"
            }
            _ => {
                "the system may have had no memory left (its log says more); the next checkpoint saves all that changed since"
            }
        };
    }
    match source.kind() {
        io::ErrorKind::PermissionDenied => "give this user the right to, or choose another place",
        io::ErrorKind::ReadOnlyFilesystem => {
            "choose a writable place; if it was writable before, its device may have failed (the system's log may say \
             more)"
        }
        io::ErrorKind::OutOfMemory => "give the program more memory",
        io::ErrorKind::WouldBlock if doing == "starting" => {
            "let this user, or the job's control group, have more threads (ulimit -u, pids.max), or end some"
        }
        io::ErrorKind::IsADirectory => "a directory has this name; move it away",
        io::ErrorKind::NotADirectory => "a part of this path is no directory; choose another place",
        io::ErrorKind::AlreadyExists if doing == "making the directory" => "a file has this name; choose another place",
        // The directory existed before, so only a removed directory explains a missing one here.
        io::ErrorKind::NotFound if doing == "making" => {
            "its directory was removed or renamed meanwhile, or takes no files, as in /proc; bring it back and open the space \
             again, or choose a place on a file system that keeps files"
        }
        io::ErrorKind::NotFound if doing == "syncing" => {
            "leave the files of a space where they are as long as a job has it open"
        }
        // Parent directories are made too, so the cause is a file system that accepts no new entries.
        io::ErrorKind::NotFound if doing.starts_with("making") => {
            "nothing can be made there, as in /proc; choose a place on a file system that keeps files"
        }
        _ => "check the device (the system's log may say more), then try again",
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_where_nothing_can_be_made_is_called_so() {
        let message = |doing: &str| Error::io(doing, "/proc/x".to_owned(), io::ErrorKind::NotFound.into()).to_string();
        assert!(message("making the directory").ends_with("a file system that keeps files"));
        assert!(message("reading").ends_with("try again"));
    }

    /// If the device below the file system was full, or its inodes were used up, the only advice was to free some
    /// space. If a new name found no byte free, the advice blamed the inodes.
    #[test]
    fn a_file_system_that_is_not_full_itself_is_called_so() {
        let lacking = |bytes, free| {
            let full = io::Error::from_raw_os_error(libc::ENOSPC);
            Error::io("writing to", "layout-1", full).for_want_of(bytes, || free).to_string()
        };
        let message = |free| lacking(4096, Some(free));
        assert!(message(0).ends_with("0 are free; free some space or choose another place"), "{}", message(0));
        for part in ["4096 are free; as that is enough, it has no more inodes (df -i)", "thinly provisioned"] {
            assert!(message(4096).contains(part), "{}", message(4096));
        }
        for (free, blames_inodes) in [(Some(0), false), (Some(4095), false), (Some(4096), true), (None, true)] {
            assert_eq!(lacking(0, free).contains("inodes"), blames_inodes, "{}", lacking(0, free));
        }
    }

    /// If a level's directory was renamed while the job ran, the error called it a place like /proc. If a file was
    /// removed, the error blamed the device.
    #[test]
    fn what_has_gone_meanwhile_is_called_so() {
        let message = |doing: &str| Error::io(doing, "layout-1", io::ErrorKind::NotFound.into()).to_string();
        assert!(message("making").contains("its directory was removed or renamed meanwhile"));
        assert!(message("syncing").ends_with("as long as a job has it open"));
    }

    /// The error named a limit of the process, which had none, instead of the file system's limit.
    #[test]
    fn whose_limit_a_file_has_reached_is_told() {
        assert!(too_large(RLIM_INFINITY).contains("the file system has no files as large"));
        assert!(too_large(1 << 30).contains("ulimit -f"));
        let error = Error::io("making", "layout-1".to_owned(), io::Error::from_raw_os_error(libc::EFBIG));
        let has_none = getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(limit, _)| limit == RLIM_INFINITY);
        assert_eq!(error.to_string().contains("no files as large"), has_none, "{error}");
        assert!(error.to_string().starts_with("no room in a file: "), "{error}");
    }

    /// The error blamed the device for all of these.
    #[test]
    fn what_no_device_has_done_is_called_so() {
        let message = |doing: &str, kind: io::ErrorKind| Error::io(doing, "layout-1", kind.into()).to_string();
        assert!(message("reading", io::ErrorKind::IsADirectory).ends_with("a directory has this name; move it away"));
        assert!(message(SNAPSHOT, io::ErrorKind::InvalidInput).contains("before memory of it is given back"));
        assert!(message(SNAPSHOT, io::ErrorKind::Other).contains("no memory left"));
        assert!(message("starting", io::ErrorKind::WouldBlock).contains("have more threads (ulimit -u, pids.max)"));
        let named = crate::device::Disk::make(std::path::Path::new("/tmp/a\0b")).unwrap_err();
        assert_eq!(named.kind(), ErrorKind::InvalidArgument, "{named}");
    }
}

//! The stage: a folder of the user in the node's memory, with the files that have no name yet.
//!
//! ```text
//! STAGE/socket          requests of programs        STAGE/files/ID      the bytes
//! STAGE/lock            held by the helper          STAGE/records/ID    the file for which they are
//! STAGE/prepared/ID     memory set aside            STAGE/whole/ID      a mark: the file is whole, and the one that it replaces
//! STAGE/torn/ID         a mark: never whole         STAGE/failed/ID     the reason of a failure to save it
//! STAGE/holders/ID      the processes that have it open, if there are several
//! ```
//! Invariants: only this user can enter the folder. A record is written before its file gets bytes. IDs grow with time.

use crate::{
    file::{Identity, Named},
    options::Options,
};
use rustix::{
    fs::{FlockOperation, flock},
    process::getuid,
    time::{ClockId, clock_gettime},
};
use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A record is longer than the longest message only if it is damaged.
const RECORD_BYTES_MAX: u64 = 32 << 10;

#[derive(Debug, Clone)]
pub struct Stage {
    path: PathBuf,
}

/// A variable in the environment of a program with a supervisor (`catch`): its stage.
pub const CATCH_VARIABLE: &str = "MAINSTAY_FILES_CATCH";
/// A variable in the environment of each program under `mainstay files`: its job.
pub const JOB_VARIABLE: &str = "MAINSTAY_FILES_JOB";

const FOLDERS: [&str; 7] = ["records", "files", "whole", "torn", "failed", "holders", "prepared"];
const MAKE_TRIES: usize = 100;
/// A reason is one line.
const REASON_BYTES_MAX: u64 = 4096;

/// The number of a staged file on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Id {
    pub fn number(self) -> u64 {
        self.0
    }

    /// The node of the helper that gave this ID.
    pub fn node(self) -> u16 {
        self.0 as u16
    }

    pub fn from_text(text: &str) -> Option<Id> {
        (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok().map(Id)).flatten()
    }

    /// A number after `last`, by the time since the start of the machine. The low bits tell nodes apart.
    pub fn after(last: Option<Id>, node: u16) -> Id {
        let now = clock_gettime(ClockId::Boottime);
        let micros = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        let micros = micros.max(last.map_or(0, |last| (last.0 >> 16) + 1));
        Id(micros << 16 | u64::from(node))
    }
}

/// The record of a staged file.
#[derive(Debug, Clone)]
pub struct Record {
    pub named: Named,
    /// The bytes are in the target's file system, not in the node's memory.
    pub is_through: bool,
    pub share: Share,
    pub options: Options,
    /// The round of its set: `sets.rs`.
    pub round: u32,
}

/// The part of this node in a file that several nodes write by MPI-IO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Only this node writes the file.
    Whole,
    /// The first rank is on this node: this helper publishes the file.
    Led,
    /// Other ranks are on this node.
    Joined,
}

impl Stage {
    /// The stage of this user; `path`: a folder in place of the usual one.
    pub fn make(path: Option<&Path>) -> io::Result<Stage> {
        // An absolute path: the helper has another working directory.
        let path = path.map_or_else(|| Ok(usual()), std::path::absolute)?;
        let mut tries = 0..MAKE_TRIES;
        loop {
            match Stage::made(&path) {
                // A helper that ends may be removing the stage.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries.next().is_some() => {}
                made => return made,
            }
        }
    }

    fn made(path: &Path) -> io::Result<Stage> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let stage = Stage::open(path)?;
        for folder in FOLDERS {
            match DirBuilder::new().mode(0o700).create(path.join(folder)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(stage)
    }

    /// The folder of the usual stage of this user.
    pub fn usual() -> PathBuf {
        usual()
    }

    /// The usual stage of this user, if there is one.
    pub fn find() -> Option<Stage> {
        Stage::open(&usual()).ok()
    }

    /// The stage in `path`. Fails if another user may enter it.
    pub fn open(path: &Path) -> io::Result<Stage> {
        let found = fs::symlink_metadata(path)?;
        let is_ours = found.is_dir() && found.uid() == getuid().as_raw() && found.mode() & 0o077 == 0;
        match is_ours {
            true => Ok(Stage { path: path.to_owned() }),
            false => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "other users can enter it, or it is not yours"))
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn socket(&self) -> PathBuf {
        self.path.join("socket")
    }

    pub fn file(&self, id: Id) -> PathBuf {
        self.path.join("files").join(id.to_string())
    }

    pub fn prepared(&self, id: Id) -> PathBuf {
        self.path.join("prepared").join(id.to_string())
    }

    fn record_path(&self, id: Id) -> PathBuf {
        self.path.join("records").join(id.to_string())
    }

    fn whole_path(&self, id: Id) -> PathBuf {
        self.path.join("whole").join(id.to_string())
    }

    fn torn_path(&self, id: Id) -> PathBuf {
        self.path.join("torn").join(id.to_string())
    }

    fn holders_path(&self, id: Id) -> PathBuf {
        self.path.join("holders").join(id.to_string())
    }

    fn failed_path(&self, id: Id) -> PathBuf {
        self.path.join("failed").join(id.to_string())
    }

    /// The lock of the helper; `None`: another process is the helper.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.path.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the record of `id`, or replaces it in one step.
    pub fn write_record(&self, id: Id, record: &Record) -> io::Result<()> {
        let fields = [
            &record.named.fields()[..],
            &[
                vec![match record.share {
                    Share::Whole => b'0' + u8::from(record.is_through),
                    Share::Led => b'2',
                    Share::Joined => b'3',
                }],
                record.round.to_string().into(),
                record.options.to_text().into(),
            ],
        ];
        let text = fields.concat().join(&0);
        let new = self.record_path(id).with_extension("new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, self.record_path(id))).inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })
    }

    pub fn read_record(&self, id: Id) -> io::Result<Record> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the record of a staged file is damaged");
        if fs::symlink_metadata(self.record_path(id))?.len() > RECORD_BYTES_MAX {
            return Err(damaged());
        }
        let bytes = fs::read(self.record_path(id))?;
        let fields: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
        let [folder, device, inode, name, through, round, options] = fields[..] else { return Err(damaged()) };
        let text = |field| std::str::from_utf8(field).map_err(|_| damaged());
        Ok(Record {
            named: Named::from_fields(&[folder, device, inode, name]).ok_or_else(damaged)?,
            is_through: through != b"0",
            share: match through {
                b"2" => Share::Led,
                b"3" => Share::Joined,
                _ => Share::Whole,
            },
            round: text(round)?.parse().map_err(|_| damaged())?,
            options: Options::from_text(text(options)?),
        })
    }

    /// `replaces`: the file under the name at this moment.
    pub fn mark_whole(&self, id: Id, replaces: Option<Identity>) -> io::Result<()> {
        let text = replaces.map_or(String::new(), |one| one.map(|number| number.to_string()).join(" "));
        let mut mark = File::create(self.whole_path(id))?;
        // A full memory has room for the mark alone.
        let _ = mark.write_all(text.as_bytes());
        Ok(())
    }

    /// The file that was under the name when the staged one was closed.
    pub fn replaced(&self, id: Id) -> Option<Identity> {
        let text = fs::read_to_string(self.whole_path(id)).ok()?;
        let numbers: Vec<i64> = text.split(' ').filter_map(|number| number.parse().ok()).collect();
        numbers.try_into().ok()
    }

    pub fn is_whole(&self, id: Id) -> bool {
        self.whole_path(id).exists()
    }

    /// Marks a file as torn while other processes still hold it: the next helper must know.
    pub fn mark_torn(&self, id: Id) {
        let _ = File::create(self.torn_path(id));
    }

    pub fn is_torn(&self, id: Id) -> bool {
        self.torn_path(id).exists()
    }

    /// Notes the processes that hold the file: the next helper must know if one of them was killed.
    pub fn note_holders(&self, id: Id, processes: &[i32]) {
        let path = self.holders_path(id);
        let text: Vec<String> = processes.iter().map(i32::to_string).collect();
        let _ = if text.is_empty() { fs::remove_file(path) } else { fs::write(path, text.join(" ")) };
    }

    pub fn noted_holders(&self, id: Id) -> Vec<i32> {
        let text = fs::read_to_string(self.holders_path(id)).unwrap_or_default();
        text.split(' ').filter_map(|process| process.parse().ok()).collect()
    }

    /// Notes the reason of a failure to save a whole file, for `mainstay status`.
    pub fn mark_failed(&self, id: Id, reason: &str) {
        let _ = fs::write(self.failed_path(id), reason);
    }

    /// The reason of a failure to save a whole file.
    pub fn failure(&self, id: Id) -> Option<String> {
        let mut text = Vec::new();
        File::open(self.failed_path(id)).ok()?.take(REASON_BYTES_MAX).read_to_end(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// Removes all traces of `id`. The record goes first: without it the file counts for nothing.
    pub fn remove(&self, id: Id) {
        let marks = [self.whole_path(id), self.torn_path(id), self.holders_path(id), self.failed_path(id)];
        for path in [self.record_path(id)].iter().chain(&marks).chain([&self.file(id)]) {
            let _ = fs::remove_file(path);
        }
    }

    /// The staged files with a record, in the order of their opening.
    pub fn ids(&self) -> io::Result<Vec<Id>> {
        let mut ids: Vec<Id> =
            names(&self.path.join("records"))?.iter().filter_map(|name| Id::from_text(name)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Removes the stage if no file is in it. Another process makes it again.
    pub fn remove_if_empty(&self) {
        let _ = fs::remove_file(self.socket());
        let is_empty = FOLDERS.iter().all(|part| fs::remove_dir(self.path.join(part)).is_ok());
        if is_empty && fs::remove_file(self.path.join("lock")).is_ok() {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Removes memory that was set aside, files without a record, and halves of records.
    pub fn clear_remains(&self) -> io::Result<()> {
        let ids = self.ids()?;
        for folder in FOLDERS {
            for name in names(&self.path.join(folder))? {
                let is_known = folder != "prepared" && Id::from_text(&name).is_some_and(|id| ids.contains(&id));
                if !is_known {
                    let _ = fs::remove_file(self.path.join(folder).join(name));
                }
            }
        }
        Ok(())
    }
}

/// The stage of the surrounding `mainstay files`, if any, else the usual one of this user.
fn usual() -> PathBuf {
    let around = env::var_os("MAINSTAY_FILES_STAGE").map(PathBuf::from).filter(|path| path.is_absolute());
    around.unwrap_or_else(|| format!("/dev/shm/mainstay-files-{}", getuid().as_raw()).into())
}

/// The names in a folder, as far as they are text.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn half_a_record_of_a_killed_helper_goes() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let stage = Stage::make(Some(&folder.path().join("stage"))).unwrap();
        let half = stage.record_path(Id::after(None, 3)).with_extension("new");
        fs::write(&half, "half").unwrap();
        stage.clear_remains().unwrap();
        assert!(!half.exists());
    }

    #[test]
    fn a_record_comes_back_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let stage = Stage::make(Some(&folder.path().join("stage"))).unwrap();
        let named = Named::in_folder(folder.path(), OsStr::new("restart.1")).unwrap();
        let record = Record { named, is_through: true, share: Share::Led, options: Options::default(), round: 7 };
        let id = Id::after(None, 3);
        stage.write_record(id, &record).unwrap();
        let again = stage.read_record(id).unwrap();
        assert_eq!((again.named.key, again.is_through, again.round), (record.named.key, true, 7));
        assert_eq!(again.share, Share::Led);
        assert_eq!(stage.ids().unwrap(), [id]);
        for damage in [&b"x"[..], b"", b"/a\x001\x002\x00../x\x001\x001\x00", &[0; 40_000]] {
            fs::write(stage.record_path(id), damage).unwrap();
            assert!(stage.read_record(id).is_err());
        }
    }

    #[test]
    fn ids_grow_and_come_back_from_their_text() {
        let first = Id::after(None, 1);
        let second = Id::after(Some(first), 1);
        assert!(first < second);
        assert_eq!(Id::from_text(&second.to_string()), Some(second));
        assert_eq!(Id::from_text("12"), None);
        assert_eq!(Id::from_text("../../../etc/pas"), None);
    }

    #[test]
    fn a_stage_that_others_can_enter_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Stage::make(Some(folder.path())).is_err());
    }
}

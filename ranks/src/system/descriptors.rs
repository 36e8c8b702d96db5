//! The descriptors of a rank: numbers of its own, over files that the host has open.
//!
//! Invariant: two numbers that a rank duplicated share one open file, also after a restart.

use super::{
    Arguments, System, kernel,
    protected::{self, HostFile},
    removed::{Number, bytes_of, name_of, nameless_again, number_of},
};
use crate::{Error, Result, libraries::is_another_mpi, memory};
use serde::{Deserialize, Serialize};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    ffi::{CString, OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    os::{
        fd::{AsRawFd, RawFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        },
    },
    path::Path,
    rc::Rc,
};

/// A rank has no more descriptors.
const DESCRIPTORS_MAX: i32 = 1 << 16;
/// A rank keeps the lengths of this many files that it has written and closed: of the latest ones.
const WRITTEN_MAX: usize = 1024;

/// An open file of the host, which belongs to a rank.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub host: HostFile,
    /// A protected file may be renamed while it is open.
    path: RefCell<Vec<u8>>,
    flags: i32,
    kind: Kind,
    number: Number,
    /// The place in the standard input of the job. It is rank 0's.
    pub input: Option<Cell<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    /// Standard input, output or error of the job.
    Standard(u8),
    Regular,
    Directory,
    /// A device such as /dev/null.
    Device,
    /// A pipe, a socket and the like, which no restart can bring back.
    Lost,
    /// A file that `mainstay files` protects, written in another place until it is closed. With its mode.
    Protected(u32),
}

impl Kind {
    fn is_protected(self) -> bool {
        matches!(self, Kind::Protected(_))
    }

    fn has_bytes(self) -> bool {
        self == Kind::Regular || self.is_protected()
    }
}

/// A file of a rank, as it is saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedFile {
    /// The descriptors that share it. Empty: it was written, and is closed.
    numbers: Vec<i32>,
    path: Vec<u8>,
    flags: i32,
    kind: Kind,
    /// The place in it. Of standard input: the bytes that the rank has read.
    offset: u64,
    /// The length of a file that the rank writes; a restart cuts it back to that.
    length: Option<u64>,
    /// The bytes of a file without a name, and of a protected file that is open to write.
    #[serde(with = "serde_bytes")]
    bytes: Option<Vec<u8>>,
}

impl SavedFile {
    /// The path of a regular file that has one.
    pub fn name(&self) -> Option<&[u8]> {
        (self.kind.has_bytes() && self.bytes.is_none()).then_some(&*self.path)
    }
}

impl OpenFile {
    /// The path and the file, if its bytes can be mapped again.
    pub fn regular(&self) -> Option<(OsString, &File)> {
        self.kind.has_bytes().then(|| (OsString::from_vec(self.path.borrow().clone()), &*self.host))
    }

    /// It is a file, whatever it is to the rank.
    pub fn is_a_file(&self) -> bool {
        self.host.metadata().is_ok_and(|about| about.is_file())
    }

    fn writes(&self) -> bool {
        self.kind.has_bytes() && self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// The rank can overwrite bytes, and read them later.
    fn can_overwrite(&self) -> bool {
        self.kind == Kind::Regular && self.flags & (libc::O_ACCMODE | libc::O_APPEND) == libc::O_RDWR
    }

    /// Its name now. `None`: it has none.
    fn name(&self) -> Option<Vec<u8>> {
        match self.kind {
            Kind::Regular => name_of(&self.host),
            Kind::Protected(_) if self.host.metadata().is_ok_and(|about| about.nlink() == 0) => None,
            _ => Some(self.path.borrow().clone()),
        }
    }

    /// `own`: the name of a protected file.
    fn new(host: RawFd, flags: i32, own: Option<Vec<u8>>) -> OpenFile {
        // The kernel gave the number to this rank's call just now.
        let host = HostFile::owned(host, own.is_some());
        let about = host.metadata();
        let kind = match about.as_ref().map(fs::Metadata::file_type) {
            Ok(_) if own.is_some() => Kind::Protected(0),
            Ok(kind) if kind.is_file() => Kind::Regular,
            Ok(kind) if kind.is_dir() => Kind::Directory,
            Ok(kind) if kind.is_char_device() || kind.is_block_device() => Kind::Device,
            _ => Kind::Lost,
        };
        let number = about.map_or((0, 0), |about| number_of(&about));
        let link = || fs::read_link(format!("/proc/self/fd/{}", host.as_raw_fd()));
        let path = own.or_else(|| Some(link().ok()?.into_os_string().into_vec()));
        OpenFile { path: RefCell::new(path.unwrap_or_default()), host, flags, kind, number, input: None }
    }
}

/// A file that the rank has written and closed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    path: Vec<u8>,
    /// It is whole under its name: a restart leaves it as it is.
    is_protected: bool,
}

#[derive(Debug, Default)]
pub(super) struct Descriptors {
    open: BTreeMap<i32, Rc<OpenFile>>,
    /// Files that the rank has written and closed, the oldest first.
    written: Vec<Written>,
    /// The lengths, at the last revision, of the files that the rank writes.
    lengths: BTreeMap<Number, u64>,
    /// Files with a remark. Each has only one.
    remarked: BTreeSet<Number>,
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl Descriptors {
    /// Standard input, output and error. Rank 0 alone reads the input, as with any launcher.
    pub fn standard(rank: usize) -> Result<Descriptors> {
        let mut open = BTreeMap::new();
        for number in 0..3 {
            open.insert(i32::from(number), Rc::new(standard(rank, number, None)?));
        }
        Ok(Descriptors { open, ..Descriptors::default() })
    }

    pub fn get(&self, number: i32) -> io::Result<&Rc<OpenFile>> {
        self.open.get(&number).ok_or_else(|| error(libc::EBADF))
    }

    /// Enters a file under the lowest free number from `least` on.
    fn enter(&mut self, file: Rc<OpenFile>, least: i32) -> io::Result<i64> {
        if least < 0 {
            return Err(error(libc::EINVAL));
        }
        let number = (least..DESCRIPTORS_MAX).find(|number| !self.open.contains_key(number));
        let number = number.ok_or_else(|| error(libc::EMFILE))?;
        self.open.insert(number, file);
        Ok(number.into())
    }

    /// `in_order`: protected files that are open to write are whole.
    pub fn close_all(&mut self, in_order: bool) {
        if !in_order {
            self.open.retain(|_, file| !file.kind.is_protected());
        }
        let numbers: Vec<i32> = self.open.keys().copied().collect();
        for number in numbers {
            // It is open.
            let _ = self.close(number);
        }
    }

    fn close(&mut self, number: i32) -> io::Result<()> {
        let file = self.open.remove(&number).ok_or_else(|| error(libc::EBADF))?;
        if file.writes()
            && let Some(path) = file.name()
        {
            self.note_written(Written { path, is_protected: file.kind.is_protected() });
        }
        // The rank may have other numbers for it.
        Rc::try_unwrap(file).map_or(Ok(()), |file| file.host.close())
    }

    fn note_written(&mut self, new: Written) {
        self.written.retain(|old| old.path != new.path);
        self.written.push(new);
        let surplus = self.written.len().saturating_sub(WRITTEN_MAX);
        self.written.drain(..surplus);
    }

    /// The path, if it is that of a protected file that the rank has written.
    pub fn written_whole(&self, path: Option<&[u8]>) -> Option<Vec<u8>> {
        let path = path?;
        self.written.iter().find(|one| one.is_protected && one.path == path).map(|one| one.path.clone())
    }

    /// A file has lost the name `old`. `new`: it has this one instead.
    pub fn follow(&mut self, old: Option<Vec<u8>>, new: Option<Vec<u8>>) {
        let Some(old) = old else { return };
        let was_written = self.written_whole(Some(&old)).is_some();
        self.written.retain(|one| !(one.is_protected && one.path == old));
        let Some(new) = new else { return };
        for file in self.open.values().filter(|file| file.kind.is_protected()) {
            if *file.path.borrow() == old {
                file.path.replace(new.clone());
            }
        }
        if was_written {
            self.note_written(Written { path: new, is_protected: true });
        }
    }

    /// The regular files that a revision needs, and their paths. Protected files need no second name while they are written.
    pub fn numbers(&self) -> BTreeMap<Number, Vec<u8>> {
        let open = self.open.values().filter(|file| file.kind == Kind::Regular);
        let open = open.filter_map(|file| Some((number_of(&file.host.metadata().ok()?), name_of(&file.host)?)));
        let closed = self.written.iter().filter(|one| !one.is_protected).map(|one| &one.path);
        let closed =
            closed.filter_map(|path| Some((number_of(&fs::metadata(OsStr::from_bytes(path)).ok()?), path.clone())));
        open.chain(closed).collect()
    }

    /// The files as they are now.
    pub fn save(&mut self, remarks: &mut Vec<String>) -> Vec<SavedFile> {
        self.lengths.clear();
        let mut all: Vec<(&Rc<OpenFile>, SavedFile)> = Vec::new();
        for (number, file) in &self.open {
            if let Some((_, saved)) = all.iter_mut().find(|(known, _)| Rc::ptr_eq(known, file)) {
                saved.numbers.push(*number);
                continue;
            }
            let is_protected = file.kind.is_protected();
            let is_cut = file.writes() && !is_protected;
            let length = is_cut.then(|| file.host.metadata().map_or(0, |about| about.len()));
            self.lengths.extend(length.map(|length| (file.number, length)));
            let offset = match file.kind {
                Kind::Regular | Kind::Protected(_) | Kind::Directory => (&*file.host).stream_position().unwrap_or(0),
                _ => file.input.as_ref().map_or(0, Cell::get),
            };
            if file.kind == Kind::Lost && self.remarked.insert(file.number) {
                let path = file.path.borrow();
                let name = String::from_utf8_lossy(&path);
                remarks.push(format!("descriptor {number} ({name}) is not saved; it is closed after a restart"));
            }
            let numbers = vec![*number];
            let name = file.name();
            let bytes = if name.is_none() || is_protected { bytes_of(&file.host) } else { None };
            // Only a file that is open to write gets its name again.
            let is_nameless = is_protected && (name.is_none() || !file.writes());
            let mode = || file.host.metadata().map_or(0o600, |about| about.mode() & 0o7777);
            let kind = match file.kind {
                Kind::Protected(_) if is_nameless => Kind::Regular,
                Kind::Protected(_) => Kind::Protected(mode()),
                kind => kind,
            };
            let flags = file.flags;
            let path = name.unwrap_or_else(|| file.path.borrow().clone());
            all.push((file, SavedFile { numbers, path, flags, kind, offset, length, bytes }));
        }
        let closed = self.written.iter().filter_map(|Written { path, is_protected }| {
            let (kind, length) = if *is_protected {
                (Kind::Protected(0), None)
            } else {
                let about = fs::metadata(OsStr::from_bytes(path)).ok()?;
                self.lengths.insert(number_of(&about), about.len());
                (Kind::Regular, Some(about.len()))
            };
            let (numbers, path) = (Vec::new(), path.clone());
            Some(SavedFile { numbers, path, flags: 0, kind, offset: 0, length, bytes: None })
        });
        all.into_iter().map(|(_, saved)| saved).chain(closed).collect()
    }

    /// Whether a write at `place` overwrites bytes that the last revision needs. True once for each file.
    fn overwrites(&mut self, file: &OpenFile, place: u64) -> bool {
        self.lengths.get(&file.number).is_some_and(|length| place < *length) && self.remarked.insert(file.number)
    }

    /// Opens the files of a saved rank, and cuts back those that it writes.
    pub fn open_again(rank: usize, files: &[SavedFile], remarks: &mut Vec<String>) -> Result<Descriptors> {
        let mut all = Descriptors::default();
        for file in files {
            let path = OsStr::from_bytes(&file.path);
            if file.numbers.is_empty() {
                cut_back(path, file, remarks);
                let is_protected = file.kind.is_protected();
                all.written.push(Written { path: file.path.clone(), is_protected });
                continue;
            }
            let gone = |error| Error::Refused(format!("rank {rank} had {} open, and now: {error}", path.display()));
            let open = match file.kind {
                Kind::Standard(number) => standard(rank, number, Some(file.offset))?,
                Kind::Lost => continue,
                Kind::Protected(mode) => written_again(file, mode).map_err(gone)?,
                Kind::Regular | Kind::Directory | Kind::Device => {
                    let host = reopened(file).map_err(gone)?;
                    if file.bytes.is_none() {
                        cut_back(path, file, remarks);
                    }
                    let (path, flags, kind) = (RefCell::new(file.path.clone()), file.flags, file.kind);
                    let number = host.metadata().map_or((0, 0), |about| number_of(&about));
                    all.lengths.extend(file.length.map(|length| (number, length)));
                    OpenFile { host: host.into(), path, flags, kind, number, input: None }
                }
            };
            let open = Rc::new(open);
            for number in &file.numbers {
                all.open.insert(*number, open.clone());
            }
        }
        Ok(all)
    }
}

/// `place`: where the rank was in it. `None`: it begins.
fn standard(rank: usize, number: u8, place: Option<u64>) -> Result<OpenFile> {
    let wrong = |error| Error::system("standard input and output", error);
    let host: HostFile = if number == 0 && rank != 0 {
        File::open("/dev/null").map_err(wrong)?.into()
    } else {
        // The rank's copy has a number above those of the host's own.
        let result = kernel::call(libc::SYS_fcntl, [number.into(), libc::F_DUPFD_CLOEXEC as u64, 3, 0, 0, 0]);
        match kernel::result(result) {
            Ok(descriptor) => HostFile::owned(descriptor as RawFd, false),
            // The job runs with this one closed.
            Err(_) => OpenOptions::new().read(true).write(true).open("/dev/null").map_err(wrong)?.into(),
        }
    };
    let flags = if number == 0 { libc::O_RDONLY } else { libc::O_WRONLY };
    let begin = || (&*host).stream_position().unwrap_or(0);
    let input = (number == 0 && rank == 0).then(|| Cell::new(place.unwrap_or_else(begin)));
    let kind = Kind::Standard(number);
    Ok(OpenFile { host, path: RefCell::default(), flags, kind, number: (0, 0), input })
}

/// The flags of an open file that are not those of its open alone.
fn flags_to_keep(file: &SavedFile) -> i32 {
    // `O_TMPFILE` includes the flag of a directory, so a directory keeps it.
    let nameless = if file.kind == Kind::Directory { 0 } else { libc::O_TMPFILE };
    file.flags & !(libc::O_ACCMODE | libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | nameless)
}

/// Writes a protected file anew, as far as it was. Without protection it is written in place.
fn written_again(file: &SavedFile, mode: u32) -> io::Result<OpenFile> {
    let name = CString::new(file.path.clone())?;
    let anew = libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC | libc::O_NOCTTY;
    let flags = flags_to_keep(file) | file.flags & libc::O_ACCMODE;
    let (host, own) = protected::open(libc::AT_FDCWD, &name, flags | anew, mode)?;
    let open = OpenFile::new(host, flags, own);
    open.host.set_permissions(fs::Permissions::from_mode(mode))?;
    (&*open.host).write_all(file.bytes.as_deref().unwrap_or_default())?;
    (&*open.host).seek(SeekFrom::Start(file.offset))?;
    Ok(open)
}

fn reopened(file: &SavedFile) -> io::Result<File> {
    let access = file.flags & libc::O_ACCMODE;
    let keep = flags_to_keep(file);
    let (reads, writes) = (access != libc::O_WRONLY, access != libc::O_RDONLY);
    let mut options = OpenOptions::new();
    options.read(reads).write(writes).custom_flags(keep);
    let mut host = match &file.bytes {
        Some(bytes) => nameless_again(&file.path, &mut options, bytes)?,
        None => options.open(OsString::from_vec(file.path.clone()))?,
    };
    if file.kind != Kind::Device {
        host.seek(SeekFrom::Start(file.offset))?;
    }
    Ok(host)
}

/// Cuts a file back to the length that it had. Text and data after the revision are written again.
fn cut_back(path: &OsStr, file: &SavedFile, remarks: &mut Vec<String>) {
    let Some(length) = file.length else { return };
    let cut = OpenOptions::new().write(true).open(path).and_then(|host| {
        let now = host.metadata()?.len();
        if now > length { host.set_len(length).map(|()| now) } else { Ok(now) }
    });
    match cut {
        Ok(now) if now < length => {
            remarks.push(format!("{} is shorter than at the revision: {now} bytes of {length}", path.display()));
        }
        Ok(_) => {}
        Err(error) => remarks.push(format!("{} is not cut back to {length} bytes: {error}", path.display())),
    }
}

impl System {
    /// Passes a call on with the host's descriptors at `places`.
    pub(super) fn on_files(&mut self, number: i64, mut arguments: Arguments, places: &[usize]) -> i64 {
        for place in places {
            match self.descriptors.get(arguments[*place] as i32) {
                Ok(file) => arguments[*place] = file.host.as_raw_fd() as u64,
                Err(error) => return kernel::number(&error),
            }
        }
        kernel::call(number, arguments)
    }

    pub(super) fn write(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let file = self.descriptors.get(arguments[0] as i32)?.clone();
        if file.can_overwrite() {
            let place = match number {
                libc::SYS_pwrite64 | libc::SYS_pwritev => arguments[3],
                _ => (&*file.host).stream_position().unwrap_or(u64::MAX),
            };
            self.remark_overwrite(&file, place);
        }
        kernel::result(self.on_files(number, arguments, &[0]))
    }

    /// A restart restores the length of a file, but not bytes that were overwritten. A remark names each such file.
    fn remark_overwrite(&mut self, file: &OpenFile, place: u64) {
        if self.descriptors.overwrites(file, place) {
            let path = file.path.borrow();
            let (rank, path) = (self.rank, String::from_utf8_lossy(&path));
            let text =
                format!("rank {rank} overwrites bytes of {path} after a checkpoint; a restart cannot restore them");
            self.remarks.push(text);
        }
    }

    pub(super) fn open(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let [a, b, c, d, ..] = arguments;
        let (directory, path, flags, mode) = match number {
            libc::SYS_openat => (a, b, c as i32, d),
            libc::SYS_creat => (libc::AT_FDCWD as u64, a, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, b),
            _ => (libc::AT_FDCWD as u64, a, b as i32, c),
        };
        let directory = self.directory_of(directory as i32)?;
        let host_flags = flags | libc::O_CLOEXEC | libc::O_NOCTTY;
        let name = CString::new(memory::string(self.slot, path as usize)?)?;
        let (host, own) = self.with_umask(|_| protected::open(directory, &name, host_flags, mode as u32))?;
        let file = OpenFile::new(host, flags, own);
        let name = Path::new(OsStr::from_bytes(name.to_bytes()));
        if !file.writes() && is_another_mpi(name, Path::new(OsStr::from_bytes(&file.path.borrow()))) {
            return Err(error(libc::ENOENT));
        }
        self.descriptors.enter(Rc::new(file), 0)
    }

    pub(super) fn close(&mut self, _: i64, [number, ..]: Arguments) -> io::Result<i64> {
        self.descriptors.close(number as i32).map(|()| 0)
    }

    pub(super) fn close_range(&mut self, _: i64, [first, last, ..]: Arguments) -> io::Result<i64> {
        let numbers: Vec<i32> = self.descriptors.open.keys().copied().collect();
        for number in numbers {
            if (first..=last).contains(&(number as u64)) {
                self.descriptors.close(number)?;
            }
        }
        Ok(0)
    }

    pub(super) fn dup(&mut self, number: i64, [old, new, ..]: Arguments) -> io::Result<i64> {
        let (old, new) = (old as i32, new as i32);
        let file = self.descriptors.get(old)?.clone();
        if number == libc::SYS_dup {
            return self.descriptors.enter(file, 0);
        }
        if old == new {
            return if number == libc::SYS_dup2 { Ok(new.into()) } else { Err(error(libc::EINVAL)) };
        }
        if !(0..DESCRIPTORS_MAX).contains(&new) {
            return Err(error(libc::EBADF));
        }
        let _ = self.descriptors.close(new);
        self.descriptors.open.insert(new, file);
        Ok(new.into())
    }

    pub(super) fn fcntl(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let [descriptor, command, value, ..] = arguments;
        let file = self.descriptors.get(descriptor as i32)?.clone();
        match command as i32 {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => self.descriptors.enter(file, value as i32),
            // No rank starts another program.
            libc::F_GETFD => Ok(libc::FD_CLOEXEC.into()),
            libc::F_SETFD => Ok(0),
            _ => kernel::result(kernel::call(number, [file.host.as_raw_fd() as u64, command, value, 0, 0, 0])),
        }
    }

    /// Passes on a call that makes a descriptor which no file name stands for.
    pub(super) fn new_descriptor(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let host = kernel::result(kernel::call(number, arguments))?;
        let file = OpenFile { kind: Kind::Lost, ..OpenFile::new(host as RawFd, libc::O_RDWR, None) };
        self.descriptors.enter(Rc::new(file), 0)
    }

    pub(super) fn accept(&mut self, number: i64, mut arguments: Arguments) -> io::Result<i64> {
        arguments[0] = self.descriptors.get(arguments[0] as i32)?.host.as_raw_fd() as u64;
        self.new_descriptor(number, arguments)
    }

    pub(super) fn pipe(&mut self, number: i64, [into, flags, ..]: Arguments) -> io::Result<i64> {
        let flags = if number == libc::SYS_pipe2 { flags } else { 0 };
        let mut ends = [0i32; 2];
        kernel::result(kernel::call(libc::SYS_pipe2, [(&raw mut ends) as u64, flags, 0, 0, 0, 0]))?;
        let files = ends.map(|end| Rc::new(OpenFile::new(end, libc::O_RDWR, None)));
        let [reads, writes] = files;
        let reads = self.descriptors.enter(reads, 0)? as i32;
        let writes = self.descriptors.enter(writes, 0)? as i32;
        memory::put(self.slot, into as usize, &[reads, writes])?;
        Ok(0)
    }
}

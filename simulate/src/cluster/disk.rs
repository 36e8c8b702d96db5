//! The disks: real files in memory, and the writes and names on them that are not durable yet.
//!
//! A node that loses its power loses any part of the writes that its processes have not synced, and of the names in
//! directories that they have not synced. Other nodes keep theirs.

use super::{
    ailing::{Ailment, met},
    process::{Failure, ProcessId},
    scheduler::{Cluster, State, Status},
    thread::ThreadWorld,
};
use fastrand::Rng;
use mainstay_engine::FileOperation;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File},
    io,
    ops::Range,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// The unit in which a disk may tear a write.
const SECTOR: usize = 512;

type Node = Option<usize>;

pub(super) struct Disks {
    folder: PathBuf,
    /// Files that have lost their names stay here, as their names may come back.
    graves: PathBuf,
    files: BTreeMap<u64, Unsynced>,
    directories: BTreeMap<PathBuf, Vec<NameChange>>,
    /// Whether the file with this inode lies on a disk.
    on_disk: BTreeMap<u64, bool>,
}

/// The unsynced writes to a file, in their order.
struct Unsynced {
    file: File,
    writes: Vec<Write>,
}

struct Write {
    node: Node,
    at: u64,
    before: Vec<u8>,
    length_before: u64,
    bytes: Vec<u8>,
}

/// A change of names, which is kept as a whole or lost.
struct NameChange {
    node: Node,
    names: Vec<Name>,
}

/// A name, with the inode that it had before the change and has since.
struct Name {
    path: PathBuf,
    before: Option<u64>,
    since: Option<u64>,
}

/// How much a node loses of its unsynced data.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loss {
    Nothing,
    Everything,
    Some,
}

impl Disks {
    pub(super) fn new(folder: &Path) -> Disks {
        let graves = folder.join("graves");
        fs::create_dir_all(&graves).expect("a folder in memory");
        let (files, directories, on_disk) = Default::default();
        Disks { folder: folder.to_owned(), graves, files, directories, on_disk }
    }

    pub(super) fn is_on_disk(&mut self, file: &File) -> bool {
        let Ok(found) = file.metadata() else { return false };
        let folder = &self.folder;
        *self.on_disk.entry(found.ino()).or_insert_with(|| {
            let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
            path.strip_prefix(folder).is_ok_and(|path| path.iter().all(|name| name != "memory"))
        })
    }

    /// Returns a descriptor that the disks have opened for it, if any.
    fn note_write(&mut self, node: Node, file: &File, at: u64, bytes: &[u8]) -> io::Result<Option<RawFd>> {
        if !self.is_on_disk(file) {
            return Ok(None);
        }
        let found = file.metadata()?;
        let mut before = vec![0; found.len().saturating_sub(at).min(bytes.len() as u64) as usize];
        file.read_exact_at(&mut before, at)?;
        let mut opened = None;
        let unsynced = match self.files.entry(found.ino()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let file = file.try_clone()?;
                opened = Some(file.as_raw_fd());
                entry.insert(Unsynced { file, writes: Vec::new() })
            }
        };
        unsynced.writes.push(Write { node, at, before, length_before: found.len(), bytes: bytes.to_vec() });
        Ok(opened)
    }

    /// The writes of this node to the file are durable.
    fn synced(&mut self, node: Node, file: &File) {
        let Ok(found) = file.metadata() else { return };
        if let Entry::Occupied(mut entry) = self.files.entry(found.ino()) {
            entry.get_mut().synced(node);
            if entry.get().writes.is_empty() {
                entry.remove();
            }
        }
    }

    /// A sync has failed, and dropped the writes.
    fn forget(&mut self, node: Node, file: &File) {
        let Ok(found) = file.metadata() else { return };
        if let Some(unsynced) = self.files.get_mut(&found.ino()) {
            unsynced.lose(node, Loss::Everything, &mut Rng::with_seed(0));
        }
    }

    /// The inode of the file. It stays when the name goes.
    fn keep(&self, path: &Path) -> Option<u64> {
        let inode = inode_of(path)?;
        let _ = fs::hard_link(path, self.graves.join(inode.to_string()));
        Some(inode)
    }

    /// Notes a change to the names of a directory.
    fn note_names(&mut self, node: Node, names: Vec<Name>) {
        let Some(directory) = names.first().and_then(|name| name.path.parent()) else { return };
        self.directories.entry(directory.to_owned()).or_default().push(NameChange { node, names });
    }

    /// The node loses its power.
    fn lose(&mut self, node: Node, random: &mut Rng) {
        let loss = [Loss::Nothing, Loss::Everything, Loss::Some, Loss::Some][random.usize(0..4)];
        for unsynced in self.files.values_mut() {
            unsynced.lose(node, loss, random);
        }
        self.files.retain(|_, unsynced| !unsynced.writes.is_empty());
        for (directory, changes) in std::mem::take(&mut self.directories) {
            let left = self.lose_names(changes, node, loss, random);
            if !left.is_empty() {
                self.directories.insert(directory, left);
            }
        }
    }

    /// Gives a directory the names that are left. Returns the changes of other nodes, which may still be lost.
    fn lose_names(&self, changes: Vec<NameChange>, node: Node, loss: Loss, random: &mut Rng) -> Vec<NameChange> {
        let mut names: BTreeMap<PathBuf, Option<u64>> = BTreeMap::new();
        for name in changes.iter().rev().flat_map(|change| change.names.iter().rev()) {
            names.insert(name.path.clone(), name.before);
        }
        let is_kept = |change: &NameChange, random: &mut Rng| match loss {
            _ if change.node != node => true,
            Loss::Nothing => true,
            Loss::Everything => false,
            Loss::Some => random.bool(),
        };
        for change in &changes {
            // A change follows from the names that it found.
            let follows = change.names.iter().all(|name| names[&name.path] == name.before);
            if is_kept(change, random) && follows {
                for name in &change.names {
                    names.insert(name.path.clone(), name.since);
                }
            }
        }
        for (path, inode) in names {
            let now = self.keep(&path);
            if now != inode {
                let _ = fs::remove_file(&path);
                if let Some(inode) = inode {
                    let _ = fs::hard_link(self.graves.join(inode.to_string()), &path);
                }
            }
        }
        changes.into_iter().filter(|change| change.node != node).collect()
    }
}

fn inode_of(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}

impl Unsynced {
    /// The writes of this node are durable. Earlier writes of other nodes to the same bytes can change nothing any more.
    fn synced(&mut self, node: Node) {
        let all = std::mem::take(&mut self.writes);
        for write in all {
            if write.node == node {
                self.writes.iter_mut().for_each(|earlier| earlier.give_way_to(&write));
            } else {
                self.writes.push(write);
            }
        }
    }

    fn lose(&mut self, node: Node, loss: Loss, random: &mut Rng) {
        if self.writes.iter().all(|write| write.node != node) {
            return;
        }
        for write in self.writes.iter().rev() {
            let _ = self.file.write_all_at(&write.before, write.at);
            let _ = self.file.set_len(write.length_before);
        }
        for write in std::mem::take(&mut self.writes) {
            let is_others = write.node != node;
            let kept = if is_others { 0..write.bytes.len() } else { kept_of(write.bytes.len(), loss, random) };
            if !kept.is_empty() {
                let _ = self.file.write_all_at(&write.bytes[kept.clone()], write.at + kept.start as u64);
            }
            if loss == Loss::Some && !is_others && random.u8(0..8) == 0 {
                self.garble(&write, random);
            }
            if is_others {
                self.writes.push(write);
            }
        }
    }

    /// A sector of the write is neither old nor new.
    fn garble(&self, write: &Write, random: &mut Rng) {
        let sectors = write.bytes.len().div_ceil(SECTOR);
        let at = random.usize(0..sectors.max(1)) * SECTOR;
        let mut bytes = vec![0; SECTOR.min(write.bytes.len() - at)];
        random.fill(&mut bytes);
        let _ = self.file.write_all_at(&bytes, write.at + at as u64);
    }
}

impl Write {
    /// Where `later` has written, too, this write has its bytes, before and after.
    fn give_way_to(&mut self, later: &Write) {
        let end = |write: &Write| write.at + write.bytes.len() as u64;
        let (from, to) = (self.at.max(later.at), end(self).min(end(later)));
        for at in from..to {
            let byte = later.bytes[(at - later.at) as usize];
            let index = (at - self.at) as usize;
            self.bytes[index] = byte;
            if let Some(before) = self.before.get_mut(index) {
                *before = byte;
            }
        }
    }
}

/// The part of an unsynced write that is kept.
fn kept_of(bytes: usize, loss: Loss, random: &mut Rng) -> Range<usize> {
    let cut = (random.usize(0..=bytes / SECTOR) * SECTOR).min(bytes);
    match loss {
        Loss::Nothing => 0..bytes,
        Loss::Everything => 0..0,
        Loss::Some => match random.u8(0..8) {
            0..3 => 0..bytes,
            3..6 => 0..0,
            6 => 0..cut,
            _ => cut..bytes,
        },
    }
}

impl State {
    /// Notes an operation that has succeeded.
    pub(super) fn after(&mut self, process: ProcessId, operation: FileOperation<'_>) {
        let node = self.processes[process.0].node;
        match operation {
            FileOperation::Make { path } | FileOperation::Link { name: path, .. } => {
                let name = Name { path: path.to_owned(), before: None, since: inode_of(path) };
                self.disks.note_names(node, vec![name]);
            }
            FileOperation::Sync { file } => self.disks.synced(node, file),
            FileOperation::SyncDirectory { path } => {
                if let Some(changes) = self.disks.directories.get_mut(path) {
                    changes.retain(|change| change.node != node);
                }
            }
            _ => {}
        }
    }

    /// Notes the state that `operation` is about to change.
    fn note(&mut self, node: Node, operation: FileOperation<'_>) -> io::Result<()> {
        match operation {
            FileOperation::Write { file, at, bytes } => self.note_write(node, file, at, bytes)?,
            FileOperation::Remove { path } => {
                if let Some(inode) = self.disks.keep(path) {
                    let name = Name { path: path.to_owned(), before: Some(inode), since: None };
                    self.disks.note_names(node, vec![name]);
                }
            }
            FileOperation::Rename { from, to } => {
                let before = self.disks.keep(to);
                if let Some(inode) = self.disks.keep(from) {
                    let names = vec![
                        Name { path: from.to_owned(), before: Some(inode), since: None },
                        Name { path: to.to_owned(), before, since: Some(inode) },
                    ];
                    self.disks.note_names(node, names);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn note_write(&mut self, node: Node, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(descriptor) = self.disks.note_write(node, file, at, bytes)? {
            // A process had this descriptor, closed it, and does not own it any more.
            self.descriptors.remove(&descriptor);
        }
        Ok(())
    }

    /// The last operation of a process: a write is done in part.
    fn tear(&mut self, node: Node, operation: FileOperation<'_>) {
        if let FileOperation::Write { file, at, bytes } = operation {
            let part = &bytes[..bytes.len() / 2 / SECTOR * SECTOR];
            if !part.is_empty() && self.note_write(node, file, at, part).is_ok() {
                let _ = file.write_all_at(part, at);
            }
        }
    }
}

impl Cluster {
    /// Counts an operation of a process. The process may die in it, or the operation may fail or take some time.
    pub(super) fn before(&self, by: &ThreadWorld, operation: FileOperation<'_>) -> io::Result<()> {
        let mut state = self.lock();
        if matches!(operation, FileOperation::Open { .. } | FileOperation::Read { .. }) {
            return Ok(());
        }
        let (is_last, failure) = state.count_operation(by.process);
        let node = state.processes[by.process.0].node;
        if is_last {
            state.tear(node, operation);
            let name = state.name_of(by.process).to_owned();
            state.tell(|| format!("{name}: {}", line_of(operation)));
            state.kill(by.process);
            self.hand_over(state, by.thread);
            unreachable!("a killed thread runs");
        }
        let name = state.name_of(by.process).to_owned();
        if let Some(failure) = failure {
            state.tell(|| format!("{name}: {} fails ({failure:?})", line_of(operation)));
            if let (Failure::Forgets, FileOperation::Sync { file }) = (failure, operation) {
                state.disks.forget(node, file);
            }
            return Err(io::Error::from_raw_os_error(if failure == Failure::Full { libc::ENOSPC } else { libc::EIO }));
        }
        let ailments = met(&state.ailing, operation);
        if let Some(error) = ailments.iter().find_map(|ailment| ailment.error(operation)) {
            state.tell(|| format!("{name}: {} fails: {error}", line_of(operation)));
            return Err(error);
        }
        state.tell(|| format!("{name}: {}", line_of(operation)));
        let is_slow = ailments.contains(&Ailment::Slow);
        if is_slow || state.random.bool() {
            // The disk takes its time, while others go on.
            let factor = if is_slow { 100 } else { 1 };
            let until = state.now + Duration::from_micros(factor * state.random.u64(1..300));
            state.threads[by.thread].status = Status::Looking { until, seen: None };
            self.hand_over(state, by.thread);
            state = self.lock();
        }
        state.note(node, operation)
    }

    /// The node loses its power, and all its processes. Its memory is gone, and with `with_disk` its disk.
    pub fn lose_node(&self, node: usize, with_disk: bool) {
        let mut state = self.lock();
        state.tell(|| format!("node {node} is lost{}", if with_disk { " with its disk" } else { "" }));
        let all = (0..state.processes.len()).map(ProcessId);
        let here: Vec<ProcessId> = all.filter(|id| state.processes[id.0].node == Some(node)).collect();
        here.into_iter().for_each(|process| state.kill(process));
        let State { disks, random, .. } = &mut *state;
        disks.lose(Some(node), random);
        let folder = self.node_folder(node);
        for name in if with_disk { &["memory", "disk"][..] } else { &["memory"] } {
            let _ = fs::remove_dir_all(folder.join(name));
            let _ = fs::create_dir_all(folder.join(name));
        }
    }

    pub fn node_folder(&self, node: usize) -> PathBuf {
        self.folder.join(format!("node-{node}"))
    }

    /// The folder that all nodes see.
    pub fn shared_folder(&self) -> PathBuf {
        self.folder.join("pfs")
    }

    /// The folder for copies of revisions, which all nodes see, too. It exists once there are any.
    pub fn copy_folder(&self) -> PathBuf {
        self.folder.join("copy")
    }
}

/// The operation for the story.
fn line_of(operation: FileOperation<'_>) -> String {
    let path = |file: &File| {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
        short(&path)
    };
    match operation {
        FileOperation::Open { path } => format!("opens {}", short(path)),
        FileOperation::Make { path } => format!("makes {}", short(path)),
        FileOperation::Read { file } => format!("reads {}", path(file)),
        FileOperation::Write { file, at, bytes } => format!("writes {} bytes at {at} of {}", bytes.len(), path(file)),
        FileOperation::Sync { file } => format!("syncs {}", path(file)),
        FileOperation::Rename { from, to } => format!("renames {} to {}", short(from), short(to)),
        FileOperation::Remove { path } => format!("removes {}", short(path)),
        FileOperation::Link { of, name } => format!("links {} as {}", short(of), short(name)),
        FileOperation::SyncDirectory { path } => format!("syncs the directory {}", short(path)),
        FileOperation::Lock { file, byte } => format!("locks byte {byte} of {}", path(file)),
    }
}

/// The last parts of a path.
fn short(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts[parts.len().saturating_sub(3)..].join("/")
}

//! One rank's view of the medium, with its faults.

use super::{Change, Gate, Medium, Operation, lock};
use mainstay_engine::device::{
    Access, Device, Directory, File, FileStatus, Known, Lock, LockFile, LockOutcome, Naming, NewFile, Source,
};
use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Arc, Mutex},
};

const SECTOR: usize = 512;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// The fault of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Io,
    Full,
    /// For a sync: it fails, drops its writes, and the next one succeeds.
    Forgets,
}

pub struct View {
    medium: Medium,
    directory: Arc<Directory>,
    id: u64,
    gate: Option<Arc<Gate>>,
    plan: Mutex<Plan>,
}

/// Counts the operations that change something, from 1.
#[derive(Debug, Default)]
struct Plan {
    done: u64,
    dead: bool,
    dies_at: Option<u64>,
    gate_closes_at: Option<u64>,
    failures: BTreeMap<u64, Failure>,
    short_writes: bool,
}

/// The outcome of an operation that was let through.
struct Pass {
    nth: u64,
    failure: Option<Failure>,
    /// The last operation of the rank: only a part of a write is done.
    last: bool,
    short: bool,
}

impl View {
    pub(super) fn new(medium: Medium, gate: Option<Arc<Gate>>) -> View {
        let id = {
            let mut shared = medium.lock();
            shared.views += 1;
            shared.views
        };
        // Tests run side by side with their pools in one directory: no two jobs may have the same space.
        let directory = format!("/faulty/{:p}", Arc::as_ptr(&medium.shared));
        let directory = Arc::new(Directory::of(directory.as_ref()));
        View { medium, directory, id, gate, plan: Mutex::default() }
    }

    pub fn is_dead(&self) -> bool {
        lock(&self.plan).dead
    }

    /// The view is dead from now on: no operation does anything.
    pub fn kill(&self) {
        lock(&self.plan).dead = true;
    }

    /// Its process has ended: its last writes become durable once any other process has synced the file.
    pub fn ends(&self) {
        self.medium.lock().end_process(self.id);
    }

    /// Dies in the `n`th operation from now.
    pub fn dies_in(&self, n: u64) {
        let mut plan = lock(&self.plan);
        plan.dies_at = Some(plan.done + n);
    }

    /// Closes the job's gate before the `n`th operation from now.
    pub fn closes_gate_in(&self, n: u64) {
        let mut plan = lock(&self.plan);
        plan.gate_closes_at = Some(plan.done + n);
    }

    pub fn fails_in(&self, n: u64, failure: Failure) {
        let mut plan = lock(&self.plan);
        let nth = plan.done + n;
        plan.failures.insert(nth, failure);
    }

    /// Whether all failures that were asked for have happened.
    pub fn has_failed(&self) -> bool {
        lock(&self.plan).failures.is_empty()
    }

    pub fn writes_short(&self) {
        lock(&self.plan).short_writes = true;
    }

    fn enter(&self) -> io::Result<Pass> {
        let pass = {
            let mut plan = lock(&self.plan);
            plan.done += 1;
            let nth = plan.done;
            if let (Some(gate), true) = (&self.gate, plan.gate_closes_at == Some(nth)) {
                gate.close();
            }
            let last = plan.dies_at == Some(nth);
            Pass { nth, failure: plan.failures.remove(&nth), last, short: plan.short_writes }
        };
        if let Some(gate) = &self.gate {
            gate.pass();
        }
        let mut plan = lock(&self.plan);
        if plan.dead {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        plan.dead = pass.last;
        Ok(pass)
    }

    /// Does `change` unless a fault is planned.
    fn change(&self, change: impl FnOnce() -> Change) -> io::Result<()> {
        let pass = self.enter()?;
        match pass.failure {
            _ if pass.last => Err(io::Error::from_raw_os_error(EIO)),
            Some(Failure::Full) => Err(io::Error::from_raw_os_error(ENOSPC)),
            Some(_) => Err(io::Error::from_raw_os_error(EIO)),
            None => {
                let (mut shared, change) = (self.medium.lock(), change());
                // The names are checked only now, because another job may have run while this one was held back.
                match &change {
                    Change::Create { name, .. } if shared.live.names.contains_key(name) => {
                        return Err(io::ErrorKind::AlreadyExists.into());
                    }
                    Change::Rename { from: name, .. } | Change::Remove { name }
                        if !shared.live.names.contains_key(name) =>
                    {
                        return Err(io::ErrorKind::NotFound.into());
                    }
                    _ => {}
                }
                shared.apply(Operation { by: self.id, nth: pass.nth, change });
                Ok(())
            }
        }
    }

    fn alive(&self) -> io::Result<()> {
        if self.is_dead() { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "view {}", self.id)
    }
}

/// The device for a session.
#[derive(Debug)]
pub struct Faulty(pub Arc<View>);

#[derive(Debug)]
struct MemoryFile {
    view: Arc<View>,
    file: usize,
    handle: u64,
}

impl Faulty {
    fn handle(&self, file: usize) -> Arc<dyn File> {
        let handle = self.0.medium.lock().number();
        Arc::new(MemoryFile { view: self.0.clone(), file, handle })
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.0.alive()?;
        self.0.medium.lock().live.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Device for Faulty {
    fn directory(&self) -> &Arc<Directory> {
        &self.0.directory
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.alive()?;
        let shared = self.0.medium.lock();
        // The lock is not among the names, so no loss of power removes it.
        let locks = (!shared.locks.is_empty()).then(|| "lock".to_owned());
        Ok(shared.live.names.keys().cloned().chain(locks).collect())
    }

    fn open(&self, name: &str, _: Access, new: Option<&NewFile>) -> io::Result<Arc<dyn File>> {
        let Some(wanted) = new else { return Ok(self.handle(self.find(name)?)) };
        let file = self.0.medium.lock().number() as usize;
        self.0.change(|| Change::Create { file, name: name.to_owned(), bytes: wanted.bytes })?;
        Ok(self.handle(file))
    }

    fn name(&self, change: Naming<'_>) -> io::Result<()> {
        match change {
            Naming::Rename { from, to } => {
                self.0.change(|| Change::Rename { from: from.to_owned(), to: to.to_owned() })
            }
            Naming::Remove(name) => self.0.change(|| Change::Remove { name: name.to_owned() }),
            Naming::Link { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.change(|| Change::SyncDirectory)
    }

    fn lock_file(&self, _: &str, _: Access) -> io::Result<Box<dyn LockFile>> {
        let handle = self.0.medium.lock().number();
        Ok(Box::new(MemoryLocks { medium: self.0.medium.clone(), handle }))
    }
}

impl File for MemoryFile {
    fn read(&self, buffer: &mut [u8], offset: u64, _: Source) -> io::Result<usize> {
        self.view.alive()?;
        Ok(self.view.medium.lock().live.read(self.file, offset, buffer))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let pass = self.view.enter()?;
        match pass.failure {
            Some(Failure::Full) => return Err(io::Error::from_raw_os_error(ENOSPC)),
            Some(_) => return Err(io::Error::from_raw_os_error(EIO)),
            None => {}
        }
        let half = (bytes.len() / 2 / SECTOR * SECTOR).max(SECTOR.min(bytes.len()));
        let part = if pass.short || pass.last { &bytes[..half] } else { bytes };
        let change = Change::Write { file: self.file, handle: self.handle, at: offset, bytes: part.into() };
        self.view.medium.lock().apply(Operation { by: self.view.id, nth: pass.nth, change });
        if pass.last { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(part.len()) }
    }

    fn sync(&self) -> io::Result<()> {
        let pass = self.view.enter()?;
        let handle = self.handle;
        let change = match pass.failure {
            _ if pass.last => return Err(io::Error::from_raw_os_error(EIO)),
            None => Change::Sync { file: self.file, handle },
            Some(Failure::Forgets) => Change::Forget { handle },
            Some(_) => return Err(io::Error::from_raw_os_error(EIO)),
        };
        self.view.medium.lock().apply(Operation { by: self.view.id, nth: pass.nth, change });
        if pass.failure.is_some() { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn status(&self, _: Known) -> io::Result<FileStatus> {
        self.view.alive()?;
        Ok(FileStatus::of(self.view.medium.lock().live.bytes(self.file)))
    }
}

struct MemoryLocks {
    medium: Medium,
    handle: u64,
}

impl fmt::Debug for MemoryLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "locks {}", self.handle)
    }
}

impl LockFile for MemoryLocks {
    fn set(&self, byte: u64, lock: Lock) -> io::Result<LockOutcome> {
        let mut shared = self.medium.lock();
        if lock == Lock::Free {
            shared.locks.retain(|locked, holder| *locked != byte || *holder != self.handle);
            return Ok(LockOutcome::Done);
        }
        if !shared.has_locks {
            return Ok(LockOutcome::Unsupported);
        }
        let holder = *shared.locks.entry(byte).or_insert(self.handle);
        Ok(if holder == self.handle { LockOutcome::Done } else { LockOutcome::Busy })
    }

    fn is_locked_in(&self, from: u64, bytes: u64) -> io::Result<bool> {
        if !self.medium.lock().has_locks {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(self.medium.lock().locks.range(from..from + bytes).any(|(_, holder)| *holder != self.handle))
    }
}

impl Drop for MemoryLocks {
    fn drop(&mut self) {
        self.medium.lock().locks.retain(|_, holder| *holder != self.handle);
    }
}

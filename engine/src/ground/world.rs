//! The seam to a simulated world. A simulation runs the threads of many processes in one, one at a time, with a time of its
//! own. It gives each of its threads a `World`, and this folder asks that in place of the system.
//!
//! Without the feature `simulation` no thread has a world, and the compiler drops each question.

use std::{ffi::OsString, fmt, fs::File, io, os::fd::RawFd, path::Path, time::Duration};

/// The world as one thread sees it. All calls come from that thread, except the conditions of `wait`.
pub trait World: Send + Sync + fmt::Debug {
    /// The time since the world began.
    fn now(&self) -> Duration;
    /// The time of day: nanoseconds since 1970. It may jump.
    fn unix_ns(&self) -> u64;
    /// Stops this thread until `is_over` or until the time `until`. Returns whether the condition came first. Any
    /// thread of the world evaluates the condition while this one is stopped, and never again after it was true.
    fn wait(&self, why: &'static str, until: Option<Duration>, is_over: &mut dyn FnMut() -> bool) -> bool;
    /// Another thread may run here.
    fn step(&self);
    /// This thread has checked a condition of its own for the `tries`th time in vain.
    fn pause(&self, tries: u32);
    /// Starts a thread of this thread's process. It does `work`.
    fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>);
    /// Fills `bytes` with random numbers.
    fn random(&self, bytes: &mut [u8]);
    /// The environment variable `name` of this thread's process.
    fn variable(&self, name: &str) -> Option<OsString>;
    fn process_id(&self) -> u32;
    /// This process has opened a file.
    fn opened(&self, descriptor: RawFd);
    /// Gets a line for the user.
    fn say(&self, line: &str);
    /// Whether the file lies on a disk, although the system has it in memory.
    fn is_on_disk(&self, file: &File) -> bool;
    /// The process is about to do `operation`. An error: the operation fails with it, and does nothing.
    fn before(&self, operation: FileOperation<'_>) -> io::Result<()>;
    /// The process has done `operation`.
    fn after(&self, operation: FileOperation<'_>);
}

/// An operation on files that can fail, be slow, or be lost with the power.
#[derive(Debug, Clone, Copy)]
pub enum FileOperation<'a> {
    Open {
        path: &'a Path,
    },
    Make {
        path: &'a Path,
    },
    Read {
        file: &'a File,
    },
    Write {
        file: &'a File,
        at: u64,
        bytes: &'a [u8],
    },
    Sync {
        file: &'a File,
    },
    Rename {
        from: &'a Path,
        to: &'a Path,
    },
    Remove {
        path: &'a Path,
    },
    Link {
        of: &'a Path,
        name: &'a Path,
    },
    SyncDirectory {
        path: &'a Path,
    },
    /// Of one byte.
    Lock {
        file: &'a File,
        byte: u64,
    },
}

/// Whether the file lies on a simulated disk, which the system has in memory.
pub(crate) fn is_on_simulated_disk(file: &File) -> bool {
    world().is_some_and(|world| world.is_on_disk(file))
}

/// Does `operation` on a file of a space by `work`.
pub(crate) fn perform<T>(operation: FileOperation<'_>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(world) = world() else { return work() };
    world.before(operation)?;
    work().inspect(|_| world.after(operation))
}

#[cfg(feature = "simulation")]
pub(crate) use current::world;
#[cfg(feature = "simulation")]
pub use current::{set_world, world as current_world};

#[cfg(not(feature = "simulation"))]
pub(crate) fn world() -> Option<std::sync::Arc<dyn World>> {
    None
}

#[cfg(feature = "simulation")]
mod current {
    use super::World;
    use std::{cell::RefCell, sync::Arc};

    thread_local! {
        static WORLD: RefCell<Option<Arc<dyn World>>> = const { RefCell::new(None) };
    }

    /// From now on this thread of the system runs a thread of `world`, until another call.
    pub fn set_world(world: Option<Arc<dyn World>>) {
        WORLD.set(world);
    }

    /// The world of the thread that runs, if it is simulated.
    pub fn world() -> Option<Arc<dyn World>> {
        WORLD.with_borrow(Clone::clone)
    }
}

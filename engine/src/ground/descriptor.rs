//! Mainstay's own descriptors are never below 3. A program may run with its standard output closed. If a file got
//! descriptor 1, the next printed line would overwrite it.

use super::world;
use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
};

/// The first descriptor after standard input, output and error.
const FIRST: RawFd = 3;

/// Calls `open`, and returns its descriptor, which is not a standard one.
pub(crate) fn above_standard<T: From<OwnedFd> + Into<OwnedFd>>(open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    occupy_standard()?;
    let opened: OwnedFd = raised(open()?)?.into();
    if let Some(world) = world() {
        world.opened(opened.as_raw_fd());
    }
    Ok(opened.into())
}

/// Occupies the closed descriptors below 3; files opened next then get higher ones. The program sees no difference:
/// reading and writing there fails as before (`EBADF`), its child processes find them closed, and it may close them
/// again, or open a file of its own there.
pub(crate) fn occupy_standard() -> io::Result<()> {
    while (0..FIRST).any(is_closed) {
        let taken = nowhere()?;
        if taken.as_raw_fd() >= FIRST {
            // The program has opened a file there meanwhile.
            break;
        }
        // It stays open until the program closes it.
        let _ = taken.into_raw_fd();
    }
    Ok(())
}

/// The same file with a descriptor of 3 or above: the program may have closed a standard one in this instant.
pub(crate) fn raised<T: From<OwnedFd> + Into<OwnedFd>>(opened: T) -> io::Result<T> {
    let descriptor: OwnedFd = opened.into();
    if descriptor.as_raw_fd() >= FIRST {
        return Ok(descriptor.into());
    }
    // The standard library duplicates to 3 or above.
    let raised = descriptor.try_clone()?;
    debug_assert!(raised.as_raw_fd() >= FIRST, "a file has a standard descriptor");
    drop(descriptor);
    Ok(raised.into())
}

#[allow(unsafe_code)]
fn is_closed(descriptor: RawFd) -> bool {
    // SAFETY: checks whether the descriptor is open, and touches no memory.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) == -1 }
}

/// A descriptor that can neither be read nor written.
#[allow(unsafe_code)]
fn nowhere() -> io::Result<File> {
    // SAFETY: the path ends with a zero, and outlives the call.
    let descriptor = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nothing else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

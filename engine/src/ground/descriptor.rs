//! Descriptors of Mainstay's own, none of which is below 3. A program may run with its standard output closed: a file that
//! got descriptor 1 would be written over by the next line that anybody prints.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
};

/// The first descriptor that is none of standard input, output and error.
const FIRST: RawFd = 3;

/// Calls `open`, and returns its descriptor, which is no standard one.
pub(crate) fn above_standard<T: From<OwnedFd> + Into<OwnedFd>>(open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    occupy_standard()?;
    raised(open()?)
}

/// Occupies those of the descriptors below 3 that are closed, so that nothing which is opened next gets one. The program sees
/// no difference: reading and writing there fails as before (`EBADF`), what it starts finds them closed, and it may close them
/// again, or put a file of its own there.
pub(crate) fn occupy_standard() -> io::Result<()> {
    while (0..FIRST).any(is_closed) {
        let taken = nowhere()?;
        if taken.as_raw_fd() >= FIRST {
            // The program has put something there meanwhile.
            break;
        }
        // It stays, for whoever closes it.
        let _ = taken.into_raw_fd();
    }
    Ok(())
}

/// The same file by a descriptor that is no standard one: the program may have closed one in this instant.
pub(crate) fn raised<T: From<OwnedFd> + Into<OwnedFd>>(opened: T) -> io::Result<T> {
    let descriptor: OwnedFd = opened.into();
    if descriptor.as_raw_fd() >= FIRST {
        return Ok(descriptor.into());
    }
    // The standard library duplicates to 3 or above.
    let raised = descriptor.try_clone()?;
    drop(descriptor);
    Ok(raised.into())
}

#[allow(unsafe_code)]
fn is_closed(descriptor: RawFd) -> bool {
    // SAFETY: looks whether the descriptor is open, and touches no memory.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) == -1 }
}

/// A descriptor by which nothing can be read or written.
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

//! Asks the kernel whether any writable descriptor or mapping of a file is left, in any process.

use std::{fs::File, io, os::fd::AsRawFd};

/// Whether a process can still write the file. The kernel grants a read lease only if none can.
pub fn has_writer(file: &File) -> io::Result<bool> {
    // The lease ends at once: an open to write would wait for it.
    match set(file, libc::F_RDLCK) {
        Ok(()) => set(file, libc::F_UNLCK).map(|()| false),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => Ok(true),
        Err(error) => Err(error),
    }
}

#[allow(unsafe_code)]
fn set(file: &File, lease: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes an open descriptor and a number, and touches no memory.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, lease) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn a_file_has_a_writer_until_its_last_writable_descriptor_closes() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("file");
        let writer = File::create(&path).unwrap();
        let second = writer.try_clone().unwrap();
        let reader = File::open(&path).unwrap();
        assert!(has_writer(&reader).unwrap());
        drop(writer);
        assert!(has_writer(&reader).unwrap());
        drop(second);
        assert!(!has_writer(&reader).unwrap());
        // The lease has ended: an open to write must not wait.
        drop(OpenOptions::new().write(true).open(&path).unwrap());
    }
}

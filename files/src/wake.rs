//! Wakes the helper's thread once a worker has done its work.

use rustix::{
    event::{EventfdFlags, eventfd},
    io::{read, write},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// Wakes the helper's thread.
#[derive(Debug, Clone)]
pub struct Wake(Arc<OwnedFd>);

impl Wake {
    pub fn new() -> io::Result<Wake> {
        Ok(Wake(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub fn wake(&self) {
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }

    pub fn clear(&self) {
        let _ = read(&self.0, &mut [0; 8]);
    }

    /// A descriptor that is readable once the thread must wake.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

//! A snapshot: the program's bytes as they are at one moment, copied while the program goes on.
//!
//! What must hold: whatever the program does meanwhile, each byte that is copied is what it was at that moment, or the
//! snapshot has failed; the program's own processes, signals and files are as if there were none.

mod clone;

pub(crate) use clone::{Cloned, NotTaken};

/// `bytes` bytes to be copied.
#[derive(Debug)]
pub(crate) struct Transfer {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

// SAFETY: the addresses are followed only as `new` was promised.
#[allow(unsafe_code)]
unsafe impl Send for Transfer {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Transfer {}

impl Transfer {
    /// # Safety
    /// `from` is memory of the program's, which no other thread unmaps while the snapshot is taken. `to` is shared
    /// memory of Mainstay's, which forked children do not inherit, and which nobody refers to before the snapshot has
    /// ended.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(from: *const u8, to: *mut u8, bytes: usize) -> Transfer {
        Transfer { from, to, bytes }
    }
}

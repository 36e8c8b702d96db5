//! What saving early came to.

use crate::{
    argument::null,
    error::{Status, guard},
    session::{Session, session_of},
};

/// What saving early came to on this rank since its session was opened, in blocks of 4 KiB.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Speculation {
    /// Blocks that the program had written when a checkpoint began,
    pub dirty: u64,
    /// those of them that the checkpoint did not have to write any more;
    pub early: u64,
    /// blocks that were saved early,
    pub saved: u64,
    /// and in vain, as they were written again;
    pub wasted: u64,
    /// and those that are going to be.
    pub waiting: u64,
    /// 1 if nothing is saved early now; a line on standard error has said why.
    pub is_off: u64,
}

/// Puts what saving early has come to into `*speculation`. Local, never waits.
///
/// # Safety
/// `session` is open, `speculation` points to a mainstay_speculation.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_speculated(session: *mut Session, speculation: *mut Speculation) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, speculation) = unsafe { (session_of(session)?, speculation.as_mut()) };
        let speculation = speculation.ok_or_else(|| null("speculation"))?;
        let told = session.engine.speculation()?;
        *speculation = Speculation {
            dirty: told.dirty,
            early: told.early,
            saved: told.saved,
            wasted: told.wasted,
            waiting: told.waiting,
            is_off: (!told.off.is_empty()).into(),
        };
        Ok(())
    })
}

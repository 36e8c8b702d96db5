//! Results of saving early.

use crate::{
    argument::null,
    error::{Status, guard},
    session::{Session, session_of},
};

/// Results of saving early on this rank since the opening of its session, in blocks of 4 KiB.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Speculation {
    /// Blocks that the program had written when a checkpoint began.
    pub dirty: u64,
    /// Those of them that the checkpoint no longer had to write.
    pub early: u64,
    /// Blocks that were saved early.
    pub saved: u64,
    /// Blocks that were saved early in vain, because the program wrote them again.
    pub wasted: u64,
    /// Blocks that wait to be saved early.
    pub waiting: u64,
    /// 1 if Mainstay no longer saves early; a line on standard error has given the reason.
    pub is_off: u64,
}

/// Puts the results of saving early into `*speculation`. Local, never waits.
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

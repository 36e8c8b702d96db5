//! Coming back.

use crate::{
    argument::null,
    error::{Status, c_text, guard},
    session::{Session, session_of},
};
use std::ffi::c_char;

/// What a restore brought back.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Restored {
    /// Its number, 1 or more; 0: there was nothing to restore, and the regions are as they were.
    pub revision: u64,
    /// How much was found damaged: parts of the space, and newer revisions that were passed over for it;
    /// mainstay_report says what it was.
    pub skipped: u64,
}

/// Fills the protected regions with the newest complete revision that can be read whole, the same on
/// all ranks. Collective. Protect first. Every block is verified. Boxes of global arrays (mainstay_protect_box) are
/// filled whatever the number of ranks; other regions come back on another number if all ranks had saved the same
/// bytes, or rank 0 alone had it. After MAINSTAY_REGION_CHANGED,
/// MAINSTAY_REGION_MISSING, MAINSTAY_RANK_COUNT, MAINSTAY_OUT_OF_SIGHT, MAINSTAY_LINEAGE_CONFLICT and
/// MAINSTAY_OUTPUT_SHORT the regions are as they were; after any other error they are undefined. `restored` may be NULL.
///
/// # Safety
/// `session` is open, and what is protected is valid and ours until the call returns.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_restore(session: *mut Session, restored: *mut Restored) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, restored) = unsafe { (session_of(session)?, restored.as_mut()) };
        let found = session.engine.restore()?;
        let skipped = found.as_ref().map_or(&[][..], |found| &found.skipped);
        session.report = c_text(&skipped.iter().map(|what| format!("{what}\n")).collect::<String>());
        let notes = found.iter().flat_map(|found| &found.notes);
        session.notes = notes.map(|(name, value)| (c_text(name), c_text(value))).collect();
        if let Some(restored) = restored {
            restored.revision = found.as_ref().map_or(0, |found| found.revision);
            restored.skipped = skipped.len() as u64;
        }
        Ok(())
    })
}

/// What the last restore found damaged and passed over, in lines; "" if nothing. Valid until the next
/// restore or the close.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_report(session: *mut Session) -> *const c_char {
    // SAFETY: the caller's promise is passed on.
    match unsafe { session.as_ref() } {
        Some(session) => session.report.as_ptr(),
        None => {
            guard(|| Err(null("session")));
            c"".as_ptr()
        }
    }
}

//! Restoring.

use crate::{
    argument::no_session,
    buffer::NEWEST,
    error::{Status, c_text, guard},
    session::{Session, session_of},
};
use mainstay_engine::Session as Engine;
use std::ffi::c_char;

/// The revision that a restore filled in.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Restored {
    /// Its number, 1 or more. 0: there was nothing to restore, and the regions are unchanged.
    pub revision: u64,
    /// Number of damaged parts: parts of the space, and newer revisions that the restore passed over for damage.
    /// mainstay_report describes them.
    pub skipped: u64,
    /// The last step that the program gave to mainstay_due before it saved the revision; 0: none.
    pub step: u64,
}

/// Fills the protected regions with the newest complete revision that can be read whole, the same on all ranks.
/// Collective. Protect first. Mainstay verifies every block. It fills boxes of global arrays (mainstay_protect_box)
/// whatever the number of ranks. On another number of ranks, another region comes back if it is the same on all ranks
/// (mainstay_same_on_all_ranks), or if only rank 0 had it and has it now. After MAINSTAY_REGION_CHANGED,
/// MAINSTAY_REGION_MISSING, MAINSTAY_RANK_COUNT, MAINSTAY_OUT_OF_SIGHT, MAINSTAY_LINEAGE_CONFLICT and
/// MAINSTAY_OUTPUT_SHORT the regions are unchanged. After any other error they are undefined. `restored` may be NULL.
///
/// # Safety
/// `session` is open, and the protected memory is valid and ours until the call returns.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_restore(session: *mut Session, restored: *mut Restored) -> Status {
    // SAFETY: the caller's promises are passed on.
    unsafe { bring_back(session, restored, Engine::restore) }
}

/// Fills the protected regions like mainstay_restore, with the revision of this number, or with MAINSTAY_NEWEST.
/// Collective, with the same number on all ranks. The program goes on from there: the next checkpoint stops keeping
/// the newer revisions, except those under a hold. If the revision is missing or incomplete, the error is
/// MAINSTAY_REVISION_MISSING, and the regions are unchanged. `restored` may be NULL.
///
/// # Safety
/// `session` is open, and the protected memory is valid and ours until the call returns.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_restore_revision(
    session: *mut Session,
    revision: u64,
    restored: *mut Restored,
) -> Status {
    let restore = |engine: &mut Engine| match revision {
        NEWEST => engine.restore(),
        revision => engine.restore_revision(revision),
    };
    // SAFETY: the caller's promises are passed on.
    unsafe { bring_back(session, restored, restore) }
}

/// Goes back to the revision of this number, or to MAINSTAY_NEWEST, like mainstay_restore_revision, but fills nothing.
/// For programs that read the saved items themselves, some of them, or into memory of another size: mainstay_read_shard
/// reads any item of this rank's shard, and mainstay_bring_shards brings other shards. The ranks verify every shard and
/// truncate output files. Protected regions stay as they are, and the number of ranks may differ from that of the
/// revision. The program may checkpoint next. Collective, with the same number on all ranks. `restored` may be NULL.
///
/// # Safety
/// `session` is open, `restored` is null or points to room for one.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_choose(session: *mut Session, revision: u64, restored: *mut Restored) -> Status {
    let choose = |engine: &mut Engine| match revision {
        NEWEST => engine.choose(),
        revision => engine.choose_revision(revision),
    };
    // SAFETY: the caller's promises are passed on.
    unsafe { bring_back(session, restored, choose) }
}

/// # Safety
/// As of mainstay_restore.
#[allow(unsafe_code)]
unsafe fn bring_back(
    session: *mut Session,
    restored: *mut Restored,
    restore: impl FnOnce(&mut Engine) -> mainstay_engine::Result<Option<mainstay_engine::Restored>>,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, restored) = unsafe { (session_of(session)?, restored.as_mut()) };
        let found = restore(&mut session.engine)?;
        session.keep(found.as_ref());
        if let Some(restored) = restored {
            restored.revision = found.as_ref().map_or(0, |found| found.revision);
            restored.skipped = found.as_ref().map_or(0, |found| found.skipped.len() as u64);
            restored.step = found.as_ref().and_then(|found| found.step).unwrap_or(0);
        }
        Ok(())
    })
}

impl Session {
    /// Keeps the result of a restore: its notes, and the damage that it passed over.
    pub(crate) fn keep(&mut self, found: Option<&mainstay_engine::Restored>) {
        let skipped = found.map_or(&[][..], |found| &found.skipped);
        self.items.clear();
        self.report = c_text(&skipped.iter().map(|what| format!("{what}\n")).collect::<String>());
        let notes = found.iter().flat_map(|found| &found.notes);
        self.notes = notes.map(|(name, value)| (c_text(name), c_text(value))).collect();
    }
}

/// The damage that the last restore found and passed over, one line each; "" if none. Valid until the next restore or
/// the close.
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
            guard(|| Err(no_session()));
            c"".as_ptr()
        }
    }
}

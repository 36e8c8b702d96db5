//! The exclusive right to begin revisions that hold more than the protected regions. A checkpoint of the program would
//! leave out the additional state, and replace a revision that has it.

use super::Session;
use crate::error::{Error, Result};
use std::sync::{Arc, Weak};

/// Exclusive right to begin the revisions of a session, until it is dropped.
#[derive(Debug)]
pub struct Saver(Arc<()>);

impl Session {
    /// Takes the right. Until the saver is dropped, `checkpoint`, `begin` and `put` are refused outside `save_as`
    /// (`InvalidArgument`, on all ranks). `InvalidArgument` if there is a saver already. Local.
    pub fn reserve_saving(&mut self) -> Result<Saver> {
        self.ours()?;
        if self.saver.strong_count() > 0 {
            let why = "others are open on this session; add kinds to those, or close them";
            return Err(Error::argument("objects", why));
        }
        let saver = Saver(Arc::new(()));
        self.saver = Arc::downgrade(&saver.0);
        self.has_more = true;
        Ok(saver)
    }

    /// Calls `work`, which may begin revisions and adds the saver's own state to them.
    pub fn save_as<T>(&mut self, saver: &Saver, work: impl FnOnce(&mut Session) -> T) -> T {
        let reserved = self.saver.ptr_eq(&Arc::downgrade(&saver.0));
        let before = if reserved { std::mem::take(&mut self.saver) } else { Weak::new() };
        let done = work(self);
        if reserved {
            self.saver = before;
        }
        done
    }

    /// Makes the call that begins now save nothing, if only the saver may save.
    pub(super) fn refuse_without_saver(&mut self) {
        if self.saver.strong_count() > 0 {
            let why = "objects are open on it, and the revision would lack them; save by their checkpoint";
            self.refuse(Error::argument("session", why));
        }
    }
}

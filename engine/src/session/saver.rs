//! Who begins revisions, where they are to hold more than what is protected: the program's own call would leave that out, and push
//! out a revision that has it.

use super::Session;
use crate::error::{Error, Result};
use std::sync::{Arc, Weak};

/// Who has it begins the revisions of a session, for as long as it is there.
#[derive(Debug)]
pub struct Saver(Arc<()>);

impl Session {
    /// From here on `checkpoint`, `begin` and `put` are refused (`InvalidArgument`, on all ranks), but from within `save_as`, until the
    /// saver is dropped. `InvalidArgument` if there is one already. Local.
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

    /// Does `work`, which may begin revisions: it adds what only the saver knows.
    pub fn save_as<T>(&mut self, saver: &Saver, work: impl FnOnce(&mut Session) -> T) -> T {
        let reserved = self.saver.ptr_eq(&Arc::downgrade(&saver.0));
        let before = if reserved { std::mem::take(&mut self.saver) } else { Weak::new() };
        let done = work(self);
        if reserved {
            self.saver = before;
        }
        done
    }

    /// Has the call that begins now save nothing, if only the saver may.
    pub(super) fn refuse_without_saver(&mut self) {
        if self.saver.strong_count() > 0 {
            let why = "objects are open on it, and the revision would lack them; save by their checkpoint";
            self.refuse(Error::argument("session", why));
        }
    }
}

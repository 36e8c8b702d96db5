//! Folders as programs see them: each closed file has its name, and nothing shows of Mainstay's own files.

use super::{
    records::request::Answer,
    state::{Helper, Staged, State},
};
use crate::{
    file::{BESIDE, Key, Named, check_beside},
    stage::Id,
};
use std::{ffi::OsStr, fs, io, path::Path};

impl Helper {
    /// Waits until each closed file of a folder has its name. `beside`: Mainstay's own folder in it.
    pub(super) fn list(&self, beside: &Named) -> Option<Answer> {
        let is_coming = |state: &State| matches!(state, State::Whole | State::Carrying);
        let is_settled = self.states_in(&beside.key).all(|state| !is_coming(state));
        is_settled.then_some(Answer::Ok)
    }

    /// Removes a folder that is empty but for Mainstay's own folder.
    pub(super) fn remove_folder(&mut self, beside: &Named) -> Option<Answer> {
        self.list(beside)?;
        if beside.name() != OsStr::new(BESIDE) || beside.check_folder().is_err() {
            return Some(Answer::Error(libc::ENOENT, String::new()));
        }
        if self.states_in(&beside.key).any(|state| *state != State::Torn) {
            return Some(Answer::Error(libc::ENOTEMPTY, String::new()));
        }
        Some(match self.clear(&beside.folder).and_then(|()| fs::remove_dir(&beside.folder)) {
            Ok(()) => Answer::Ok,
            Err(error) => Answer::Error(error.raw_os_error().unwrap_or(libc::EIO), String::new()),
        })
    }

    /// The states of the files in a folder that have no name yet.
    fn states_in(&self, key: &Key) -> impl Iterator<Item = &State> {
        let is_in_it = |of: &Key| of.in_same_folder(key);
        self.staged.values().filter(move |staged| is_in_it(&staged.record.named.key)).map(|staged| &staged.state)
    }

    /// Removes Mainstay's own folder in `folder`. Fails if a process of any node still needs it.
    pub(super) fn clear(&self, folder: &Path) -> io::Result<()> {
        check_beside(folder)?;
        let own = folder.join(BESIDE);
        let is_used = |staged: &Staged| staged.state != State::Torn && staged.record.named.folder == folder;
        if self.staged.values().any(is_used) || names_in(folder)?.iter().any(|name| name != BESIDE) {
            return Err(io::Error::from_raw_os_error(libc::ENOTEMPTY));
        }
        for part in names_in(&own)? {
            let path = own.join(&part);
            match part.to_str() {
                // The files of these names are gone.
                Some("kept" | "torn") => fs::remove_dir_all(path)?,
                Some("writing") => self.clear_writing(&path)?,
                _ => fs::remove_dir(path)?,
            }
        }
        fs::remove_dir(own)
    }

    /// Removes leftovers of this helper only: other nodes may be writing.
    fn clear_writing(&self, path: &Path) -> io::Result<()> {
        for name in names_in(path)? {
            let id = Path::new(&name).file_stem().and_then(OsStr::to_str).and_then(Id::from_text);
            if id.is_some_and(|id| id.node() == self.node) {
                fs::remove_file(path.join(name))?;
            }
        }
        fs::remove_dir(path)
    }
}

fn names_in(folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}

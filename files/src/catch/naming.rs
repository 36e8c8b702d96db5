//! rename, link and unlink. The helper does them, in order with the publications.

use super::{
    caller::Caller,
    calls::Spot,
    resolve::Found,
    supervisor::{Reply, Supervisor},
};
use crate::helper::Answer;
use rustix::fs::FileType;

impl Supervisor<'_> {
    pub(super) fn rename(&self, caller: &Caller, from: Spot, to: Spot, flags: u32) -> Reply {
        if let Some((from, to)) = self.find_folder(caller, from, to) {
            return result(&self.asker.rename_folder(&from, &to, flags));
        }
        let Some((from, to)) = self.find_both(caller, from, to, false) else { return Reply::Pass };
        let exchanges = flags & libc::RENAME_EXCHANGE != 0;
        if !from.is_regular_or_absent()
            || to.kind == Some(FileType::Directory)
            || (exchanges && !to.is_regular_or_absent())
        {
            return Reply::Pass;
        }
        result(&self.asker.rename(&from, &to, flags))
    }

    pub(super) fn link(&self, caller: &Caller, from: Spot, to: Spot, follows: bool) -> Reply {
        match self.find_both(caller, from, to, follows) {
            Some((from, to)) if from.is_regular_or_absent() => result(&self.asker.link(&from, &to)),
            _ => Reply::Pass,
        }
    }

    pub(super) fn unlink(&self, caller: &Caller, spot: Spot) -> Reply {
        match self.find_wanted(caller, spot, false) {
            Some(found) => result(&self.asker.about("unlink", &found)),
            None => Reply::Pass,
        }
    }

    /// Both names of a call that renames a folder. Files in it may have no name yet, even if its name does not match.
    fn find_folder(&self, caller: &Caller, from: Spot, to: Spot) -> Option<(Found, Found)> {
        let (from_path, to_path) = (caller.path(from.path)?, caller.path(to.path)?);
        let from = self.find(caller, from, trimmed(&from_path), false)?;
        let to = self.find(caller, to, trimmed(&to_path), false).filter(|_| from.kind == Some(FileType::Directory))?;
        Some((from, to))
    }

    /// Both files of a call, if one of them matches.
    fn find_both(&self, caller: &Caller, from: Spot, to: Spot, follows: bool) -> Option<(Found, Found)> {
        let (from_path, to_path) = (caller.path(from.path)?, caller.path(to.path)?);
        if !self.patterns.is_candidate(&from_path) && !self.patterns.is_candidate(&to_path) {
            return None;
        }
        let from = self.find(caller, from, &from_path, follows)?;
        let to = self.find(caller, to, &to_path, false)?;
        (from.is_wanted || to.is_wanted).then_some((from, to))
    }
}

/// Cuts off slashes at the end of a folder's path.
fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len(), |at| at + 1);
    &path[..end]
}

fn result(answer: &Answer) -> Reply {
    match answer {
        Answer::Ok => Reply::Done(Ok(0)),
        Answer::Error(number, _) => Reply::Done(Err(*number)),
        _ => Reply::Pass,
    }
}

//! Calls that change names, in order with the publication of their files.

use super::{
    opening::os,
    records::request::Answer,
    state::{Helper, State},
};
use crate::{
    file::{BESIDE, Named, short},
    kept,
    stage::Id,
    writing::{drop_writing, writing_path},
};
use rustix::{
    fs::{AtFlags, CWD, RenameFlags, linkat, renameat_with},
    io::Errno,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

impl Helper {
    /// Answers before a call that changes the file of a name: gives its path once no publication of the name is under way.
    pub(super) fn settle(&mut self, named: &Named, appends: bool) -> Option<Answer> {
        if self.is_busy(&named.key) || self.comes_from_elsewhere(named) {
            return None;
        }
        if let Some(id) = self.newest(&named.key) {
            return Some(self.at(id));
        }
        if appends {
            let _ = kept::release(&named.folder, named.name());
        }
        Some(Answer::Published)
    }

    pub(super) fn rename(&mut self, from: &Named, to: &Named, flags: u32) -> Option<Answer> {
        if [from, to].iter().any(|one| self.is_busy(&one.key) || self.comes_from_elsewhere(one)) {
            return None;
        }
        let flags = RenameFlags::from_bits_retain(flags);
        let is_named = |named: &Named| fs::symlink_metadata(named.path()).is_ok();
        let is_published = is_named(from);
        if !is_published && self.newest(&from.key).is_none() {
            return Some(os(Errno::NOENT));
        }
        let is_taken = is_named(to) || self.newest(&to.key).is_some();
        if flags.contains(RenameFlags::NOREPLACE) && is_taken {
            return Some(os(Errno::EXIST));
        }
        if from.key == to.key {
            return Some(Answer::Ok);
        }
        if !from.key.on_same_device(&to.key) {
            return Some(os(Errno::XDEV));
        }
        let is_exchange = flags.contains(RenameFlags::EXCHANGE);
        // One name has only an open file without a generation: the program must take another way.
        let is_unpublished = |named: &Named| self.newest(&named.key).is_some() && !is_named(named);
        if is_exchange && [from, to].into_iter().any(is_unpublished) {
            return Some(os(Errno::INVAL));
        }
        if is_published {
            let renamed = kept::rename((&from.folder, from.name()), (&to.folder, to.name()), flags);
            if let Err(error) = renamed {
                return Some(failed(&error));
            }
            self.lines.removed(&to.key);
        }
        let replaced = self.ids(to);
        for id in self.ids(from) {
            self.move_staged(id, to);
        }
        // The old files of the name are replaced, or get the other name.
        for id in replaced {
            if is_exchange { self.move_staged(id, from) } else { self.drop_staged(id) }
        }
        Some(Answer::Ok)
    }

    /// Renames a folder once no publication in it or below is under way. Open files go along.
    pub(super) fn rename_folder(&mut self, from: &Named, to: &Named, flags: u32) -> Option<Answer> {
        if [from, to].iter().any(|one| one.check_folder().is_err()) {
            // The program has another view of the file system: its own call must do it.
            return Some(Answer::Plain(String::new()));
        }
        let (old, new) = (from.path(), to.path());
        let flags = RenameFlags::from_bits_retain(flags);
        let mut places = vec![(&old, &new)];
        if flags.contains(RenameFlags::EXCHANGE) {
            places.push((&new, &old));
        }
        let below: Vec<Id> = self
            .staged
            .iter()
            .filter(|(_, one)| places.iter().any(|(place, _)| one.record.named.folder.starts_with(place)))
            .map(|(id, _)| *id)
            .collect();
        let is_busy = |id: &Id| {
            let staged = &self.staged[id];
            matches!(staged.state, State::Filling) || self.is_busy(&staged.record.named.key)
        };
        if below.iter().any(is_busy) {
            return None;
        }
        below.iter().for_each(|id| self.leave_set(*id));
        let rename = || renameat_with(CWD, &old, CWD, &new, flags);
        let renamed = match rename() {
            // A folder with Mainstay's own folder alone counts as empty.
            Err(Errno::NOTEMPTY | Errno::EXIST) if flags.is_empty() && self.clear(&new).is_ok() => rename(),
            renamed => renamed,
        };
        if let Err(error) = renamed {
            return Some(os(error));
        }
        for id in below {
            let Some(staged) = self.staged.get_mut(&id) else { continue };
            let moved = |path: &Path| {
                let to = |(from, to): &(&PathBuf, &PathBuf)| Some(to.join(path.strip_prefix(from).ok()?));
                places.iter().find_map(to).unwrap_or_else(|| path.to_owned())
            };
            staged.record.named.folder = moved(&staged.record.named.folder);
            staged.path = moved(&staged.path);
            staged.record.round = self.rounds.next(&staged.record.named, &staged.record.options);
            let _ = self.stage.write_record(id, &staged.record);
        }
        Some(Answer::Ok)
    }

    /// Takes a file out of its set, before it gets another name: then it belongs to the set of that name.
    fn leave_set(&mut self, id: Id) {
        let Some(staged) = self.staged.get_mut(&id).filter(|staged| staged.state == State::Ready) else { return };
        staged.state = State::Whole;
        self.sets.leave(id, &staged.record);
    }

    /// Gives a file that has no name yet another one.
    fn move_staged(&mut self, id: Id, to: &Named) {
        self.leave_set(id);
        let Some(staged) = self.staged.get_mut(&id) else { return };
        let from = std::mem::replace(&mut staged.record.named, to.clone());
        staged.record.round = self.rounds.next(to, &staged.record.options);
        if staged.state == State::Whole {
            staged.replaces = to.identity();
            let _ = self.stage.mark_whole(id, staged.replaces);
        }
        if from.folder != to.folder {
            if staged.record.is_through {
                let moved = writing_path(&to.folder, id);
                let is_there = kept::beside(&to.folder, "writing").and_then(|_| fs::rename(&staged.path, &moved));
                if is_there.is_ok() {
                    staged.path = moved;
                }
            }
            // The room that a process has set aside there when it closed the file.
            drop_writing(&from.folder, id);
        }
        let _ = self.stage.write_record(id, &staged.record);
        self.lines.renamed(&from.key, &to.key);
        if let Some(ids) = self.names.get_mut(&from.key) {
            ids.retain(|one| *one != id);
            if ids.is_empty() {
                self.names.remove(&from.key);
            }
        }
        let ids = self.names.entry(to.key.clone()).or_default();
        ids.push(id);
        ids.sort_unstable();
    }

    pub(super) fn link(&mut self, from: &Named, to: &Named) -> Option<Answer> {
        if [from, to].iter().any(|one| self.is_busy(&one.key) || self.comes_from_elsewhere(one)) {
            return None;
        }
        if self.newest(&to.key).is_some() {
            return Some(os(Errno::EXIST));
        }
        // An open file has no name to link.
        if self.newest(&from.key).is_some_and(|id| self.staged[&id].state == State::Open) {
            return Some(os(Errno::BUSY));
        }
        Some(match linkat(CWD, from.path(), CWD, to.path(), AtFlags::empty()) {
            Ok(()) => Answer::Ok,
            Err(error) => os(error),
        })
    }

    /// Removes a file with its generations. Processes with the file open keep it, without a name.
    pub(super) fn unlink(&mut self, named: &Named) -> Option<Answer> {
        if self.is_busy(&named.key) || self.comes_from_elsewhere(named) {
            return None;
        }
        let staged = self.ids(named);
        let removed = fs::remove_file(named.path());
        if let Err(error) = &removed
            && (staged.is_empty() || error.kind() != io::ErrorKind::NotFound)
        {
            return Some(failed(error));
        }
        staged.into_iter().for_each(|id| self.drop_staged(id));
        self.failures.remove(&named.key);
        self.lines.removed(&named.key);
        let _ = kept::remove_all(&named.folder, named.name());
        let _ = fs::remove_file(named.folder.join(BESIDE).join("torn").join(short(named.name())));
        Some(Answer::Ok)
    }

    fn ids(&self, named: &Named) -> Vec<Id> {
        self.names.get(&named.key).cloned().unwrap_or_default()
    }

    pub(super) fn drop_staged(&mut self, id: Id) {
        if let Some(staged) = self.staged.get(&id) {
            drop_writing(&staged.record.named.folder, id);
        }
        self.forget(id);
    }
}

fn failed(error: &io::Error) -> Answer {
    Answer::Error(error.raw_os_error().unwrap_or(libc::EIO), String::new())
}

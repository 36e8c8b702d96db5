//! Opening a name to write or to read: a staged file, the base of an update, or an older generation.

use super::{
    records::holders::Pid,
    records::request::{Answer, How},
    records::room::set_aside,
    shared::Other,
    state::{Fingerprint, Helper, Staged, State},
    unchanged,
    workers::Done,
};
use crate::{
    file::{BESIDE, Key, Named},
    kept::{self, Judged, beside, data_path},
    options::Options,
    publish::{self, rights},
    sets,
    stage::{Id, Record, Share},
    writing::writing_path,
};
use mainstay_engine::printable_path;
use rustix::{
    fs::{Access, access},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, chown},
    path::{Path, PathBuf},
};

impl Helper {
    pub(super) fn write(
        &mut self,
        process: Pid,
        named: &Named,
        how: How,
        options: &Options,
        granted: &mut Option<Id>,
    ) -> Option<Answer> {
        if let Some(id) = *granted {
            return self.filled(id, process);
        }
        let path = named.path();
        let text = |why: String| format!("{} is not protected: {why}", printable_path(&path));
        if let Err(error) = named.check_folder() {
            return Some(Answer::Plain(text(format!("its folder cannot be opened here ({error})"))));
        }
        // The program writes into the published file, which is no generation any more.
        let plain = |why: String| {
            let _ = kept::release(&named.folder, named.name());
            Some(Answer::Plain(text(why)))
        };
        if self.is_unjudged(&named.key) {
            return None;
        }
        if let Some((error, text)) = self.failures.remove(&named.key) {
            return Some(Answer::Error(error, text));
        }
        self.notice_ended(&named.key);
        self.meet_folder(named, options);
        self.go_on();
        if options.is_on_nodes() {
            match self.other_node(process, named, how, options) {
                Other::None => {}
                Other::Waits => return None,
                Other::Answers(answer) => return Some(answer),
            }
        }
        let newest = self.newest(&named.key);
        match newest.map(|id| (id, self.staged[&id].state.clone())) {
            Some((_, State::Filling)) => return None,
            Some((_, State::Open)) if how.is_exclusive && !how.is_shared => return Some(error(libc::EEXIST)),
            Some((id, State::Open)) => {
                self.open(process, id);
                return Some(Answer::Stage { id, path: self.staged[&id].path.clone(), is_new: false });
            }
            _ => {}
        }
        let published = fs::symlink_metadata(&path).ok();
        let exists = newest.is_some() || published.is_some();
        match (exists, how) {
            (true, How { is_exclusive: true, .. }) => return Some(error(libc::EEXIST)),
            (false, How { creates: false, .. }) => return Some(error(libc::ENOENT)),
            _ => {}
        }
        if published.is_some()
            && let Err(denied) = access(&path, Access::WRITE_OK)
        {
            return Some(os(denied));
        }
        if let Err(error) = access(&named.folder, Access::WRITE_OK | Access::EXEC_OK) {
            return if published.is_some() {
                plain("its folder cannot be written".to_owned())
            } else {
                Some(os(error))
            };
        }
        if how.truncates || !exists {
            if let Some(answer) = self.claim(named, how, options) {
                return Some(answer);
            }
            return Some(match self.create(named, how, options) {
                Ok(id) => {
                    self.open(process, id);
                    Answer::Stage { id, path: self.staged[&id].path.clone(), is_new: true }
                }
                Err(error) => {
                    self.unclaim(named, options);
                    return plain(format!("the stage cannot hold it ({error})"));
                }
            });
        }
        let base = match newest {
            Some(id) => self.staged[&id].path.clone(),
            None => match self.judged(named)? {
                Judged::Unknown | Judged::Good { .. } => path.clone(),
                Judged::Changed { .. } => {
                    self.remark_changed(named, options);
                    path.clone()
                }
                Judged::Instead { older, .. } => data_path(&named.folder, named.name(), older),
                Judged::Lost { .. } => return Some(Answer::Error(libc::EIO, lost(named))),
            },
        };
        if !how.writes_at_once {
            return Some(Answer::Base(base, newest.and_then(|id| self.inode_of(id))));
        }
        if let Some(answer) = self.claim(named, how, options) {
            return Some(answer);
        }
        match self.create(named, how, options) {
            Ok(id) => {
                self.fill(id, base, how.locks);
                self.open(process, id);
                *granted = Some(id);
                None
            }
            Err(error) => {
                self.unclaim(named, options);
                plain(format!("the stage cannot hold it ({error})"))
            }
        }
    }

    /// The answer for a file that begins with a copy of the older generation.
    fn filled(&mut self, id: Id, process: Pid) -> Option<Answer> {
        let Some(staged) = self.staged.get_mut(&id) else { return Some(error(libc::EIO)) };
        match staged.state {
            State::Filling => None,
            State::Unfilled(number) => {
                let _ = process;
                self.forget(id);
                Some(error(number))
            }
            _ => Some(Answer::Stage { id, path: staged.path.clone(), is_new: true }),
        }
    }

    fn fill(&mut self, id: Id, base: PathBuf, locks: bool) {
        let Some(staged) = self.staged.get_mut(&id) else { return };
        staged.state = State::Filling;
        let (path, target) = (staged.path.clone(), staged.record.named.path());
        let may_move = base.parent() == Some(&staged.record.named.folder.join(BESIDE).join("writing"));
        // The base may be a staged file. It loses its path once it has its name.
        let base = match File::open(&base) {
            Err(error) if may_move && error.kind() == io::ErrorKind::NotFound => File::open(&target),
            opened => opened,
        };
        self.workers.begin(move || Done::Filled(id, base.and_then(|base| unchanged::fill(&base, &path, locks))));
    }

    /// Makes an empty staged file: in the node's memory if there is room, else in the target's file system.
    fn create(&mut self, named: &Named, how: How, options: &Options) -> io::Result<Id> {
        let expected = fs::symlink_metadata(named.path()).map_or(0, |found| found.len());
        let expected = self.room.expects(&named.key, expected);
        let mut has_room = self.has_room(options.room_bytes, expected);
        if !has_room && !how.leads {
            // Memory set aside for other names is given back.
            self.room.free_prepared(&self.stage, &named.key);
            has_room = self.has_room(options.room_bytes, expected);
        }
        let is_through = how.leads || !has_room;
        let prepared = self.room.take_prepared(&named.key);
        let id = self.across.claimed().unwrap_or_else(|| Id::after(self.last, self.node));
        self.last = self.last.max(Some(id));
        let round = self.rounds.next(named, options);
        let share = if how.leads { Share::Led } else { Share::Whole };
        let record = Record { named: named.clone(), is_through, share, options: options.clone(), round };
        access(beside(&named.folder, "writing")?, Access::WRITE_OK | Access::EXEC_OK)?;
        self.stage.write_record(id, &record)?;
        let path = if is_through { writing_path(&named.folder, id) } else { self.stage.file(id) };
        let is_prepared = match prepared {
            Some(prepared) if is_through => {
                let _ = fs::remove_file(self.stage.prepared(prepared));
                false
            }
            Some(prepared) => fs::rename(self.stage.prepared(prepared), &path).is_ok(),
            None => false,
        };
        let made = if is_prepared {
            Ok(())
        } else {
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map(drop)
        };
        let _ = share_group(&named.folder, &path);
        if let Err(error) =
            made.and_then(|()| rights(named).map_or(Ok(()), |rights| fs::set_permissions(&path, rights)))
        {
            self.stage.remove(id);
            return Err(error);
        }
        if !is_through {
            self.room.holds(id, expected);
        }
        self.names.entry(named.key.clone()).or_default().push(id);
        self.staged.insert(id, Staged::new(record, path));
        Ok(id)
    }

    /// Whether a file of `expected` bytes has room in memory.
    fn has_room(&mut self, given: Option<u64>, expected: u64) -> bool {
        let staged = &self.staged;
        self.room.gives_back(|id| !staged.contains_key(id));
        let used = self.used_bytes();
        self.room.has(&self.stage, given, used, expected)
    }

    /// Bytes of staged files in memory, and the bytes expected for open files.
    fn used_bytes(&self) -> u64 {
        let in_memory = self.staged.iter().filter(|(_, staged)| !staged.record.is_through);
        let bytes = in_memory.map(|(id, staged)| {
            let bytes = fs::metadata(&staged.path).map_or(0, |found| found.blocks() * 512);
            if matches!(staged.state, State::Open | State::Filling) {
                bytes.max(self.room.held_for(*id))
            } else {
                bytes
            }
        });
        bytes.sum()
    }

    /// At the first name of a job in a folder: completes the files that killed jobs left there.
    fn meet_folder(&mut self, named: &Named, options: &Options) {
        if self.room.meets(&named.folder, &options.job) && named.folder.join(BESIDE).join("sets").exists() {
            // This helper handles the sets of the jobs that it knows.
            sets::replay(&named.folder, |job| job == options.job || self.knows(job));
        }
    }

    /// The state of the file under the name. `None`: a thread reads it.
    fn judged(&mut self, named: &Named) -> Option<Judged> {
        let Ok(found) = fs::symlink_metadata(named.path()) else { return Some(Judged::Unknown) };
        if !found.is_file() || !named.folder.join(BESIDE).exists() {
            return Some(Judged::Unknown);
        }
        let print = Fingerprint::of(&found);
        if let Some(judged) = self.checked.get(&print) {
            return Some(judged.clone());
        }
        if self.checking.insert(print) {
            let named = named.clone();
            self.workers.begin(move || {
                let judged = kept::judge(&named.folder, named.name());
                Done::Checked(print, judged.unwrap_or(Judged::Unknown))
            });
        }
        None
    }

    pub(super) fn read(&mut self, named: &Named, options: &Options) -> Option<Answer> {
        self.meet_folder(named, options);
        if self.is_unjudged(&named.key) {
            return None;
        }
        if let Some(id) = self.newest(&named.key) {
            return Some(self.at(id));
        }
        if options.is_on_nodes() {
            self.across.serves(&options.job);
            if self.comes_from_elsewhere(named) {
                return None;
            }
        }
        Some(match self.judged(named)? {
            Judged::Unknown | Judged::Good { .. } => Answer::Published,
            Judged::Changed { .. } => {
                self.remark_changed(named, options);
                Answer::Published
            }
            Judged::Instead { generation, older } => {
                let path = printable_path(&named.path());
                let text = format!("{path} is damaged (generation {generation}); generation {older} is read instead");
                match options.damaged_fails {
                    true => Answer::Error(
                        libc::EIO,
                        format!(
                            "{path} is damaged; restore an older one: mainstay files restore {} {}@{older}",
                            printable_path(&named.folder),
                            printable_path(named.name().as_ref())
                        ),
                    ),
                    false => Answer::Instead(data_path(&named.folder, named.name(), older), text),
                }
            }
            Judged::Lost { .. } => Answer::Error(libc::EIO, lost(named)),
        })
    }

    /// Adds a remark: another program has changed the file in place. The file is no generation any more.
    fn remark_changed(&mut self, named: &Named, options: &Options) {
        let path = printable_path(&named.path());
        let text = format!("{path} was changed in place by another program, and counts as it is");
        let _ = kept::release(&named.folder, named.name());
        self.lines.remark(&named.key, &options.job, text);
    }

    /// Sets room aside in the target's file system, or fails the `close`: the program must learn that the file is lost.
    pub(super) fn reserve(&mut self, id: Id) -> Result<(), Answer> {
        let Some(staged) = self.staged.get(&id).filter(|staged| !staged.record.is_through) else { return Ok(()) };
        let bytes = fs::metadata(&staged.path).map_or(0, |found| found.len());
        self.room.learns(&staged.record.named.key, bytes);
        let Err(failed) = publish::reserve(&staged.record.named, id, &staged.path) else { return Ok(()) };
        let path = printable_path(&staged.record.named.path());
        let text = format!("{path}: no room for {bytes} bytes ({failed}); the previous file stays");
        if staged.holders.is_empty() {
            sets::tear(&staged.record);
            self.forget(id);
        }
        Err(Answer::Error(failed.raw_os_error().unwrap_or(libc::EIO), text))
    }

    /// Sets memory aside for the next generation of a name: allocating memory costs more than the copy into it.
    pub(super) fn prepare(&mut self, key: Key, bytes: u64, room_bytes: Option<u64>) {
        if bytes == 0 || !self.has_room(room_bytes, bytes) {
            return;
        }
        let id = Id::after(self.last, self.node);
        self.last = Some(id);
        let path = self.stage.prepared(id);
        self.workers.begin(move || {
            let bytes = set_aside(&path, bytes).unwrap_or(0);
            Done::Prepared(key, id, bytes)
        });
    }
}

/// New files of a folder with the set-group-ID bit have its group. The node's memory knows nothing of that.
fn share_group(folder: &Path, path: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    if found.mode() & libc::S_ISGID == 0 { Ok(()) } else { chown(path, None, Some(found.gid())) }
}

fn lost(named: &Named) -> String {
    format!(
        "{} is damaged, and so is each older generation; remove it, or put a copy of your own there",
        printable_path(&named.path())
    )
}

pub(super) fn error(number: i32) -> Answer {
    Answer::Error(number, String::new())
}

pub(super) fn os(error: Errno) -> Answer {
    Answer::Error(error.raw_os_error(), String::new())
}

//! open and its relatives: the caller gets a descriptor of the staged file.

use super::{
    caller::Caller,
    calls::Spot,
    listener::Notice,
    resolve::Found,
    supervisor::{Reply, Supervisor},
};
use crate::{helper::Answer, stage::Id};
use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::Path,
};

const TRIES_MAX: usize = 4;
/// The helper has handled the first two. Memory file systems have no O_DIRECT before Linux 6.6.
const DROPPED: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_DIRECT | libc::O_NOFOLLOW;

impl Supervisor<'_> {
    pub(super) fn open_how(&mut self, notice: &Notice, caller: &Caller, spot: Spot, how: u64) -> Reply {
        match caller.numbers::<2>(how) {
            Some([flags, mode]) => self.open(notice, caller, spot, flags as i32, mode as u32),
            None => Reply::Pass,
        }
    }

    pub(super) fn open(&mut self, notice: &Notice, caller: &Caller, spot: Spot, flags: i32, mode: u32) -> Reply {
        let has = |flag: i32| flags & flag == flag;
        // O_TMPFILE includes this flag.
        if has(libc::O_DIRECTORY) {
            return Reply::Pass;
        }
        let follows = !has(libc::O_NOFOLLOW) && !has(libc::O_CREAT | libc::O_EXCL);
        for _ in 0..TRIES_MAX {
            let Some(found) = self.find_wanted(caller, spot, follows) else { return Reply::Pass };
            let answer = if has(libc::O_PATH) {
                self.asker.about("look", &found)
            } else if has(libc::O_TRUNC) {
                // A new file, though the program may only read it, or append to it.
                self.asker.write(&found, &how(flags))
            } else if flags & libc::O_ACCMODE == libc::O_RDONLY {
                self.asker.read(&found)
            } else if has(libc::O_APPEND) {
                // The file is a log, unless the program also writes it as a restart file.
                match self.asker.settle_to_append(&found) {
                    Answer::At(..) => self.asker.write(&found, &how(flags)),
                    other => other,
                }
            } else {
                self.asker.write(&found, &how(flags))
            };
            match answer {
                Answer::Stage { id, path, is_new } => {
                    let rights = (is_new && has(libc::O_CREAT) && found.kind.is_none()).then_some(mode);
                    return self.give_staged(notice, caller, (id, &path), flags, rights);
                }
                Answer::At(path, _) | Answer::Instead(path, _) => match open_as(&path, flags & !libc::O_TRUNC) {
                    // The helper may have moved the file since its answer.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    opened => return self.give(notice, opened, flags),
                },
                Answer::Error(number, _) => return Reply::Done(Err(number)),
                _ => return Reply::Pass,
            }
        }
        Reply::Done(Err(libc::ENOENT))
    }

    /// Gives the caller a staged file, and reports its process to the helper as a holder.
    pub(super) fn give_staged(
        &mut self,
        notice: &Notice,
        caller: &Caller,
        (id, path): (Id, &Path),
        flags: i32,
        rights: Option<u32>,
    ) -> Reply {
        let file = open_as(path, flags);
        if let (Ok(file), Some(mode)) = (&file, rights) {
            // The helper has made the file with mode 600.
            let _ = file.set_permissions(Permissions::from_mode(mode & !caller.umask() & 0o7777));
        }
        let process = caller.process();
        let reply = self.give(notice, file, flags);
        if matches!(reply, Reply::Sent) {
            self.asker.given(id, process);
        } else {
            self.asker.dropped(id);
        }
        reply
    }

    fn give(&self, notice: &Notice, file: io::Result<File>, flags: i32) -> Reply {
        let given = file.and_then(|file| self.listener.give(notice, file.as_fd(), flags & libc::O_CLOEXEC != 0));
        match given {
            Ok(()) => Reply::Sent,
            Err(error) => Reply::Done(Err(error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }

    /// `truncate`: it makes a new generation, as any change does.
    pub(super) fn truncate(&mut self, caller: &Caller, found: &Found, size: i64) -> Reply {
        let (id, path) = match self.asker.write(found, &how(libc::O_WRONLY)) {
            Answer::Stage { id, path, .. } => (id, path),
            Answer::Error(number, _) => return Reply::Done(Err(number)),
            _ => return Reply::Pass,
        };
        let Ok(size) = u64::try_from(size) else {
            self.asker.dropped(id);
            return Reply::Done(Err(libc::EINVAL));
        };
        match open_as(&path, libc::O_WRONLY).and_then(|file| file.set_len(size)) {
            Ok(()) => {
                self.asker.given(id, caller.process());
                Reply::Done(Ok(0))
            }
            Err(error) => {
                self.asker.dropped(id);
                Reply::Done(Err(error.raw_os_error().unwrap_or(libc::EIO)))
            }
        }
    }
}

/// The letters of the protocol. Without a `base`: the supervisor cannot see the first write to one.
fn how(flags: i32) -> String {
    let letters = [
        ('t', flags & libc::O_TRUNC != 0),
        ('c', flags & libc::O_CREAT != 0),
        ('x', flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0),
        ('n', true),
    ];
    letters.into_iter().filter_map(|(letter, is_set)| is_set.then_some(letter)).collect()
}

fn open_as(path: &Path, flags: i32) -> io::Result<File> {
    let mode = flags & libc::O_ACCMODE;
    let mut options = OpenOptions::new();
    options.read(mode != libc::O_WRONLY).write(mode == libc::O_WRONLY || mode == libc::O_RDWR);
    options.custom_flags(flags & !(DROPPED | libc::O_ACCMODE)).open(path)
}

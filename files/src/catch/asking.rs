//! Asks the helper on behalf of a program: the supervisor's side of `files/preload/protocol.h`.

use super::resolve::Found;
use crate::{
    Member,
    helper::Answer,
    server::fields,
    stage::{Id, Stage},
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Above this number, the list drops files that have their names.
const IDS_MAX: usize = 64;

pub struct Asker<'a> {
    member: &'a Member,
    options: Vec<u8>,
    say: fn(&str),
    is_gone: Cell<bool>,
    stage: &'a Stage,
    /// The staged files of each process. A new helper learns them from here.
    holders: RefCell<HashMap<i32, BTreeSet<Id>>>,
    /// The helper that knows them.
    helper: Cell<Option<u64>>,
}

impl<'a> Asker<'a> {
    pub fn new(member: &'a Member, stage: &'a Stage, options: String, say: fn(&str)) -> Asker<'a> {
        let holders = RefCell::default();
        let (is_gone, helper) = (Cell::new(false), Cell::new(None));
        Asker { member, options: options.into_bytes(), say, is_gone, stage, holders, helper }
    }

    pub fn write(&self, found: &Found, how: &str) -> Answer {
        self.ask("write", &[found], &[how.as_bytes(), &self.options])
    }

    pub fn read(&self, found: &Found) -> Answer {
        self.ask("read", &[found], &[&self.options])
    }

    /// `verb` is look, settle or unlink.
    pub fn about(&self, verb: &str, found: &Found) -> Answer {
        self.ask(verb, &[found], &[])
    }

    /// Asks before an open that appends.
    pub fn settle_to_append(&self, found: &Found) -> Answer {
        self.ask("settle", &[found], &[b"a"])
    }

    pub fn rename(&self, from: &Found, to: &Found, flags: u32) -> Answer {
        self.ask("rename", &[from, to], &[flags.to_string().as_bytes(), &self.options])
    }

    pub fn rename_folder(&self, from: &Found, to: &Found, flags: u32) -> Answer {
        self.ask("rename-folder", &[from, to], &[flags.to_string().as_bytes(), &self.options])
    }

    pub fn link(&self, from: &Found, to: &Found) -> Answer {
        self.ask("link", &[from, to], &[])
    }

    pub fn hold(&self, id: Id) {
        self.tell("hold", &[&id.to_string()]);
    }

    pub fn given(&self, id: Id, process: i32) {
        self.tell_holder("given", id, process);
    }

    /// Reports a child that has inherited the file.
    pub fn inherits(&self, id: Id, process: i32) {
        self.tell_holder("inherits", id, process);
    }

    fn tell_holder(&self, verb: &str, id: Id, process: i32) {
        let mut holders = self.holders.borrow_mut();
        let ids = holders.entry(process).or_default();
        if ids.len() >= IDS_MAX {
            ids.retain(|id| self.stage.read_record(*id).is_ok());
        }
        ids.insert(id);
        drop(holders);
        self.tell(verb, &[&id.to_string(), &process.to_string()]);
    }

    pub fn dropped(&self, id: Id) {
        self.tell("dropped", &[&id.to_string()]);
    }

    pub fn lost(&self, id: Id) {
        self.tell("lost", &[&id.to_string()]);
    }

    pub fn leaves(&self, process: i32, status: i32) {
        self.tell("leaves", &[&process.to_string(), &status.to_string()]);
        self.holders.borrow_mut().remove(&process);
    }

    /// Whether the process has got a staged file.
    pub fn is_holder(&self, process: i32) -> bool {
        self.holders.borrow().contains_key(&process)
    }

    pub fn has_holders(&self) -> bool {
        !self.holders.borrow().is_empty()
    }

    /// Sends a request that only a member may send.
    fn tell(&self, verb: &str, words: &[&str]) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.ask(verb, &[], &words);
    }

    /// A helper that has taken over must know this member and its files before it answers: a process may have closed a file
    /// in order while there was no helper.
    fn meet(&self, helper: u64) {
        if self.helper.replace(Some(helper)) == Some(helper) {
            return;
        }
        self.ask("member", &[], &[self.member.job().as_bytes()]);
        for (process, ids) in self.holders.borrow().iter() {
            let process = process.to_string();
            ids.iter().for_each(|id| drop(self.ask("given", &[], &[id.to_string().as_bytes(), process.as_bytes()])));
        }
    }

    fn ask(&self, verb: &str, files: &[&Found], words: &[&[u8]]) -> Answer {
        let named = files.iter().flat_map(|found| found.named.fields());
        let all = std::iter::once(verb.as_bytes().to_vec()).chain(named).chain(words.iter().map(|word| word.to_vec()));
        let message: Vec<u8> = all.flat_map(|field| field.into_iter().chain([0])).collect();
        let answer = self.member.ask_after(&message, |helper| self.meet(helper)).map(|bytes| decode(&bytes));
        let Ok(Some(answer)) = answer else {
            if !self.is_gone.replace(true) {
                (self.say)("the helper for files does not answer; files are not protected");
            }
            return Answer::Plain(String::new());
        };
        if let Answer::Instead(_, text) | Answer::Plain(text) | Answer::Error(_, text) = &answer
            && !text.is_empty()
        {
            (self.say)(text);
        }
        answer
    }
}

/// `None`: the answer does not belong to the protocol.
fn decode(bytes: &[u8]) -> Option<Answer> {
    let fields = fields(bytes)?;
    let (verb, rest) = fields.split_first()?;
    let text = |at: usize| rest.get(at).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let path = |at: usize| -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(rest.get(at)?));
        path.is_absolute().then(|| path.to_owned())
    };
    let number = |at: usize| text(at)?.parse::<u64>().ok();
    let inode = || Some(Some((number(1)?, number(2)?)).filter(|inode| *inode != (0, 0)));
    Some(match *verb {
        b"stage" => Answer::Stage { id: Id::from_text(&text(0)?)?, path: path(1)?, is_new: text(2)? == "new" },
        b"base" => Answer::Base(path(0)?, inode()?),
        b"at" => Answer::At(path(0)?, inode()?),
        b"instead" => Answer::Instead(path(0)?, text(1)?),
        b"published" => Answer::Published,
        b"plain" => Answer::Plain(text(0)?),
        b"ok" => Answer::Ok,
        b"error" => Answer::Error(text(0)?.parse().ok().filter(|number| *number > 0).unwrap_or(libc::EIO), text(1)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::encode_answer as encode;

    #[test]
    fn answers_come_back_from_their_message() {
        let path = PathBuf::from("/a/b");
        let all = [
            Answer::Stage { id: Id::after(None, 3), path: path.clone(), is_new: true },
            Answer::Base(path.clone(), None),
            Answer::At(path.clone(), None),
            Answer::At(path.clone(), Some((64, 7))),
            Answer::Instead(path, "older".to_owned()),
            Answer::Published,
            Answer::Plain("why".to_owned()),
            Answer::Ok,
            Answer::Error(28, "full".to_owned()),
        ];
        for answer in all {
            let bytes = encode(&answer);
            assert_eq!(decode(&bytes), Some(answer));
            (0..bytes.len()).for_each(|end| assert_eq!(decode(&bytes[..end]), None));
        }
    }
}

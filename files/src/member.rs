//! The part of `mainstay files`: it starts a helper if needed, and at the end waits until all files of its program are
//! durable.

use crate::{
    file::Key,
    file::Named,
    server::{MESSAGE_MAX, fields},
    stage::{Id, Stage},
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use std::{
    ffi::OsStr,
    fs,
    hash::{BuildHasher, RandomState},
    io,
    os::{
        fd::OwnedFd,
        unix::{fs::MetadataExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const START_LIMIT: Duration = Duration::from_secs(30);
const START_AGAIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);
/// A helper may fail because the previous helper is removing the stage.
const FAILURES_MAX: u32 = 10;

/// A process that the helper waits for.
pub struct Member {
    stage: Stage,
    command: PathBuf,
    job: String,
    name: String,
}

/// The lines to print at the end of `mainstay files`.
#[derive(Debug, Default)]
pub struct Finished {
    /// Files that are torn or could not be saved, each with its reason.
    pub failures: Vec<String>,
    /// Other lines, such as those on files of killed jobs.
    pub remarks: Vec<String>,
}

impl Member {
    /// Joins the helper of the stage as a member of `job`; starts the helper with `command` if there is none.
    pub fn join(stage: Stage, command: &Path, job: &str) -> io::Result<Member> {
        let name = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let member = Member { stage, command: command.to_owned(), job: job.to_owned(), name };
        member.ask(format!("member\0{job}\0").as_bytes())?;
        Ok(member)
    }

    pub fn job(&self) -> &str {
        &self.job
    }

    /// The name by which the helper knows the files of this member's programs, in their options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The files that programs of this member have open, a line for each.
    pub fn open_files(&self) -> io::Result<Vec<String>> {
        Ok(finished(&self.ask(format!("open-of\0{}\0", self.name).as_bytes())?).remarks)
    }

    /// Waits until each file of this job, and of killed jobs, is durable or has failed. `has_failed`: the program has failed.
    pub fn finish(&self, has_failed: bool) -> io::Result<Finished> {
        let how = if has_failed { "failed" } else { "" };
        Ok(finished(&self.ask(format!("finish\0{}\0{how}\0", self.job).as_bytes())?))
    }

    pub(crate) fn ask(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        self.ask_after(message, |_| ())
    }

    /// The same. `meet` gets the inode of the helper's socket before the helper gets the message. Each helper has another one.
    pub(crate) fn ask_after(&self, message: &[u8], meet: impl Fn(u64)) -> io::Result<Vec<u8>> {
        let began = Instant::now();
        loop {
            let connection = self.connect(began)?;
            meet(fs::symlink_metadata(self.stage.socket()).map_or(0, |socket| socket.ino()));
            let mut bytes = vec![0; MESSAGE_MAX];
            let sent = send(&connection, message, SendFlags::NOSIGNAL);
            match sent.and_then(|_| recv(&connection, &mut bytes[..], RecvFlags::empty())) {
                Ok((length, _)) if length > 0 => {
                    bytes.truncate(length);
                    return Ok(bytes);
                }
                Err(error @ rustix::io::Errno::MSGSIZE) => return Err(error.into()),
                // The helper was killed, or has just ended: even before the send. The next one takes over.
                Err(rustix::io::Errno::INTR) => {}
                _ if began.elapsed() > START_LIMIT => return Err(gone()),
                _ => thread::sleep(LOOK),
            }
        }
    }

    fn connect(&self, began: Instant) -> io::Result<OwnedFd> {
        let address = SocketAddrUnix::new(self.stage.socket())?;
        let mut started: Option<(Instant, Child)> = None;
        let mut failures = 0;
        loop {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            if connect(&socket, &address).is_ok() {
                started.into_iter().for_each(|(_, helper)| await_end(helper));
                return Ok(socket);
            }
            let status = started.as_mut().and_then(|(_, helper)| helper.try_wait().ok().flatten());
            if let Some(code) = status.and_then(|status| status.code()).filter(|code| *code != 0) {
                failures += 1;
                if failures == FAILURES_MAX {
                    return Err(io::Error::other(format!("its helper ends with exit status {code}")));
                }
                started = None;
            }
            // The previous helper may have removed the stage as it ended.
            if started.as_ref().is_none_or(|(at, _)| at.elapsed() > START_AGAIN) {
                let helper = start_helper(&self.command, self.stage.path())?;
                started.replace((Instant::now(), helper)).into_iter().for_each(|(_, helper)| await_end(helper));
            }
            if began.elapsed() > START_LIMIT {
                return Err(gone());
            }
            thread::sleep(LOOK);
        }
    }
}

/// The lines in an answer of the helper.
pub(crate) fn finished(answer: &[u8]) -> Finished {
    let mut fields = fields(answer).unwrap_or_default().into_iter().map(|line| String::from_utf8_lossy(line));
    let count = fields.nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
    let mut failures: Vec<String> = fields.map(|line| line.into_owned()).collect();
    let remarks = failures.split_off(count.min(failures.len()));
    Finished { failures, remarks }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the helper for files does not answer")
}

/// Starts a helper, in a session of its own: the end of this process does not end it.
fn start_helper(command: &Path, stage: &Path) -> io::Result<Child> {
    let mut helper = Command::new(command);
    helper.arg("files-helper").arg(stage).current_dir("/");
    helper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    for (name, _) in std::env::vars_os() {
        if name == "LD_PRELOAD" || name.as_encoded_bytes().starts_with(b"MAINSTAY_FILES_") {
            helper.env_remove(name);
        }
    }
    helper.spawn()
}

/// The helper ends after this process, or was not needed.
fn await_end(mut helper: Child) {
    thread::spawn(move || helper.wait());
}

/// Whether the stage has files that wait for their names.
pub fn has_staged(stage: &Stage) -> bool {
    stage.ids().is_ok_and(|ids| !ids.is_empty())
}

/// A file on this node that has no name yet.
#[derive(Debug, Clone)]
pub struct StagedFile {
    pub path: PathBuf,
    /// Its program has closed it.
    pub is_whole: bool,
    /// The reason of a failure to save it.
    pub failure: Option<String>,
}

/// The files of `folder` that have no name yet, on this node.
pub fn staged_in(stage: &Stage, folder: &Path) -> io::Result<Vec<StagedFile>> {
    let wanted: Key = Named::in_folder(folder, OsStr::new("x"))?.key;
    let ids: Vec<Id> = stage.ids()?;
    let mut found = Vec::new();
    for id in ids {
        if let Ok(record) = stage.read_record(id)
            && record.named.key.in_same_folder(&wanted)
        {
            let (is_whole, failure) = (stage.is_whole(id), stage.failure(id));
            found.push(StagedFile { path: record.named.path(), is_whole, failure });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{accept, bind, listen};
    use std::cell::Cell;

    fn listener(stage: &Stage) -> OwnedFd {
        let _ = fs::remove_file(stage.socket());
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(stage.socket()).unwrap()).unwrap();
        listen(&socket, 1).unwrap();
        socket
    }

    /// Story: a helper was killed after the connect and before the send. The supervisor passed the call on, so a file that was
    /// closed in order had no name at the end, or `mainstay files` waited for it forever.
    #[test]
    fn a_request_goes_to_the_next_helper_if_one_is_killed_before_the_send() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let stage = Stage::make(Some(&folder.path().join("stage"))).unwrap();
        let killed = Cell::new(Some(listener(&stage)));
        let member = Member { stage, command: PathBuf::new(), job: String::new(), name: String::new() };
        let next = Cell::new(None);
        let answer = member.ask_after(b"x\0", |_| {
            if killed.take().is_none() {
                return;
            }
            let socket = listener(&member.stage);
            next.set(Some(thread::spawn(move || {
                let client = accept(&socket).unwrap();
                let mut bytes = [0; 8];
                let (length, _) = recv(&client, &mut bytes[..], RecvFlags::empty()).unwrap();
                send(&client, &bytes[..length], SendFlags::NOSIGNAL).unwrap();
            })));
        });
        assert_eq!(answer.unwrap(), b"x\0");
        next.take().unwrap().join().unwrap();
    }
}

//! The side of `mainstay files`: it sees to a helper, and at the end waits until all files of its program are durable.

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
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const START_LIMIT: Duration = Duration::from_secs(30);
const START_AGAIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// A process that the helper waits for.
pub struct Member {
    stage: Stage,
    command: PathBuf,
}

/// The end of `mainstay files`.
#[derive(Debug, Default)]
pub struct Finished {
    /// Files that were not saved, or are not whole, each with its reason.
    pub told: Vec<String>,
    /// Files of killed jobs.
    pub remarks: Vec<String>,
}

impl Member {
    /// Joins the helper of the stage; starts it with `command` if there is none.
    pub fn join(stage: Stage, command: &Path) -> io::Result<Member> {
        let member = Member { stage, command: command.to_owned() };
        member.ask(b"member\0")?;
        Ok(member)
    }

    /// Waits until all files are durable, or have failed.
    pub fn finish(&self) -> io::Result<Finished> {
        let answer = self.ask(b"finish\0")?;
        let mut fields = fields(&answer).unwrap_or_default().into_iter().map(|line| String::from_utf8_lossy(line));
        let count = fields.nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
        let mut told: Vec<String> = fields.map(|line| line.into_owned()).collect();
        let remarks = told.split_off(count.min(told.len()));
        Ok(Finished { told, remarks })
    }

    pub(crate) fn ask(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        let began = Instant::now();
        loop {
            let connection = self.connect(began)?;
            send(&connection, message, SendFlags::NOSIGNAL)?;
            let mut bytes = vec![0; MESSAGE_MAX];
            match recv(&connection, &mut bytes[..], RecvFlags::empty()) {
                Ok((length, _)) if length > 0 => {
                    bytes.truncate(length);
                    return Ok(bytes);
                }
                // The helper was killed, or ended at this moment: the next one takes over.
                Err(rustix::io::Errno::INTR) => {}
                _ if began.elapsed() > START_LIMIT => return Err(gone()),
                _ => thread::sleep(LOOK),
            }
        }
    }

    fn connect(&self, began: Instant) -> io::Result<OwnedFd> {
        let address = SocketAddrUnix::new(self.stage.socket())?;
        let mut started: Option<Instant> = None;
        loop {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            if connect(&socket, &address).is_ok() {
                return Ok(socket);
            }
            // A helper that ends at this moment may have removed the stage of the one before.
            if started.is_none_or(|at| at.elapsed() > START_AGAIN) {
                start_helper(&self.command, self.stage.path())?;
                started = Some(Instant::now());
            }
            if began.elapsed() > START_LIMIT {
                return Err(gone());
            }
            thread::sleep(LOOK);
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the helper for files does not answer")
}

/// Starts a helper, in a session of its own: the end of this process does not end it.
fn start_helper(command: &Path, stage: &Path) -> io::Result<()> {
    let mut helper = Command::new(command);
    helper.arg("files-helper").arg(stage).current_dir("/");
    helper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    for (name, _) in std::env::vars_os() {
        if name == "LD_PRELOAD" || name.as_encoded_bytes().starts_with(b"MAINSTAY_FILES_") {
            helper.env_remove(name);
        }
    }
    let mut child = helper.spawn()?;
    // It ends after this process, or was not needed.
    thread::spawn(move || child.wait());
    Ok(())
}

/// Whether the stage has files that wait for their names.
pub fn has_staged(stage: &Stage) -> bool {
    stage.ids().is_ok_and(|ids| !ids.is_empty())
}

/// A file on its way on this node.
#[derive(Debug, Clone)]
pub struct StagedFile {
    pub path: PathBuf,
    /// Its program has closed it.
    pub is_whole: bool,
    /// The reason that it could not be saved.
    pub failure: Option<String>,
}

/// The files of `folder` that are on their way on this node.
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

//! The helper of the node: one process for each user, which answers the preload libraries of all programs.
//!
//! One thread answers, and waits for requests, the ends of processes, and the results of its workers. `mainstay files`
//! starts it, or the library of a program if the helper is gone. It ends by itself once it has no more work.

mod message;

use crate::{
    helper::{Helper, Pid, Request},
    stage::Stage,
    wake::Wake,
};
use message::{encode, parse};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
        listen, recv, send, socket_with, sockopt::socket_peercred,
    },
    process::getuid,
};
use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::Duration,
};

#[cfg(test)]
pub use message::encode as encode_answer;
#[cfg(feature = "fuzzing")]
pub use message::parse as read_request;
pub use message::{MESSAGE_MAX, fields};

/// Time without work after which a helper ends.
const IDLE: Duration = Duration::from_millis(300);
const BACKLOG: i32 = 4096;
const LOCK_TRIES: u32 = 2000;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A connection, with its request once it has arrived.
struct Client {
    connection: OwnedFd,
    request: Option<Request>,
}

/// Closes all descriptors but 0 to 2, as the first step of a helper's process. They belong to the program that started the
/// helper: a launcher learns of the program's end only once its connection closes.
#[allow(unsafe_code)]
pub fn close_inherited() {
    // SAFETY: this process has opened no descriptor of its own yet.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } == 0 {
        return;
    }
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: as above; the list's own descriptor is closed already, so this call fails for it.
        unsafe { libc::close(number) };
    }
}

/// Serves the stage until there is no more work. Returns at once if another process serves it.
pub fn serve(stage: Stage) -> io::Result<()> {
    let Some(_lock) = take_lock(&stage)? else { return Ok(()) };
    let path = stage.socket();
    let _ = fs::remove_file(&path);
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags(), None)?;
    bind(&listener, &SocketAddrUnix::new(&path)?)?;
    let wake = Wake::new()?;
    // It must know the holders of files first: a process that closes a file waits for the socket.
    let mut helper = Helper::start(stage, wake.clone())?;
    listen(&listener, BACKLOG)?;
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let is_needed = helper.is_needed() || !clients.is_empty();
        let patience = if is_needed { helper.next_look() } else { Some(IDLE) };
        let ready = wait(&listener, &wake, &helper, &clients, patience)?;
        wake.clear();
        helper.take_done();
        ready.ended.into_iter().for_each(|process| helper.ended(process));
        while let Ok(connection) = accept_with(&listener, flags()) {
            clients.push(Client { connection, request: None });
        }
        helper.go_on();
        clients.retain_mut(|client| !serve_one(&mut helper, client));
        helper.go_on();
        if !is_needed && ready.was_idle && clients.is_empty() {
            // A process that connects from now on finds no socket, or gets no answer, and starts the next helper.
            helper.end();
            return Ok(());
        }
    }
}

/// `None`: another helper serves. A helper that is about to end has the lock, but no socket any more.
fn take_lock(stage: &Stage) -> io::Result<Option<File>> {
    for _ in 0..LOCK_TRIES {
        if let Some(lock) = stage.lock()? {
            return Ok(Some(lock));
        }
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        if connect(&socket, &SocketAddrUnix::new(stage.socket())?).is_ok() {
            break;
        }
        thread::sleep(LOCK_PAUSE);
    }
    Ok(None)
}

fn flags() -> SocketFlags {
    SocketFlags::CLOEXEC | SocketFlags::NONBLOCK
}

struct Ready {
    ended: Vec<Pid>,
    was_idle: bool,
}

/// Waits for an event.
fn wait(
    listener: &OwnedFd,
    wake: &Wake,
    helper: &Helper,
    clients: &[Client],
    patience: Option<Duration>,
) -> io::Result<Ready> {
    let watched: Vec<(Pid, BorrowedFd<'_>)> = helper.watched().collect();
    let silent = clients.iter().filter(|client| client.request.is_none()).map(|client| client.connection.as_fd());
    let all = [listener.as_fd(), wake.descriptor()].into_iter().chain(watched.iter().map(|(_, fd)| *fd)).chain(silent);
    let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let patience = patience.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
    let count = match poll(&mut fds, patience.as_ref()) {
        Err(rustix::io::Errno::INTR) => 0,
        other => other?,
    };
    let ends = watched.iter().zip(&fds[2..]).filter(|(_, fd)| !fd.revents().is_empty());
    Ok(Ready { ended: ends.map(|((pid, _), _)| *pid).collect(), was_idle: count == 0 })
}

/// Reads the request of a client, and answers it. `true`: the client is done.
fn serve_one(helper: &mut Helper, client: &mut Client) -> bool {
    if client.request.is_none() {
        let mut bytes = vec![0; MESSAGE_MAX];
        let length = match recv(&client.connection, &mut bytes[..], RecvFlags::empty()) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return false,
            Ok((length, _)) if length > 0 => length,
            // The client is gone, or only asked if a helper is here.
            _ => return true,
        };
        let Ok(peer) = socket_peercred(&client.connection) else { return true };
        if peer.uid != getuid() {
            return true;
        }
        let Some(verb) = parse(&bytes[..length]) else { return true };
        client.request = Some(Request::new(peer.pid.as_raw_nonzero().get(), verb));
    }
    let Some(request) = &mut client.request else { return false };
    let Some(answer) = helper.answer(request) else { return false };
    let _ = send(&client.connection, &encode(&answer), SendFlags::NOSIGNAL);
    true
}

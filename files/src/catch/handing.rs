//! The program's side before its start: it installs the filter, and hands the listener to the supervisor.

use super::{
    filter,
    listener::{self, Listener},
};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
    process::{Signal, set_parent_process_death_signal},
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
};

/// The supervisor's end of the socket for the listener.
pub struct Handing(OwnedFd);

#[allow(unsafe_code)]
pub fn arm(command: &mut Command) -> io::Result<Handing> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let program = filter::program();
    let begin = move || {
        // Without the supervisor each call of the program with a name would fail, and even its exit.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let listener = filter::install(&program)?;
        check(listener.as_fd())?;
        hand_over(theirs.as_fd(), listener.as_fd())
    };
    // SAFETY: between fork and exec the closure makes system calls only. It allocates nothing and takes no lock.
    unsafe { command.pre_exec(begin) };
    Ok(Handing(ours))
}

/// Fails with EINVAL if the kernel cannot give descriptors.
fn check(listener: BorrowedFd<'_>) -> io::Result<()> {
    match listener::give(listener, 0, listener, false) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other.map(drop),
    }
}

fn hand_over(to: BorrowedFd<'_>, listener: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let listeners = [listener];
    rights.push(SendAncillaryMessage::ScmRights(&listeners));
    sendmsg(to, &[IoSlice::new(b"l")], &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

impl Handing {
    /// Waits for the listener. `None`: the program was not started.
    pub fn receive(&self) -> io::Result<Option<Listener>> {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut rights, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => break,
            }
        }
        let listeners = rights.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut received) => received.next(),
            _ => None,
        });
        Ok(listeners.last().map(Listener::new))
    }
}

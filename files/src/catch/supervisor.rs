//! The supervisor: arms the program, and answers its calls one by one.

use super::{
    asking::Asker,
    caller::Caller,
    calls::{self, Call},
    handing::{self, Handing},
    listener::{Listener, Notice},
};
use crate::{member::Member, names::Patterns, options::Options, stage::Stage};
use std::{io, process::Command};

/// The files to catch, and the function that prints a line.
pub struct Wanted {
    pub stage: Stage,
    pub matches: Vec<String>,
    pub exclude: Vec<String>,
    pub options: Options,
    pub say: fn(&str),
}

/// A program before its start under the filter.
pub struct Catch(Handing);

/// The end of the supervisor's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// The filter could not be installed, so the program was not started.
    Never,
    /// All processes under the filter have ended.
    ToTheEnd,
}

impl Catch {
    /// Arms `command`: its program starts under the filter, and is killed if the thread that starts it ends. If the
    /// filter fails, `spawn` fails with the error of the system.
    pub fn arm(command: &mut Command) -> io::Result<Catch> {
        handing::arm(command).map(Catch)
    }

    /// Answers the calls until all processes under the filter have ended. `command` must be dropped after its start: until
    /// then this waits for a program that could not be started.
    pub fn serve(self, member: &Member, wanted: &Wanted) -> io::Result<Served> {
        let Some(listener) = self.0.receive()? else { return Ok(Served::Never) };
        let patterns = Patterns::new(&wanted.matches, &wanted.exclude, wanted.stage.path());
        let asker = Asker::new(member, &wanted.stage, wanted.options.to_text(), wanted.say);
        let mut supervisor = Supervisor { listener, patterns, asker, wanted, is_closed_to_us: false };
        while let Some(notice) = supervisor.listener.receive()? {
            supervisor.answer(&notice);
        }
        Ok(Served::ToTheEnd)
    }
}

pub struct Supervisor<'a> {
    pub(super) listener: Listener,
    pub(super) patterns: Patterns,
    pub(super) asker: Asker<'a>,
    pub(super) wanted: &'a Wanted,
    /// The supervisor cannot read the memory of a process.
    is_closed_to_us: bool,
}

/// The answer to a call.
pub enum Reply {
    /// The kernel does the call unchanged.
    Pass,
    Done(Result<i64, i32>),
    /// The caller has its answer already.
    Sent,
}

impl Supervisor<'_> {
    pub(super) fn answer(&mut self, notice: &Notice) {
        let caller = match Caller::of(notice, &self.listener) {
            Ok(Some(caller)) => caller,
            // The caller is gone, and needs no answer.
            Ok(None) => return,
            Err(error) => return self.pass_blindly(notice, &error),
        };
        let reply = match calls::read(notice) {
            Call::Open { spot, flags, mode } => self.open(notice, &caller, spot, flags, mode),
            Call::OpenHow { spot, how } => self.open_how(notice, &caller, spot, how),
            Call::Look { spot, follows, look } => self.look(&caller, spot, follows, look),
            Call::Change { spot, follows, change } => self.change(&caller, spot, follows, change),
            Call::Rename { from, to, flags } => self.rename(&caller, from, to, flags),
            Call::Link { from, to, follows } => self.link(&caller, from, to, follows),
            Call::Unlink { spot } => self.unlink(&caller, spot),
            Call::Fork { is_thread_at } => self.fork(notice, &caller, is_thread_at),
            Call::Exit { status, of_thread } => self.exit(&caller, status, of_thread),
            Call::Other => Reply::Pass,
        };
        match reply {
            Reply::Pass => self.listener.pass(notice),
            Reply::Done(result) => self.listener.answer(notice, result),
            Reply::Sent => {}
        }
    }

    /// Lets the kernel do a call of a program whose memory is unreadable: the program has more rights, or the system forbids
    /// it.
    fn pass_blindly(&mut self, notice: &Notice, error: &io::Error) {
        if !std::mem::replace(&mut self.is_closed_to_us, true) {
            (self.wanted.say)(&format!(
                "the memory of process {} cannot be read ({error}), so its files are not protected; \
                 kernel.yama.ptrace_scope must be 0 or 1",
                notice.task
            ));
        }
        self.listener.pass(notice);
    }
}

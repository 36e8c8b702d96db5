//! What adapters of a group, such as `mainstay_mpi.h`, ask of the library; programs have no use for it.

use crate::{
    argument::null as null_pointer,
    error::{Status, guard},
    options::{Options, RecoveryCode},
    session::{Session, session_of},
};
use mainstay_engine::{Recovery, group};
use std::{
    env,
    ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    ptr::{null, null_mut},
    sync::LazyLock,
};

/// For adapters: the context of the table that the session uses now, which is another one after a recovery. NULL where
/// the session is NULL or has no table, and where a recovery has failed.
///
/// # Safety
/// `session` is null or came from mainstay_open and was not closed.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_group_context(session: *mut Session) -> *mut c_void {
    // SAFETY: as the caller promised.
    unsafe { session_of(session) }.map_or(null_mut(), |session| session.context.get())
}

/// For adapters: what an opening with `options`, which may be NULL, will find set for `recovery`, as a mainstay_recovery,
/// and for `spares`. Local: ranks whose settings differ are told so by the opening.
///
/// # Safety
/// `options` has as many bytes as it says; `recovery` and `spares` point to numbers.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_recovery_settings(
    options: *const Options,
    recovery: *mut u32,
    spares: *mut u32,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (recovery, spares) = unsafe { (recovery.as_mut(), spares.as_mut()) };
        let (recovery, spares) = recovery.zip(spares).ok_or_else(|| null_pointer("recovery or spares"))?;
        // SAFETY: as the caller promised.
        let config = unsafe { Options::config(options) }?;
        let code = match config.recovery {
            Recovery::Off => RecoveryCode::Off,
            Recovery::Replace => RecoveryCode::Replace,
            Recovery::Shrink => RecoveryCode::Shrink,
        };
        (*recovery, *spares) = (code as u32, config.spares);
        Ok(())
    })
}

/// A process of a job, as others on its machine know it: this very one, and no other that gets its number later.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Process {
    /// The same where numbers of processes mean the same: a machine, or a container of it.
    pub host: u64,
    pub pid: u64,
    /// When it was started, in ticks since the machine was.
    pub start: u64,
}

impl From<Process> for group::Process {
    fn from(Process { host, pid, start }: Process) -> group::Process {
        group::Process { host, pid, start }
    }
}

/// Processes that are being started.
pub struct Launch {
    start: group::Start,
    words: Option<Texts>,
}

/// A call of MPI that is watched.
pub struct Watch {
    _watch: group::Watch,
}

/// For adapters: this process, as others on its machine know it.
///
/// # Safety
/// `here` points to room for it.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_process_here(here: *mut Process) {
    // SAFETY: null or as the caller promised.
    if let Some(here) = unsafe { here.as_mut() } {
        let group::Process { host, pid, start } = group::Process::here();
        *here = Process { host, pid, start };
    }
}

/// For adapters: kills a process that hangs, if it is on this machine, and waits until it is gone. 1: it is gone, or was
/// never here; 0: it is still there after ten seconds.
///
/// # Safety
/// `process` is null, or was filled in by mainstay_process_here, here or in another process.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_process_end(process: *const Process) -> c_int {
    // SAFETY: null or as the caller promised.
    unsafe { process.as_ref() }.is_none_or(|process| group::Process::from(*process).end()).into()
}

/// For adapters: ends the processes on this machine that were started by who started this one, and have `variable`
/// ("NAME=value") in their environment, but for the `count` in `kept`: those that were to take part in the job, and came too
/// late.
///
/// # Safety
/// `variable` ends with a zero byte; `kept` points to as many as `count` says.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_process_end_siblings(variable: *const c_char, kept: *const Process, count: usize) {
    if variable.is_null() || (kept.is_null() && count > 0) {
        return;
    }
    // SAFETY: as the caller promised.
    let kept = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(kept, count) } };
    let kept: Vec<_> = kept.iter().map(|process| group::Process::from(*process)).collect();
    // SAFETY: as the caller promised.
    if let Ok(variable) = unsafe { CStr::from_ptr(variable) }.to_str() {
        group::Process::end_siblings(variable, &kept);
    }
}

/// For adapters: from now on a write into a connection that the other side has closed fails (EPIPE), and does not end this
/// process by SIGPIPE, unless the program has said itself what that signal does. Local; once is enough.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_process_outlive_connections() {
    group::Process::outlive_connections();
}

/// For adapters: ends this process, with a line on standard error that says `doing`, unless the watch is ended within so many
/// seconds: in place of a call of MPI that may never come back. NULL: there is no thread for it.
///
/// # Safety
/// `doing` is null or ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_process_watch(seconds: u32, doing: *const c_char) -> *mut Watch {
    let doing = if doing.is_null() {
        String::new()
    } else {
        // SAFETY: as the caller promised.
        unsafe { CStr::from_ptr(doing) }.to_string_lossy().into_owned()
    };
    group::Watch::begin(seconds, &doing).map_or(null_mut(), |watch| Box::into_raw(Box::new(Watch { _watch: watch })))
}

/// For adapters: ends a watch; NULL is none.
///
/// # Safety
/// `watch` came from mainstay_process_watch, and was not ended.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_process_unwatch(watch: *mut Watch) {
    if !watch.is_null() {
        // SAFETY: as the caller promised.
        drop(unsafe { Box::from_raw(watch) });
    }
}

/// For adapters: begins to start processes in the places of others. Until mainstay_launch_is_through this process is ended, with
/// a line on standard error, when one of them ends on its node: MPI would wait for it for ever. To be ended.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_launch_begin() -> *mut Launch {
    let start = group::Start::begin();
    let command = COMMAND.as_ref().map(|command| command.texts.iter().map(|text| OsStr::from_bytes(text.to_bytes())));
    let words = command.and_then(|command| Texts::new(start.words(command.map(OsStr::to_owned))));
    Box::into_raw(Box::new(Launch { start, words }))
}

/// For adapters: the words of a command that starts another process as mainstay_process_command does, and whose end is
/// noticed. NULL: the system does not tell. Valid until mainstay_launch_end.
///
/// # Safety
/// `start` came from mainstay_launch_begin, and was not ended.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_launch_command(start: *const Launch) -> *const *const c_char {
    // SAFETY: as the caller promised.
    let words = unsafe { start.as_ref() }.and_then(|start| start.words.as_ref());
    words.map_or(null(), |words| words.pointers.as_ptr())
}

/// For adapters: MPI has the processes. From now on the end of one ends nobody.
///
/// # Safety
/// `start` came from mainstay_launch_begin, and was not ended.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_launch_is_through(start: *const Launch) {
    // SAFETY: as the caller promised.
    if let Some(start) = unsafe { start.as_ref() } {
        start.start.is_through();
    }
}

/// For adapters: whether one of the processes has ended on this node.
///
/// # Safety
/// `start` came from mainstay_launch_begin, and was not ended.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_launch_has_lost(start: *const Launch) -> c_int {
    // SAFETY: as the caller promised.
    unsafe { start.as_ref() }.is_some_and(|start| start.start.has_lost()).into()
}

/// For adapters: the processes have come, or are given up; NULL is none.
///
/// # Safety
/// `start` came from mainstay_launch_begin, and was not ended.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_launch_end(start: *mut Launch) {
    if !start.is_null() {
        // SAFETY: as the caller promised.
        drop(unsafe { Box::from_raw(start) });
    }
}

/// The words that start another process of this program, as they are at the first look.
static COMMAND: LazyLock<Option<Texts>> = LazyLock::new(|| {
    let program = env::current_exe().ok()?.into_os_string();
    Texts::new(group::successor(std::iter::once(program).chain(env::args_os().skip(1))))
});

/// A list of texts for C.
struct Texts {
    /// What the pointers lead to.
    texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Texts {
    /// Ended by NULL. `None`: one of them holds a zero byte.
    fn new(words: Vec<OsString>) -> Option<Texts> {
        let texts: Vec<CString> =
            words.into_iter().map(|word| CString::new(word.as_bytes()).ok()).collect::<Option<_>>()?;
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([null()]).collect();
        Some(Texts { texts, pointers })
    }
}

// SAFETY: they are only read, and the texts stay where they are.
#[allow(unsafe_code)]
unsafe impl Send for Texts {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Texts {}

/// For adapters: how to start another process in the place of one that has failed: the words of a command, ended by NULL. They
/// are the path of this program and its arguments, after `/usr/bin/env` with the variables that the other needs and would not
/// have from the launcher. NULL: the system does not tell. Valid until the process ends.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_process_command() -> *const *const c_char {
    COMMAND.as_ref().map_or(null(), |command| command.pointers.as_ptr())
}

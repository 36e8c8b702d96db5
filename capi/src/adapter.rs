//! Functions for adapters of a group, such as `mainstay_mpi.h`; programs do not need them.

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

/// For adapters: the context of the table that the session uses now, which changes with a recovery. NULL if the
/// session is NULL or has no table, or if a recovery has failed.
///
/// # Safety
/// `session` is null or came from mainstay_open and was not closed.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_group_context(session: *mut Session) -> *mut c_void {
    // SAFETY: as the caller promised.
    unsafe { session_of(session) }.map_or(null_mut(), |session| session.context.get())
}

/// For adapters: the settings `recovery`, as a mainstay_recovery, and `spares` that an opening with `options` will
/// use. `options` may be NULL. Local: if the settings of ranks differ, the opening reports it.
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

/// Identifies a process of a job to other processes on its machine, even if its number is used again later.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Process {
    /// Equal for processes that share process numbers: those of a machine, or of one container.
    pub host: u64,
    pub pid: u64,
    /// Start time of the process, in ticks since the machine started.
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

/// A watched call of MPI.
pub struct Watch {
    _watch: group::Watch,
}

/// For adapters: identifies this process to others on its machine.
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

/// For adapters: kills a hanging process, if it is on this machine, and waits until it is gone. 1: it is gone, or was
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

/// For adapters: ends replacement processes that came too late. These are the processes on this machine that this
/// process's parent started, and that have `variable` ("NAME=value") in their environment. The `count` processes in
/// `kept` stay.
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

/// For adapters: makes a write into a closed connection fail with EPIPE, instead of ending this process by SIGPIPE.
/// It changes nothing if the program has set the action of that signal. Local. One call is enough.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_process_outlive_connections() {
    group::Process::outlive_connections();
}

/// For adapters: ends this process unless the watch is ended within the given number of seconds. The line on standard
/// error contains `doing`. Use it around a call of MPI that may never return. NULL: there is no thread for the watch.
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

/// For adapters: ends a watch; NULL does nothing.
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

/// For adapters: begins to start replacement processes. If one of them ends on its node before
/// mainstay_launch_is_through, this process ends with a line on standard error: MPI would wait for it forever. The
/// caller must end the launch.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_launch_begin() -> *mut Launch {
    let start = group::Start::begin();
    let command = COMMAND.as_ref().map(|command| command.texts.iter().map(|text| OsStr::from_bytes(text.to_bytes())));
    let words = command.and_then(|command| Texts::new(start.words(command.map(OsStr::to_owned))));
    Box::into_raw(Box::new(Launch { start, words }))
}

/// For adapters: the words of a command that starts another process like mainstay_process_command, and lets this
/// process notice its end. NULL: the system does not provide the path of the program. Valid until
/// mainstay_launch_end.
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

/// For adapters: MPI has the processes. From now on the end of one ends no other process.
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

/// For adapters: ends the launch, because the processes have come or are abandoned; NULL does nothing.
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

/// The command that starts another process of this program, as found at the first call.
static COMMAND: LazyLock<Option<Texts>> = LazyLock::new(|| {
    let program = env::current_exe().ok()?.into_os_string();
    Texts::new(group::successor(std::iter::once(program).chain(env::args_os().skip(1))))
});

/// A list of texts for C.
struct Texts {
    /// The texts that the pointers point to.
    texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Texts {
    /// Adds a final NULL. `None`: one of the words contains a zero byte.
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

/// For adapters: the command that starts a process to replace a failed one, as words that end with NULL. These are
/// `/usr/bin/env` with the variables that the launcher would not pass on, and the path of this program with its
/// arguments. NULL: the system does not provide them. Valid until the process ends.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_process_command() -> *const *const c_char {
    COMMAND.as_ref().map_or(null(), |command| command.pointers.as_ptr())
}

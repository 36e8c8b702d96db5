//! Going on after ranks have failed.

use crate::{
    argument::null,
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::{Error, ErrorKind, Failing, Stepped};
use std::ffi::{c_int, c_void};

/// Goes on without the ranks that have failed: called on every rank that is left after MAINSTAY_GROUP_FAILED, or after an
/// error of the program's own messages, wherever each rank was. Collective. The setting `recovery` says how: `replace`
/// puts others into the places of those that failed, `shrink` goes on with fewer ranks. What is protected stays
/// protected, a checkpoint that was begun is given up, and the communicator of mainstay_mpi_comm is a new one.
/// mainstay_restore comes next, on all ranks; after a change of the number of ranks, protect first what each has now.
/// Ranks that fail meanwhile begin the recovery again.
///
/// MAINSTAY_INVALID_ARGUMENT, by which the session stays as it was: `recovery` is off, or this MPI cannot. After another
/// error the session is over, and nothing but mainstay_close is left: the job is to be started again.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_recover(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.recover().map(drop))
}

/// Whether ranks have failed as far as this rank knows: MAINSTAY_GROUP_FAILED. Local, never waits; for programs that do
/// not look at what their own messages come to. MAINSTAY_OK where `recovery` is off.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_check(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.check())
}

/// An error of a callback's, or of the engine.
enum Stop {
    Engine(Error),
    /// What the callback returned. The message of the call that said so is there already.
    Told(c_int),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Engine(error)
    }
}

impl Failing for Stop {
    fn is_of_group(&self) -> bool {
        match self {
            Stop::Engine(error) => error.kind() == ErrorKind::GroupFailed,
            Stop::Told(status) => *status == Status::GroupFailed as c_int,
        }
    }
}

impl Stop {
    fn of(status: c_int) -> Result<(), Stop> {
        if status == Status::Ok as c_int { Ok(()) } else { Err(Stop::Told(status)) }
    }
}

/// Runs a program as steps, from the newest complete revision if there is one, and through failures of ranks. Collective.
///
/// `layout` makes the program ready on the ranks that there are (mainstay_mpi_comm), with the values that it begins with,
/// and protects what is to be saved. It is called at the beginning and after each failure, with nothing protected: what
/// an earlier call of it took is the program's to free. `step` does the step of this number, from 0 on; where there is
/// no such step any more, it does nothing and puts 1 into `*over`, on all ranks alike. A checkpoint is taken after a
/// step when one is due, as mainstay_due says by the settings (`every_steps`, …). Each revision that comes back is told in a
/// line on standard error, with the number of its steps. Returns when the last revision is complete.
///
/// Both return MAINSTAY_OK (0), or the status of a call that failed: after MAINSTAY_GROUP_FAILED, by which an error of MPI is
/// to be told, too, all ranks recover, are laid out, go back to the newest complete revision and go on; another status
/// ends the run, and is returned. A step whose messages failed need not tell: it is looked for after each step. The
/// region `mainstay_steps` counts the steps that are done: in a checkpoint or put that a step takes itself those before it. After
/// the last step it stays protected, so that a checkpoint of the program's own saves the end. With `recovery` off, a failure is
/// returned.
///
/// # Safety
/// `session` is open; both are functions, which get `context`, and what `layout` protects is valid until it is called
/// again, or this returns.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_run(
    session: *mut Session,
    layout: Option<unsafe extern "C" fn(session: *mut Session, context: *mut c_void) -> c_int>,
    step: Option<
        unsafe extern "C" fn(session: *mut Session, step: u64, over: *mut c_int, context: *mut c_void) -> c_int,
    >,
    context: *mut c_void,
) -> Status {
    let run = || {
        // SAFETY: the caller's promises are passed on.
        let session = unsafe { session_of(session) }?;
        let (layout, step) = (layout.ok_or_else(|| null("layout"))?, step.ok_or_else(|| null("step"))?);
        // SAFETY: as the caller promised.
        let layout = |session: &mut Session| Stop::of(unsafe { layout(session, context) });
        let step = |session: &mut Session, number: u64| {
            let mut over = 0;
            // SAFETY: as the caller promised.
            Stop::of(unsafe { step(session, number, &mut over, context) })?;
            Ok(if over == 0 { Stepped::Done } else { Stepped::Over })
        };
        mainstay_engine::run(session, layout, Session::keep, step).map(drop)
    };
    let mut told = Status::Ok;
    let status = guard(|| match run() {
        Ok(()) => Ok(()),
        Err(Stop::Engine(error)) => Err(error),
        Err(Stop::Told(status)) => {
            let kind = usize::try_from(status).ok().and_then(|number| ErrorKind::ALL.get(number.wrapping_sub(1)));
            told = (*kind.ok_or_else(|| no_status(status))?).into();
            Ok(())
        }
    });
    if status == Status::Ok { told } else { status }
}

fn no_status(told: c_int) -> Error {
    Error::argument("layout or step", format!("it returned {told}, which is no mainstay_status"))
}

impl AsMut<mainstay_engine::Session> for Session {
    fn as_mut(&mut self) -> &mut mainstay_engine::Session {
        &mut self.engine
    }
}

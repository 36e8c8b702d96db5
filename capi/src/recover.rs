//! Recovery after ranks have failed.

use crate::{
    argument::null,
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::{Error, ErrorKind, StepError, StepOutcome};
use std::ffi::{c_int, c_void};

/// Goes on without the failed ranks. Every surviving rank calls it after MAINSTAY_GROUP_FAILED, or after an error of
/// the program's own messages, wherever the rank was. Collective. The setting `recovery` chooses the way: `replace`
/// puts other processes into the places of the failed ranks, `shrink` goes on with fewer ranks. Regions stay
/// protected. A checkpoint that has begun is abandoned. mainstay_mpi_comm returns a new communicator. Call
/// mainstay_restore next, on all ranks. If the number of ranks has changed, first protect the regions that each rank
/// has now. If ranks fail meanwhile, the recovery starts again.
///
/// MAINSTAY_INVALID_ARGUMENT: `recovery` is off, or this MPI does not support it; the session stays as it was. After
/// another error the session is over, and only mainstay_close is left: restart the job.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_recover(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.recover().map(drop))
}

/// Reports failed ranks that this rank knows of: MAINSTAY_GROUP_FAILED. Local, never waits. For programs that ignore
/// the errors of their own messages. MAINSTAY_OK if `recovery` is off.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_check(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.check())
}

/// An error of a callback, or of the engine.
enum Stop {
    Engine(Error),
    /// The status that the callback returned. The failed call has set the message already.
    Told(c_int),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Engine(error)
    }
}

impl StepError for Stop {
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

/// Runs a program as steps, from the newest complete revision if there is one, and through failures of ranks.
/// Collective.
///
/// `layout` prepares the program on the present ranks (mainstay_mpi_comm), with its initial values, and protects the
/// state. Mainstay calls it at the beginning and after each failure, with nothing protected. The program frees the
/// memory of an earlier call itself. `step` does the step of this number, from 0 on. If there is no such step any
/// more, it does nothing and puts 1 into `*over`, on all ranks alike. A checkpoint follows a step when one is due, as
/// in mainstay_due, by the settings (`every_steps`, …). For each restored revision, a line on standard error gives
/// the number of its steps. Returns when the last revision is complete.
///
/// Both callbacks return MAINSTAY_OK (0), or the status of a failed call. Return MAINSTAY_GROUP_FAILED for an error
/// of MPI, too. After it, all ranks recover, call `layout`, restore the newest complete revision and go on. Another
/// status ends the run, and is returned. A step need not report failed messages: Mainstay checks for failed ranks
/// after each step. The region `mainstay_steps` counts the finished steps. In a checkpoint or put of the step itself
/// it counts the steps before this one. After the last step it stays protected, so that the program's own checkpoint
/// saves the end. With `recovery` off, a failure is returned.
///
/// # Safety
/// `session` is open; both are functions, which get `context`, and the memory that `layout` protects is valid until
/// the next call of `layout`, or until this returns.
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
            Ok(if over == 0 { StepOutcome::Done } else { StepOutcome::Over })
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

//! Ranks in slots, for the host program: `mainstay_ranks.h`.

use crate::{
    argument::null,
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::{Error, Result};
use mainstay_ranks::{Ended, Options, Reserved, Wire, run};
use std::{
    ffi::{CStr, OsStr, OsString, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    ptr, slice,
};

/// Transport between the hosts. Each function returns 0, or the class of an error, after which the hosts recover, or
/// end. `capi/mpi/mainstay_ranks.c` fills it in.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RanksWire {
    /// sizeof(mainstay_ranks_wire).
    pub size: usize,
    /// Passed to each function.
    pub context: *mut c_void,
    /// This process, and the number of processes; both may change in a recovery.
    pub processes: Option<unsafe extern "C" fn(context: *mut c_void, process: *mut u32, processes: *mut u32) -> c_int>,
    /// Sends a message of two parts to a process. Keeps a copy, and does not wait. Messages to a process stay in order.
    pub send: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            to: u32,
            head: *const c_void,
            head_bytes: usize,
            body: *const c_void,
            body_bytes: usize,
        ) -> c_int,
    >,
    /// Takes a message that has arrived, and does not wait: `*data` becomes NULL if there is none. The bytes stay until
    /// the next call.
    pub receive: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            from: *mut u32,
            data: *mut *const c_void,
            bytes: *mut usize,
        ) -> c_int,
    >,
    /// Adds up `count` words of all processes. Collective.
    pub sum: Option<unsafe extern "C" fn(context: *mut c_void, words: *mut u64, count: usize) -> c_int>,
    /// Called once, when the job has ended; may be NULL.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

/// A table that has all its functions.
struct HostWire(RanksWire);

fn reached(code: c_int, doing: &str) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::GroupFailed { what: format!("ranks in slots: {doing} (class {code})") }) }
}

#[allow(unsafe_code)]
impl HostWire {
    fn place(&self) -> (usize, usize) {
        let (mut process, mut processes) = (0, 1);
        // SAFETY: both are ours to be filled.
        let code = self.0.processes.map(|tells| unsafe { tells(self.0.context, &mut process, &mut processes) });
        // If the place is unknown, the next call that needs others fails.
        if code == Some(0) && process < processes { (process as usize, processes as usize) } else { (0, 1) }
    }
}

#[allow(unsafe_code)]
impl Wire for HostWire {
    fn process(&self) -> usize {
        self.place().0
    }

    fn processes(&self) -> usize {
        self.place().1
    }

    fn send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<()> {
        let send = self.0.send.ok_or_else(|| null("send"))?;
        let (head_at, body_at) = (head.as_ptr().cast(), body.as_ptr().cast());
        // SAFETY: pointers and lengths are those of the slices.
        reached(unsafe { send(self.0.context, to as u32, head_at, head.len(), body_at, body.len()) }, "sending")
    }

    fn receive(&mut self, takes: &mut dyn FnMut(usize, &[u8])) -> Result<bool> {
        let receive = self.0.receive.ok_or_else(|| null("receive"))?;
        let (mut from, mut data, mut bytes) = (0, ptr::null(), 0);
        // SAFETY: all three are ours to be filled.
        reached(unsafe { receive(self.0.context, &mut from, &mut data, &mut bytes) }, "receiving")?;
        if data.is_null() {
            return Ok(false);
        }
        // SAFETY: the table promises that the bytes stay until its next call.
        takes(from as usize, unsafe { slice::from_raw_parts(data.cast(), bytes) });
        Ok(true)
    }

    fn sum(&mut self, words: &mut [u64]) -> Result<()> {
        let sum = self.0.sum.ok_or_else(|| null("sum"))?;
        // SAFETY: pointer and length are those of the slice.
        reached(unsafe { sum(self.0.context, words.as_mut_ptr(), words.len()) }, "adding up")
    }
}

impl Drop for HostWire {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: called once, with the context of the table.
            unsafe { release(self.0.context) }
        }
    }
}

/// Takes the addresses of all slots. Call it first, before MPI_Init, which may load libraries anywhere.
/// MAINSTAY_INVALID_ARGUMENT: ranks in slots cannot run on this machine; the message says why.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_ranks_reserve() -> Status {
    guard(|| Reserved::new().map(drop).map_err(as_argument))
}

/// Runs the program `arguments[0]` in slots, from the newest revision of the session's space, or from its beginning,
/// until it ends. `ranks`: their number; 0: as many as processes. `balance`: STRATEGY:SECONDS, how and how often ranks
/// move for an even load; NULL: never. `with_libraries`: not 0 to save the files that ranks map, too. `library`: the folder of the MPI library for ranks.
/// `arguments` ends with NULL. `*code` becomes the exit code, and `*aborted` 1 if a rank has ended the job while others
/// run: then end the processes with MPI_Abort. The call takes over the table. Afterwards close the session and end.
/// Collective.
///
/// # Safety
/// `session` is open; the table is filled in; `balance`, `library` and the arguments are strings; `code` and `aborted` point to
/// room for them.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_ranks_run(
    session: *mut Session,
    wire: *const RanksWire,
    ranks: u32,
    balance: *const c_char,
    with_libraries: c_int,
    library: *const c_char,
    arguments: *const *const c_char,
    code: *mut c_int,
    aborted: *mut c_int,
) -> Status {
    guard(|| {
        // SAFETY: null or as the caller promised.
        let (wire, code, aborted) = unsafe { (wire.as_ref(), code.as_mut(), aborted.as_mut()) };
        let wire = HostWire(*wire.ok_or_else(|| null("wire"))?);
        if wire.0.size != size_of::<RanksWire>() {
            let why = format!("{} bytes; compile with this version's headers", wire.0.size);
            return Err(Error::argument("wire", why));
        }
        let (code, aborted) = (code.ok_or_else(|| null("code"))?, aborted.ok_or_else(|| null("aborted"))?);
        // SAFETY: as the caller promised.
        let (engine, options) = unsafe {
            let options = Options {
                ranks: ranks as usize,
                balance: text(balance).map(|text| text.to_string_lossy().parse()).transpose().map_err(as_argument)?,
                with_libraries: with_libraries != 0,
                library: text(library).ok_or_else(|| null("library"))?.into(),
                program: all(arguments),
            };
            (&mut session_of(session)?.engine, options)
        };
        match run(engine, Box::new(wire), &options).map_err(as_argument)? {
            Ended::Whole(value) => (*code, *aborted) = (value, 0),
            Ended::Aborted(value) => (*code, *aborted) = (value, 1),
        }
        Ok(())
    })
}

fn as_argument(error: mainstay_ranks::Error) -> Error {
    match error {
        mainstay_ranks::Error::Engine(error) => error,
        mainstay_ranks::Error::Refused(why) => Error::argument("ranks", why),
    }
}

/// # Safety
/// `text` is null or ends with a zero byte.
#[allow(unsafe_code)]
unsafe fn text(text: *const c_char) -> Option<OsString> {
    // SAFETY: as the caller promised.
    (!text.is_null()).then(|| OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()).to_owned())
}

/// # Safety
/// `texts` is null, or points to strings of which the last is null.
#[allow(unsafe_code)]
unsafe fn all(mut texts: *const *const c_char) -> Vec<OsString> {
    let mut found = Vec::new();
    if texts.is_null() {
        return found;
    }
    // SAFETY: as the caller promised.
    unsafe {
        while let Some(one) = text(*texts) {
            found.push(one);
            texts = texts.add(1);
        }
    }
    found
}

//! The ranks of a job, as a table of functions from the MPI shim.

use crate::argument::null;
use mainstay_engine::{
    Error, Result,
    group::{Divided, Group, Incoming, Message, Outgoing, RANKS_MAX, Tested, broadcast_sized, gather_padded},
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    ffi::{CStr, c_char, c_int, c_void},
    mem::{forget, offset_of, take},
    ptr::null_mut,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Collectives of the ranks, and messages between two. Only the thread that calls the session calls them. Each
/// returns 0, or the class of the error. `mainstay_open_mpi` fills the table in. You can fill in your own for another
/// transport than MPI.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct GroupTable {
    /// sizeof(mainstay_group).
    pub size: usize,
    /// Passed to each function.
    pub context: *mut c_void,
    pub rank: u32,
    pub ranks: u32,
    /// Number of ranks on this rank's node, including this one; 0: unknown, and each rank counts as a node of its
    /// own.
    pub ranks_here: u32,
    /// Element-wise maximum over all ranks, in place.
    pub all_max: Option<unsafe extern "C" fn(context: *mut c_void, values: *mut u64, count: usize) -> c_int>,
    /// `bytes` bytes of each rank, in the order of ranks, into `all`.
    pub all_gather: Option<
        unsafe extern "C" fn(context: *mut c_void, mine: *const c_void, all: *mut c_void, bytes: usize) -> c_int,
    >,
    /// `bytes` bytes of `root` to all.
    pub broadcast:
        Option<unsafe extern "C" fn(context: *mut c_void, root: u32, data: *mut c_void, bytes: usize) -> c_int>,
    /// Writes the meaning of an error class into `text` of `bytes` bytes.
    pub explain: Option<unsafe extern "C" fn(context: *mut c_void, code: c_int, text: *mut c_char, bytes: usize)>,
    /// Ends the group. Called once, at the end of the session, or if the opening fails.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Starts to send `bytes` bytes to rank `to`. They stay unchanged until `test` reports `message` as finished.
    /// Between two ranks messages arrive in the order in which they were started. NULL, together with `start_receive`
    /// and `test`: the ranks cannot start messages.
    pub start_send: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            to: u32,
            data: *const c_void,
            bytes: usize,
            message: *mut *mut c_void,
        ) -> c_int,
    >,
    /// Starts to receive the bytes that rank `from` starts to send. The caller reads them once `message` is finished.
    pub start_receive: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            from: u32,
            data: *mut c_void,
            bytes: usize,
            message: *mut *mut c_void,
        ) -> c_int,
    >,
    /// Puts into `through` whether `message` is finished; does not wait. After that, and after an error, the message
    /// no longer exists, and its memory is not touched.
    pub test: Option<unsafe extern "C" fn(context: *mut c_void, message: *mut c_void, through: *mut c_int) -> c_int>,
    /// Puts the ranks that this rank knows to have failed into `failed`, which has room for all ranks, and their
    /// number into `count`. NULL, together with `shrink`: a failing rank ends the job.
    pub failed: Option<unsafe extern "C" fn(context: *mut c_void, failed: *mut u32, count: *mut u32) -> c_int>,
    /// Makes a group of the ranks that have not failed, in their old order, in `survivors`: a `mainstay_group` with a
    /// context of its own, as large as the library's. All operations in progress in the old group end with an error
    /// on all ranks. All surviving ranks call it. `divided` is a mainstay_divided: how the state that the job goes on
    /// from is divided; the highest of all ranks counts. If the state is divided by rank, the new group must keep the
    /// number of ranks.
    pub shrink: Option<unsafe extern "C" fn(context: *mut c_void, divided: u32, survivors: *mut c_void) -> c_int>,
    /// Changes the way in which ranks wait for each other in `all_max`. With `eagerly` nonzero they wait in the
    /// fastest way. With 0, which is the default, they leave the processors to others meanwhile. All ranks get the
    /// same value between the same two collective calls. NULL: this rank has only one way, and then all ranks keep to
    /// theirs.
    pub wait_eagerly: Option<unsafe extern "C" fn(context: *mut c_void, eagerly: c_int)>,
}

/// For adapters: how a state is divided.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum DividedCode {
    /// This rank knows of no state.
    Unknown = 0,
    /// Each rank has a part of its own, which another number of ranks cannot take over.
    ByRanks = 1,
    /// Into parts that any number of ranks can divide again: boxes of global arrays, or shards of a program that has
    /// called mainstay_any_number_of_ranks.
    IntoBoxes = 2,
}

impl From<Divided> for DividedCode {
    fn from(divided: Divided) -> DividedCode {
        match divided {
            Divided::Unknown => DividedCode::Unknown,
            Divided::ByRanks => DividedCode::ByRanks,
            Divided::IntoBoxes => DividedCode::IntoBoxes,
        }
    }
}

/// Sizes of the table in all versions of the header: it only grows, at its end.
const SIZES: [usize; 3] =
    [offset_of!(GroupTable, start_send), offset_of!(GroupTable, wait_eagerly), size_of::<GroupTable>()];

/// The context of the table that a session uses now; null: no table. Shared by the group of the opening and the
/// groups that come from it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContextInUse(Arc<AtomicPtr<c_void>>);

impl ContextInUse {
    pub(crate) fn get(&self) -> *mut c_void {
        self.0.load(Ordering::Acquire)
    }
}

/// A table that has all its collectives.
pub(crate) struct CGroup {
    table: GroupTable,
    in_use: ContextInUse,
    /// Messages in progress, with the table's handle of each and the memory lent to it.
    started: RefCell<BTreeMap<Message, (*mut c_void, Lent)>>,
}

enum Lent {
    /// Only kept.
    Read(#[expect(dead_code)] Outgoing),
    Filled(Incoming),
}

// SAFETY: only the thread that calls the session uses the context, as the table demands.
#[allow(unsafe_code)]
unsafe impl Send for CGroup {}

impl CGroup {
    /// Takes over the table, including `release`. If its size is unknown, reads nothing else of it.
    ///
    /// # Safety
    /// `table` is null or points to a table of as many bytes as its `size` says.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(table: *const GroupTable) -> Result<CGroup> {
        if table.is_null() {
            return Err(null("group"));
        }
        // SAFETY: every table has a size.
        let size = unsafe { (&raw const (*table).size).read() };
        if !SIZES.contains(&size) {
            let why =
                format!("{} bytes instead of {}; compile with this version's headers", size, size_of::<GroupTable>());
            return Err(Error::argument("group", why));
        }
        // SAFETY: numbers, and pointers that may be null: zero is valid for all of them and means none.
        let table_of_none = unsafe { std::mem::zeroed() };
        let (in_use, started) = (ContextInUse::default(), RefCell::default());
        let mut group = CGroup { table: table_of_none, in_use, started };
        // SAFETY: so many bytes are there, and no more than this table has.
        unsafe { (&raw mut group.table).cast::<u8>().copy_from_nonoverlapping(table.cast::<u8>(), size) };
        let table = &group.table;
        if table.all_max.is_none() || table.all_gather.is_none() || table.broadcast.is_none() {
            return Err(null("a function of the group"));
        }
        if table.rank >= table.ranks || table.ranks as usize > RANKS_MAX {
            let why = format!(
                "rank {} of {}; ranks count from 0, and there are at most {RANKS_MAX}",
                table.rank, table.ranks
            );
            return Err(Error::argument("group", why));
        }
        group.in_use.0.store(table.context, Ordering::Release);
        Ok(group)
    }

    pub(crate) fn context_in_use(&self) -> ContextInUse {
        self.in_use.clone()
    }

    #[allow(unsafe_code)]
    fn check(&self, code: c_int, doing: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = [0_u8; 512];
        if let Some(explain) = self.table.explain {
            // SAFETY: the buffer has the length that is given; its last byte stays zero.
            unsafe { explain(self.table.context, code, text.as_mut_ptr().cast(), text.len() - 1) };
        }
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy();
        Err(Error::GroupFailed { what: format!("{doing}: {text} (class {code})") })
    }

    #[allow(unsafe_code)]
    fn gather_equal(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; mine.len() * self.size()];
        let Some(all_gather) = self.table.all_gather else { return Err(null("all_gather")) };
        // SAFETY: `all` holds `mine.len()` bytes for each rank.
        let code = unsafe { all_gather(self.table.context, mine.as_ptr().cast(), all.as_mut_ptr().cast(), mine.len()) };
        let gathered = self.check(code, "all-gather");
        if gathered.is_err() {
            // Open MPI may still receive data that others sent before a rank failed.
            std::mem::forget(all);
            return gathered.map(|()| Vec::new());
        }
        Ok(all)
    }

    #[allow(unsafe_code)]
    fn broadcast_equal(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let Some(broadcast) = self.table.broadcast else { return Err(null("broadcast")) };
        let mut shared = bytes.to_vec();
        // SAFETY: pointer and length are those of the copy.
        let code = unsafe { broadcast(self.table.context, root as u32, shared.as_mut_ptr().cast(), shared.len()) };
        let told = self.check(code, "broadcast");
        match told {
            Ok(()) => bytes.copy_from_slice(&shared),
            // As in an all-gather.
            Err(_) => std::mem::forget(shared),
        }
        told
    }
}

impl Group for CGroup {
    fn rank(&self) -> usize {
        self.table.rank as usize
    }

    fn size(&self) -> usize {
        self.table.ranks as usize
    }

    fn ranks_here(&self) -> usize {
        self.table.ranks_here.max(1) as usize
    }

    fn can_wait_eagerly(&self) -> bool {
        self.table.wait_eagerly.is_some()
    }

    #[allow(unsafe_code)]
    fn wait_eagerly(&self, eagerly: bool) {
        if let Some(wait_eagerly) = self.table.wait_eagerly {
            // SAFETY: the table's own function and context.
            unsafe { wait_eagerly(self.table.context, eagerly.into()) };
        }
    }

    #[allow(unsafe_code)]
    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        let Some(all_max) = self.table.all_max else { return Err(null("all_max")) };
        // SAFETY: pointer and count are those of the slice.
        let code = unsafe { all_max(self.table.context, values.as_mut_ptr(), values.len()) };
        self.check(code, "all-reduce")
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        gather_padded(mine, |mine| self.gather_equal(mine))
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        broadcast_sized(bytes, |bytes| self.broadcast_equal(root, bytes))
    }

    #[allow(unsafe_code)]
    #[allow(unsafe_code)]
    #[allow(unsafe_code)]
    fn start_send(&self, to: usize, bytes: Outgoing) -> Result<Message> {
        let Some(start) = self.table.start_send.filter(|_| self.table.test.is_some()) else {
            return Err(lacks("start_send, start_receive and test"));
        };
        let (data, mut word) = ((*bytes).as_ref(), null_mut());
        // SAFETY: pointer and length are those of the slice. Its memory stays in `started` until the message is finished.
        let code = unsafe { start(self.table.context, to as u32, data.as_ptr().cast(), data.len(), &mut word) };
        self.started(code, &format!("sending to rank {to}"), word, Lent::Read(bytes))
    }

    #[allow(unsafe_code)]
    fn start_receive(&self, from: usize, mut into: Incoming) -> Result<Message> {
        let Some(start) = self.table.start_receive.filter(|_| self.table.test.is_some()) else {
            return Err(lacks("start_send, start_receive and test"));
        };
        let (data, mut word) = ((*into).as_mut(), null_mut());
        // SAFETY: pointer and length are those of the slice. Its memory stays in `started` until the message is finished.
        let code = unsafe { start(self.table.context, from as u32, data.as_mut_ptr().cast(), data.len(), &mut word) };
        self.started(code, &format!("receiving from rank {from}"), word, Lent::Filled(into))
    }

    #[allow(unsafe_code)]
    fn test(&self, message: Message) -> Result<Tested> {
        let mut started = self.started.borrow_mut();
        let (Some((word, _)), Some(test)) = (started.get(&message), self.table.test) else {
            return Err(Error::Internal { what: format!("{message:?} is not under way in this group") });
        };
        let mut through = 0;
        // SAFETY: the table's own handle, which is passed back until the message is over, and then forgotten.
        let code = unsafe { test(self.table.context, *word, &mut through) };
        if code == 0 && through == 0 {
            return Ok(Tested::UnderWay);
        }
        let lent = started.remove(&message).map(|(_, lent)| lent);
        self.check(code, "a message")?;
        Ok(match lent {
            Some(Lent::Filled(into)) => Tested::Received(into),
            _ => Tested::Sent,
        })
    }

    #[allow(unsafe_code)]
    fn failed(&self) -> Result<Vec<usize>> {
        let Some(failed) = self.table.failed else { return Err(lacks("failed")) };
        let (mut ranks, mut count) = (vec![0; self.size()], 0);
        // SAFETY: there is room for all ranks.
        let code = unsafe { failed(self.table.context, ranks.as_mut_ptr(), &mut count) };
        self.check(code, "asking for failed ranks")?;
        ranks.truncate(count as usize);
        ranks.sort_unstable();
        Ok(ranks.into_iter().map(|rank| rank as usize).collect())
    }

    #[allow(unsafe_code)]
    fn shrink(&self, divided: Divided) -> Result<Box<dyn Group>> {
        let Some(shrink) = self.table.shrink else { return Err(lacks("shrink")) };
        // SAFETY: numbers, and pointers that may be null.
        let mut survivors: GroupTable = unsafe { std::mem::zeroed() };
        // SAFETY: the table has at least this many bytes. A table of an older header has fewer, and its size says so.
        let code =
            unsafe { shrink(self.table.context, DividedCode::from(divided) as u32, (&raw mut survivors).cast()) };
        self.check(code, "going on without the ranks that have failed")?;
        // SAFETY: it was filled in, and is no larger than it says.
        let mut left = unsafe { CGroup::new(&raw const survivors) }?;
        left.in_use = self.in_use.clone();
        left.in_use.0.store(left.table.context, Ordering::Release);
        Ok(Box::new(left))
    }
}

impl CGroup {
    /// Keeps the memory lent to a message while the message is in progress.
    fn started(&self, code: c_int, doing: &str, word: *mut c_void, lent: Lent) -> Result<Message> {
        self.check(code, doing)?;
        let message = Message::new();
        self.started.borrow_mut().insert(message, (word, lent));
        Ok(message)
    }
}

/// An optional function that the table lacks.
fn lacks(what: &str) -> Error {
    let why = format!("it has no {what}: its ranks cannot do that here; if a rank has failed, start the job again");
    Error::argument("group", why)
}

impl Drop for CGroup {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // Messages in progress may still read or fill their memory: do not free it.
        forget(take(self.started.get_mut()));
        let _ = self.in_use.0.compare_exchange(self.table.context, null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        if let Some(release) = self.table.release {
            // SAFETY: called once, with the context that came with it.
            unsafe { release(self.table.context) };
        }
    }
}

#[cfg(test)]
mod tests;

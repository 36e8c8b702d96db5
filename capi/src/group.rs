//! The ranks of a job, as a table of functions that the MPI shim brings.

use crate::error::null;
use mainstay_engine::{
    Error, Result,
    group::{Group, RANKS_MAX, broadcast_sized, gather_padded},
};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    mem::offset_of,
};

/// The ranks' collectives, and messages between two, called only from the thread that calls the session. Each returns
/// 0, or the class of the error. `mainstay_open_mpi` fills it in; other worlds than MPI can bring their own.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct GroupTable {
    /// sizeof(mainstay_group).
    pub size: usize,
    /// Handed back to each function.
    pub context: *mut c_void,
    pub rank: u32,
    pub ranks: u32,
    /// Ranks on this rank's node, itself included; 0: unknown.
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
    /// Says what an error class means, into `text` of `bytes` bytes.
    pub explain: Option<unsafe extern "C" fn(context: *mut c_void, code: c_int, text: *mut c_char, bytes: usize)>,
    /// Ends the group; called once, at the end of the session, also when opening it failed.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// `bytes` bytes to rank `to`; may wait until that receives them. NULL, as `receive`: none can be sent, and
    /// `aggregators` cannot be set.
    pub send: Option<unsafe extern "C" fn(context: *mut c_void, to: u32, data: *const c_void, bytes: usize) -> c_int>,
    /// As many bytes as rank `from` has sent, in the order in which it sent them.
    pub receive:
        Option<unsafe extern "C" fn(context: *mut c_void, from: u32, data: *mut c_void, bytes: usize) -> c_int>,
}

/// What the table measured in each version of the header: it only grows, at its end.
const SIZES: [usize; 2] = [offset_of!(GroupTable, send), size_of::<GroupTable>()];

/// A table whose collectives are all there.
pub(crate) struct CGroup {
    table: GroupTable,
}

// SAFETY: the context is used only by the thread that calls the session, as the table demands.
#[allow(unsafe_code)]
unsafe impl Send for CGroup {}

impl CGroup {
    /// Takes the table over, `release` included; of one of another size nothing is believed.
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
        // SAFETY: numbers, and pointers that may be null: zero in all of them is none given.
        let mut group = CGroup { table: unsafe { std::mem::zeroed() } };
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
        Ok(group)
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
        self.check(code, "all-gather").map(|()| all)
    }

    #[allow(unsafe_code)]
    fn broadcast_equal(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let Some(broadcast) = self.table.broadcast else { return Err(null("broadcast")) };
        // SAFETY: pointer and length are those of the slice.
        let code = unsafe { broadcast(self.table.context, root as u32, bytes.as_mut_ptr().cast(), bytes.len()) };
        self.check(code, "broadcast")
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

    fn can_send(&self) -> bool {
        self.table.send.is_some() && self.table.receive.is_some()
    }

    #[allow(unsafe_code)]
    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        let Some(send) = self.table.send else { return Err(null("send")) };
        // SAFETY: pointer and length are those of the slice.
        let code = unsafe { send(self.table.context, to as u32, bytes.as_ptr().cast(), bytes.len()) };
        self.check(code, &format!("sending to rank {to}"))
    }

    #[allow(unsafe_code)]
    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        let Some(receive) = self.table.receive else {
            return Err(null("receive"));
        };
        // SAFETY: pointer and length are those of the slice.
        let code = unsafe { receive(self.table.context, from as u32, into.as_mut_ptr().cast(), into.len()) };
        self.check(code, &format!("receiving from rank {from}"))
    }
}

impl Drop for CGroup {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if let Some(release) = self.table.release {
            // SAFETY: called once, with the context that came with it.
            unsafe { release(self.table.context) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    extern "C" fn all_max(_: *mut c_void, _: *mut u64, _: usize) -> c_int {
        0
    }
    extern "C" fn all_gather(_: *mut c_void, _: *const c_void, _: *mut c_void, _: usize) -> c_int {
        0
    }
    extern "C" fn broadcast(_: *mut c_void, _: u32, _: *mut c_void, _: usize) -> c_int {
        0
    }
    extern "C" fn send(_: *mut c_void, _: u32, _: *const c_void, _: usize) -> c_int {
        0
    }
    extern "C" fn receive(_: *mut c_void, _: u32, _: *mut c_void, _: usize) -> c_int {
        0
    }

    fn table(size: usize, ranks: u32, both_ways: [bool; 2]) -> GroupTable {
        let [sends, receives] = both_ways;
        GroupTable {
            size,
            context: null_mut(),
            rank: 0,
            ranks,
            ranks_here: 2,
            all_max: Some(all_max as _),
            all_gather: Some(all_gather as _),
            broadcast: Some(broadcast as _),
            explain: None,
            release: None,
            send: sends.then_some(send as _),
            receive: receives.then_some(receive as _),
        }
    }

    fn group(table: &GroupTable) -> Result<CGroup> {
        // SAFETY: a table of at least as many bytes as it says.
        #[allow(unsafe_code)]
        unsafe {
            CGroup::new(table)
        }
    }

    /// A program that was compiled with an older header has none of what came later, whatever lies there.
    #[test]
    fn only_a_table_with_both_ways_can_send() {
        let can = |size, both_ways| group(&table(size, 2, both_ways)).unwrap().can_send();
        assert!(can(SIZES[1], [true, true]));
        assert!(!can(SIZES[1], [true, false]) && !can(SIZES[1], [false, true]));
        assert!(!can(SIZES[0], [true, true]));
    }

    /// Memory is taken for each.
    #[test]
    fn more_ranks_than_any_job_has_are_refused() {
        let with = |ranks| group(&table(SIZES[1], ranks, [false, false]));
        assert!(with(RANKS_MAX as u32).is_ok());
        for ranks in [0, RANKS_MAX as u32 + 1, u32::MAX] {
            let error = with(ranks).map(drop).unwrap_err();
            assert!(error.to_string().contains("at most 16777216"), "{error}");
        }
    }
}

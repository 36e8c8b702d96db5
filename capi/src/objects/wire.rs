//! Transport between the ranks, by the functions of the program's table.

use super::tables::WireTable;
use crate::argument::null;
use mainstay_engine::{Error, Result};
use mainstay_objects::{Arriving, Wire, work_for_a_while, worth_waiting_for};
use std::{ffi::c_int, mem::forget};

/// A table that has all its functions.
pub(super) struct CWire(pub(super) WireTable);

impl CWire {
    #[allow(unsafe_code)]
    fn place(&self) -> (usize, usize) {
        let (mut rank, mut ranks) = (0, 1);
        // SAFETY: both are ours to be filled.
        let told = self.0.ranks.map(|told| unsafe { told(self.0.context, &mut rank, &mut ranks) });
        // If the ranks are unknown, the next call that needs them fails.
        if told == Some(0) && rank < ranks { (rank as usize, ranks as usize) } else { (0, 1) }
    }
}

fn reached(code: c_int, doing: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::GroupFailed { what: format!("{doing} (class {code}); call mainstay_recover on all ranks") })
}

impl Wire for CWire {
    fn rank(&self) -> usize {
        self.place().0
    }

    fn ranks(&self) -> usize {
        self.place().1
    }

    #[allow(unsafe_code)]
    fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()> {
        let ranks = self.ranks();
        if to.len() != from.len() || !to.len().is_multiple_of(ranks) {
            return Err(Error::GroupFailed { what: "the ranks of the objects are others than before".to_owned() });
        }
        let Some(swap) = self.0.swap else { return Err(null("swap")) };
        // SAFETY: both have so many words for each rank.
        let code = unsafe { swap(self.0.context, to.as_ptr(), from.as_mut_ptr(), to.len() / ranks) };
        reached(code, "objects: telling all ranks")
    }

    #[allow(unsafe_code)]
    fn exchange(
        &self,
        leaving: &[(usize, &[u8])],
        arriving: &mut Vec<Arriving>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let table = &self.0;
        let (Some(receive), Some(send), Some(finish)) = (table.receive, table.send, table.finish) else {
            return Err(null("receive, send or finish"));
        };
        let worth_waiting = worth_waiting_for(arriving);
        let mut all = || {
            for Arriving { from, bytes } in arriving.iter_mut() {
                // SAFETY: pointer and length are those of the buffer, which stays until all messages are finished, or
                // forever.
                let code = unsafe { receive(table.context, *from as u32, bytes.as_mut_ptr().cast(), bytes.len()) };
                reached(code, &format!("objects: receiving from rank {from}"))?;
            }
            for (to, bytes) in leaving {
                // SAFETY: pointer and length are those of the slice.
                let code = unsafe { send(table.context, *to as u32, bytes.as_ptr().cast(), bytes.len()) };
                reached(code, &format!("objects: sending to rank {to}"))?;
            }
            let has_come = |limit_s| {
                let mut done = 0;
                // SAFETY: the flag is ours to be filled.
                let code = unsafe { finish(table.context, limit_s, &mut done) };
                reached(code, "objects: receiving from other ranks").map(|()| done != 0)
            };
            let mut limit_s = worth_waiting.as_secs_f64();
            while !has_come(limit_s)? {
                limit_s = if work_for_a_while(meanwhile) { 0.0 } else { -1.0 };
            }
            while meanwhile() {}
            Ok(())
        };
        let done = all();
        if done.is_err() {
            // Messages in progress may still fill their memory: do not free it.
            forget(std::mem::take(arriving));
        }
        done
    }
}

impl Drop for CWire {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: called once, with the context that came with it.
            unsafe { release(self.0.context) };
        }
    }
}

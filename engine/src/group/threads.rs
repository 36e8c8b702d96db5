//! Threads of one process as ranks. A rank that is dropped in the middle of a collective fails it
//! for the others, as the death of a process does.

use super::Group;
use crate::error::{Error, Result};
use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

#[derive(Debug)]
pub struct ThreadGroup {
    rank: usize,
    meeting: Arc<Meeting>,
}

#[derive(Debug)]
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    given: Vec<Option<Vec<u8>>>,
    /// Counts the meetings that ended; its result stays until the next one ends.
    ended: u64,
    result: Arc<Vec<Vec<u8>>>,
    left: Vec<usize>,
    /// By sender and receiver: what one has sent and the other has not taken yet.
    sent: BTreeMap<(usize, usize), Vec<u8>>,
}

impl ThreadGroup {
    /// One handle for each of `size` ranks.
    pub fn new(size: usize) -> Vec<ThreadGroup> {
        let state = State {
            given: vec![None; size],
            ended: 0,
            result: Arc::default(),
            left: Vec::new(),
            sent: BTreeMap::new(),
        };
        let meeting = Arc::new(Meeting { state: Mutex::new(state), changed: Condvar::new() });
        (0..size).map(|rank| ThreadGroup { rank, meeting: meeting.clone() }).collect()
    }

    fn meet(&self, mine: &[u8]) -> Result<Arc<Vec<Vec<u8>>>> {
        let mut state = self.meeting.lock();
        state.given[self.rank] = Some(mine.to_vec());
        if state.given.iter().all(Option::is_some) {
            let result = state.given.iter_mut().map(|slot| slot.take().unwrap_or_default()).collect();
            state.result = Arc::new(result);
            state.ended += 1;
            self.meeting.changed.notify_all();
            return Ok(state.result.clone());
        }
        let before = state.ended;
        let state = self.wait(state, |state| state.ended > before)?;
        Ok(state.result.clone())
    }

    /// Waits until `is_so`, or until a rank has left.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        is_so: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>> {
        while !is_so(&state) {
            if let Some(rank) = state.left.first() {
                return Err(Error::GroupFailed { what: format!("rank {rank} is gone") });
            }
            state = self.meeting.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }
}

impl Meeting {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        self.meeting.lock().left.push(self.rank);
        self.meeting.changed.notify_all();
    }
}

impl Group for ThreadGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.meeting.lock().given.len()
    }

    fn ranks_here(&self) -> usize {
        self.size()
    }

    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        let mine: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        for theirs in self.meet(&mine)?.iter() {
            for (value, bytes) in values.iter_mut().zip(theirs.chunks_exact(8)) {
                *value = (*value).max(u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
            }
        }
        Ok(())
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(self.meet(mine)?.to_vec())
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let all = self.meet(if self.rank == root { bytes } else { &[] })?;
        bytes.clone_from(&all[root]);
        Ok(())
    }

    /// Waits until it was taken, as MPI may: whoever relies on more hangs here too.
    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        let way = (self.rank, to);
        let mut state = self.meeting.lock();
        state.sent.insert(way, bytes.to_vec());
        self.meeting.changed.notify_all();
        self.wait(state, |state| !state.sent.contains_key(&way)).map(drop)
    }

    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        let way = (from, self.rank);
        let mut state = self.wait(self.meeting.lock(), |state| state.sent.contains_key(&way))?;
        let sent = state.sent.remove(&way).unwrap_or_default();
        self.meeting.changed.notify_all();
        if sent.len() != into.len() {
            let what = format!("{} bytes from rank {from} instead of {}", sent.len(), into.len());
            return Err(Error::GroupFailed { what });
        }
        into.copy_from_slice(&sent);
        Ok(())
    }
}

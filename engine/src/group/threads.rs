//! Threads of one process as ranks. If a rank is dropped in the middle of a collective, the collective fails for the
//! others, as at the death of a process.

use super::{Divided, Group, Incoming, Message, Outgoing, Tested, unknown};
use crate::error::{Error, Result};
use std::{
    collections::{BTreeMap, VecDeque},
    mem::take,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
};

pub struct ThreadGroup {
    rank: usize,
    meeting: Arc<Meeting>,
    /// The messages that this rank has started.
    started: Mutex<BTreeMap<Message, Started>>,
}

enum Started {
    Send { to: usize },
    Receive { from: usize, into: Incoming },
    Received(Result<Incoming>),
}

#[derive(Debug)]
struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
}

type Queue = VecDeque<(Message, Vec<u8>)>;

#[derive(Debug)]
struct MeetingState {
    given: Vec<Option<Vec<u8>>>,
    /// The number of meetings that ended; the result of the last one stays until the next one ends.
    ended: u64,
    result: Arc<Vec<Vec<u8>>>,
    left: Vec<usize>,
    /// Messages that were started but not received, by sender and receiver, in the order of their starts.
    under_way: BTreeMap<(usize, usize), Queue>,
    /// The ranks that wait for a group without the failed ones; if there are any, this group has ended.
    shrinking: Vec<usize>,
    /// The highest value that they report.
    divided: Divided,
    /// The group that goes on, and its members: for each new number the old one, or none for a spare.
    shrunk: Option<(Vec<Option<usize>>, Arc<Meeting>)>,
    /// The remaining spares.
    spares: VecDeque<Sender<ThreadGroup>>,
    /// The remaining starters, which begin if no place can be given up.
    starters: VecDeque<Sender<ThreadGroup>>,
}

impl ThreadGroup {
    /// Makes a group of `size` ranks, with one handle for each.
    pub fn new(size: usize) -> Vec<ThreadGroup> {
        ThreadGroup::with_spares(size, 0).0
    }

    /// Makes a group of `size` ranks, and `spares` that take the places of failed ranks. Each spare receives its handle
    /// once it is needed, or an error once it cannot be needed any more.
    pub fn with_spares(size: usize, spares: usize) -> (Vec<ThreadGroup>, Vec<Receiver<ThreadGroup>>) {
        let (senders, receivers) = (0..spares).map(|_| channel()).unzip();
        (ThreadGroup::on(Meeting::new(size, senders, VecDeque::new())), receivers)
    }

    /// The same with `starters` in place of spares: they are needed only if the state is divided by ranks.
    pub fn with_starters(size: usize, starters: usize) -> (Vec<ThreadGroup>, Vec<Receiver<ThreadGroup>>) {
        let (senders, receivers) = (0..starters).map(|_| channel()).unzip();
        (ThreadGroup::on(Meeting::new(size, VecDeque::new(), senders)), receivers)
    }

    fn on(meeting: Arc<Meeting>) -> Vec<ThreadGroup> {
        let size = meeting.lock().given.len();
        (0..size).map(|rank| ThreadGroup::of(rank, meeting.clone())).collect()
    }

    fn of(rank: usize, meeting: Arc<Meeting>) -> ThreadGroup {
        ThreadGroup { rank, meeting, started: Mutex::default() }
    }

    fn started(&self) -> MutexGuard<'_, BTreeMap<Message, Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `mine`, and returns what `unite` makes of the bytes of all ranks. The last rank to come calls it for all.
    fn meet(&self, mine: &[u8], unite: impl Fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>) -> Result<Arc<Vec<Vec<u8>>>> {
        let mut state = self.meeting.lock();
        state.check(|_| false)?;
        state.given[self.rank] = Some(mine.to_vec());
        if state.given.iter().all(Option::is_some) {
            let result = state.given.iter_mut().map(|slot| slot.take().unwrap_or_default()).collect();
            state.result = Arc::new(unite(result));
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
        mut state: MutexGuard<'a, MeetingState>,
        is_so: impl Fn(&MeetingState) -> bool,
    ) -> Result<MutexGuard<'a, MeetingState>> {
        while !is_so(&state) {
            state.check(|_| true)?;
            state = self.meeting.wait(state);
        }
        Ok(state)
    }

    /// Fills the oldest receives with the oldest messages.
    fn take_from(&self, from: usize, state: &mut MeetingState, started: &mut BTreeMap<Message, Started>) {
        let Some(sent) = state.under_way.get_mut(&(from, self.rank)) else { return };
        let is_awaited = |one: &Started| matches!(one, Started::Receive { from: of, .. } if *of == from);
        let awaited: Vec<_> = started.iter().filter(|(_, one)| is_awaited(one)).map(|(message, _)| *message).collect();
        for message in awaited {
            let Some((_, bytes)) = sent.pop_front() else { return };
            if let Some(Started::Receive { mut into, .. }) = started.remove(&message) {
                let received = fill((*into).as_mut(), from, &bytes).map(|()| into);
                started.insert(message, Started::Received(received));
            }
        }
    }
}

/// The higher of any two numbers of 8 bytes.
fn higher(mut one: Vec<u8>, other: Vec<u8>) -> Vec<u8> {
    for (one, other) in one.chunks_exact_mut(8).zip(other.chunks_exact(8)).filter(|(one, other)| **one < **other) {
        one.copy_from_slice(other);
    }
    one
}

fn fill(into: &mut [u8], from: usize, sent: &[u8]) -> Result<()> {
    if sent.len() != into.len() {
        let what = format!("{} bytes from rank {from} instead of {}", sent.len(), into.len());
        return Err(Error::GroupFailed { what });
    }
    into.copy_from_slice(sent);
    Ok(())
}

fn dismissed() -> Error {
    Error::GroupFailed { what: "the other ranks take this rank for a failed one".to_owned() }
}

impl MeetingState {
    /// An error once a rank that `concerns` the caller has left, or this group has ended.
    fn check(&self, concerns: impl Fn(usize) -> bool) -> Result<()> {
        let failed = |what| Err(Error::GroupFailed { what });
        if !self.shrinking.is_empty() {
            return failed("some rank goes on without the failed ones".to_owned());
        }
        match self.left.iter().find(|rank| concerns(**rank)) {
            Some(rank) => failed(format!("rank {rank} is gone")),
            None => Ok(()),
        }
    }

    /// The number of starters that may replace ranks that have left.
    fn starters_needed(&self) -> usize {
        if self.divided == Divided::ByRanks { self.starters.len() } else { 0 }
    }

    /// The ranks that go on, once all have said whether they do; `None` marks the place of a replaced rank.
    fn survivors(&self) -> Option<Vec<Option<usize>>> {
        let ranks = 0..self.given.len();
        if self.left.len() + self.shrinking.len() < ranks.len() {
            return None;
        }
        let are_known = ranks.clone().all(|rank| self.left.contains(&rank) || self.shrinking.contains(&rank));
        let mut spares = self.spares.len() + self.starters_needed();
        let mut goes_on = |rank: usize| match self.left.contains(&rank) {
            false => Some(Some(rank)),
            true => spares.checked_sub(1).map(|left| {
                spares = left;
                None
            }),
        };
        are_known.then(|| ranks.filter_map(&mut goes_on).collect())
    }
}

impl Meeting {
    fn new(
        size: usize,
        spares: VecDeque<Sender<ThreadGroup>>,
        starters: VecDeque<Sender<ThreadGroup>>,
    ) -> Arc<Meeting> {
        let state = MeetingState {
            given: vec![None; size],
            ended: 0,
            result: Arc::default(),
            left: Vec::new(),
            under_way: BTreeMap::new(),
            shrinking: Vec::new(),
            divided: Divided::Unknown,
            shrunk: None,
            spares,
            starters,
        };
        Arc::new(Meeting { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn wait<'a>(&self, state: MutexGuard<'a, MeetingState>) -> MutexGuard<'a, MeetingState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, MeetingState> {
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
        let mine: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
        let highest = self.meet(&mine, |all| vec![all.into_iter().reduce(higher).unwrap_or_default()])?;
        let (highest, _) = highest[0].as_chunks();
        values.iter_mut().zip(highest).for_each(|(value, bytes)| *value = u64::from_be_bytes(*bytes));
        Ok(())
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(self.meet(mine, |all| all)?.to_vec())
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let all = self.meet(if self.rank == root { bytes } else { &[] }, |all| all)?;
        bytes.clone_from(&all[root]);
        Ok(())
    }

    fn start_send(&self, to: usize, bytes: Outgoing) -> Result<Message> {
        let (message, mut state) = (Message::new(), self.meeting.lock());
        let bytes = (*bytes).as_ref().to_vec();
        state.check(|rank| rank == to)?;
        state.under_way.entry((self.rank, to)).or_default().push_back((message, bytes));
        drop(state);
        self.started().insert(message, Started::Send { to });
        Ok(message)
    }

    fn start_receive(&self, from: usize, into: Incoming) -> Result<Message> {
        let message = Message::new();
        self.meeting.lock().check(|_| false)?;
        self.started().insert(message, Started::Receive { from, into });
        Ok(message)
    }

    fn test(&self, message: Message) -> Result<Tested> {
        let (mut started, mut state) = (self.started(), self.meeting.lock());
        if let Some(Started::Receive { from, .. }) = started.get(&message) {
            self.take_from(*from, &mut state, &mut started);
        }
        let one = started.remove(&message).ok_or_else(|| unknown(message))?;
        let peer = match &one {
            Started::Send { to } => {
                let sent = state.under_way.get(&(self.rank, *to));
                if !sent.is_some_and(|sent| sent.iter().any(|(under_way, _)| *under_way == message)) {
                    return Ok(Tested::Sent);
                }
                *to
            }
            Started::Receive { from, .. } => *from,
            Started::Received(_) => self.rank,
        };
        if let Started::Received(into) = one {
            return into.map(Tested::Received);
        }
        state.check(|rank| rank == peer)?;
        started.insert(message, one);
        Ok(Tested::UnderWay)
    }

    fn failed(&self) -> Result<Vec<usize>> {
        let mut left = self.meeting.lock().left.clone();
        left.sort_unstable();
        Ok(left)
    }

    fn shrink(&self, divided: Divided) -> Result<Box<dyn Group>> {
        let mut state = self.meeting.lock();
        state.shrinking.push(self.rank);
        state.divided = state.divided.max(divided);
        self.meeting.changed.notify_all();
        loop {
            if let Some((survivors, meeting)) = &state.shrunk {
                let rank = survivors.iter().position(|other| *other == Some(self.rank)).ok_or_else(dismissed)?;
                return Ok(Box::new(ThreadGroup::of(rank, meeting.clone())));
            }
            if let Some(survivors) = state.survivors() {
                let new: Vec<usize> = (0..survivors.len()).filter(|rank| survivors[*rank].is_none()).collect();
                let (mut spares, mut starters) = (take(&mut state.spares), take(&mut state.starters));
                let waiting = spares.split_off(new.len().min(spares.len()));
                let starting = starters.split_off(new.len() - spares.len());
                let meeting = Meeting::new(survivors.len(), waiting, starting);
                for (rank, spare) in new.into_iter().zip(spares.into_iter().chain(starters)) {
                    // A spare that is gone is a rank that fails at once.
                    let _ = spare.send(ThreadGroup::of(rank, meeting.clone()));
                }
                state.shrunk = Some((survivors, meeting));
                self.meeting.changed.notify_all();
            } else {
                state = self.meeting.wait(state);
            }
        }
    }
}

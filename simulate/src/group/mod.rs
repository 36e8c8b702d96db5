//! Messages and collectives between simulated processes, as loose as MPI's: a collective ends at different times on
//! different ranks, and after a death it fails on some ranks and succeeds on others; messages take their time, keep their
//! order between two ranks only, and are lost with their sender.

mod channel;
mod collective;
mod shrunk;

pub use channel::{ProgramChannel, count_message};

use crate::{
    cluster::{Cluster, Death, NOTICED_WITHIN, ProcessId},
    lock::locked,
};
use mainstay_engine::{
    Error, Result, current_world,
    group::{Divided, Group, Incoming, Message, Outgoing, Tested},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Starts a process in place of a lost rank: on its number, its node, and the place that its group will have.
pub type Starter = dyn Fn(usize, usize, Arc<Mutex<Option<SimulatedGroup>>>) -> ProcessId + Send + Sync;

/// The places of ranks that a job may fill anew.
#[derive(Clone)]
pub struct Refill {
    pub start: Arc<Starter>,
    /// Fills them even if the other ranks could go on by themselves.
    pub always: bool,
}

pub struct SimulatedGroup {
    rank: usize,
    meeting: Arc<Meeting>,
    channel: Channel,
    started: Mutex<BTreeMap<Message, Started>>,
    /// Recoveries of the job so far.
    generation: Arc<AtomicU64>,
    /// The newest meeting, for the program's own messages.
    newest: Newest,
}

/// The rank in the newest meeting of its process, after all recoveries.
type Newest = Arc<Mutex<(usize, Arc<Meeting>)>>;

/// Messages and collectives of one channel do not meet those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Engine,
    Program,
}

enum Started {
    Send {
        to: usize,
        /// The memory belongs to the sender's process, as long as the message is not sent.
        _bytes: Outgoing,
    },
    Receive {
        from: usize,
        into: Incoming,
    },
    Received(Result<Incoming>),
}

struct Meeting {
    cluster: Arc<Cluster>,
    members: Vec<Member>,
    refill: Option<Refill>,
    generation: u64,
    state: Mutex<State>,
}

#[derive(Clone)]
struct Member {
    process: ProcessId,
    node: usize,
    death: Death,
    /// The time until the others notice its death.
    notice: Duration,
}

#[derive(Default)]
struct State {
    channels: [Traffic; 2],
    left: BTreeSet<usize>,
    shrinking: BTreeSet<usize>,
    divided: Option<Divided>,
    shrunk: Option<(Vec<Option<usize>>, Arc<Meeting>)>,
}

/// The traffic of one channel.
#[derive(Default)]
struct Traffic {
    /// The collectives that are under way, from number `first` on.
    collectives: VecDeque<Collective>,
    first: u64,
    /// The number of the next collective of each rank.
    next: Vec<u64>,
    under_way: BTreeMap<(usize, usize), VecDeque<Sent>>,
}

struct Collective {
    kind: Kind,
    given: Vec<Option<Vec<u8>>>,
    /// The time at which each rank has the result.
    ready: Vec<Option<Duration>>,
    returned: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Max,
    Gather,
    Broadcast(usize),
}

struct Sent {
    message: Message,
    bytes: Vec<u8>,
    arrives: Duration,
    /// The sender may use its memory again at once.
    is_eager: bool,
}

fn failed(what: impl Into<String>) -> Error {
    Error::GroupFailed { what: what.into() }
}

impl SimulatedGroup {
    /// A new group of `processes`, each with its node. Returns a handle for each rank.
    pub fn of(cluster: &Arc<Cluster>, processes: &[(ProcessId, usize)], refill: Option<Refill>) -> Vec<SimulatedGroup> {
        let meeting = Meeting::new(cluster, processes, refill, 0);
        (0..processes.len()).map(|rank| SimulatedGroup::at(rank, &meeting)).collect()
    }

    fn at(rank: usize, meeting: &Arc<Meeting>) -> SimulatedGroup {
        SimulatedGroup::new(rank, meeting, Channel::Engine, Arc::new(Mutex::new((rank, meeting.clone()))))
    }

    fn new(rank: usize, meeting: &Arc<Meeting>, channel: Channel, newest: Newest) -> SimulatedGroup {
        let generation = Arc::new(AtomicU64::new(meeting.generation));
        SimulatedGroup { rank, meeting: meeting.clone(), channel, started: Mutex::default(), generation, newest }
    }

    /// The recoveries of the job so far. The count stays true.
    pub fn generation(&self) -> Arc<AtomicU64> {
        self.generation.clone()
    }

    /// Whether the message still needs the sender's memory.
    fn is_held(&self, state: &State, to: usize, message: Message) -> bool {
        let queue = state.channels[self.channel as usize].under_way.get(&(self.rank, to));
        queue.is_some_and(|queue| queue.iter().any(|one| one.message == message && !one.is_eager))
    }

    fn has_arrived(&self, state: &State, from: usize) -> bool {
        let queue = state.channels[self.channel as usize].under_way.get(&(from, self.rank));
        queue.and_then(VecDeque::front).is_some_and(|sent| sent.arrives <= self.meeting.cluster.clock())
    }

    /// Whether no message between this rank and `peer` can be completed.
    fn is_cut_off(&self, state: &State, peer: usize) -> bool {
        !state.shrinking.is_empty() || self.meeting.knows_death(state, peer)
    }

    /// Waits until `is_over` of the state.
    fn wait(&self, why: &'static str, mut is_over: impl FnMut(&mut State) -> bool) {
        let world = current_world().expect("a thread of the cluster");
        world.wait(why, None, &mut || is_over(&mut locked(&self.meeting.state)));
    }

    /// Fills the oldest receives from `from` with the messages that have arrived.
    fn take_from(&self, from: usize, state: &mut State, started: &mut BTreeMap<Message, Started>) {
        let (now, meeting) = (self.meeting.cluster.clock(), &self.meeting);
        let Some(sent) = state.traffic(self.channel).under_way.get_mut(&(from, self.rank)) else { return };
        if let Some(died) = meeting.members[from].death.time() {
            // Messages that had not left are lost.
            sent.retain(|one| one.arrives <= died);
        }
        let is_awaited = |one: &Started| matches!(one, Started::Receive { from: of, .. } if *of == from);
        let awaited: Vec<Message> =
            started.iter().filter(|(_, one)| is_awaited(one)).map(|(message, _)| *message).collect();
        for message in awaited {
            if sent.front().is_none_or(|one| one.arrives > now) {
                return;
            }
            let (Some(one), Some(Started::Receive { mut into, .. })) = (sent.pop_front(), started.remove(&message))
            else {
                return;
            };
            let bytes = &one.bytes;
            let received = match (*into).as_mut() {
                memory if memory.len() == bytes.len() => {
                    memory.copy_from_slice(bytes);
                    Ok(into)
                }
                memory => Err(failed(format!("{} bytes from rank {from} instead of {}", bytes.len(), memory.len()))),
            };
            started.insert(message, Started::Received(received));
        }
    }
}

impl Meeting {
    fn new(
        cluster: &Arc<Cluster>,
        processes: &[(ProcessId, usize)],
        refill: Option<Refill>,
        generation: u64,
    ) -> Arc<Meeting> {
        let member = |(process, node): &(ProcessId, usize)| {
            let notice = cluster.draw(|random| random.u64(0..=NOTICED_WITHIN.as_nanos() as u64));
            let (process, node, death) = (*process, *node, cluster.death_of(*process));
            Member { process, node, death, notice: Duration::from_nanos(notice) }
        };
        let members: Vec<Member> = processes.iter().map(member).collect();
        let mut state = State::default();
        state.channels.iter_mut().for_each(|traffic| traffic.next = vec![0; members.len()]);
        Arc::new(Meeting { cluster: cluster.clone(), members, refill, generation, state: Mutex::new(state) })
    }

    /// Whether the others know that `rank` is dead, or has left.
    fn knows_death(&self, state: &State, rank: usize) -> bool {
        self.members[rank].is_known_dead(self.cluster.clock()) || state.left.contains(&rank)
    }

    fn is_gone(&self, state: &State, rank: usize) -> bool {
        self.members[rank].death.time().is_some() || state.left.contains(&rank)
    }
}

impl Member {
    /// Whether the others know at this time that its process was killed.
    fn is_known_dead(&self, now: Duration) -> bool {
        self.death.time().is_some_and(|died| died + self.notice <= now)
    }
}

impl State {
    fn traffic(&mut self, channel: Channel) -> &mut Traffic {
        &mut self.channels[channel as usize]
    }
}

impl Traffic {
    fn collective(&mut self, number: u64) -> &mut Collective {
        &mut self.collectives[(number - self.first) as usize]
    }
}

impl Drop for SimulatedGroup {
    fn drop(&mut self) {
        if self.channel == Channel::Program {
            return;
        }
        locked(&self.meeting.state).left.insert(self.rank);
        self.meeting.cluster.has_happened();
    }
}

impl Group for SimulatedGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.meeting.members.len()
    }

    fn ranks_here(&self) -> usize {
        let members = &self.meeting.members;
        members.iter().filter(|member| member.node == members[self.rank].node).count()
    }

    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        let mine = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        for given in self.meet(Kind::Max, mine)? {
            if given.len() != values.len() * 8 {
                self.meeting.cluster.has_failed("all_max with different numbers of values".to_owned());
            }
            for (value, bytes) in values.iter_mut().zip(given.as_chunks().0) {
                *value = (*value).max(u64::from_be_bytes(*bytes));
            }
        }
        Ok(())
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.meet(Kind::Gather, mine.to_vec())
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let mine = if self.rank == root { bytes.clone() } else { Vec::new() };
        let mut all = self.meet(Kind::Broadcast(root), mine)?;
        *bytes = all.swap_remove(root);
        Ok(())
    }

    fn start_send(&self, to: usize, bytes: Outgoing) -> Result<Message> {
        current_world().expect("a thread of the cluster").step();
        let (message, cluster) = (Message::new(), &self.meeting.cluster);
        let state = locked(&self.meeting.state);
        if !state.shrinking.is_empty() || self.meeting.knows_death(&state, to) {
            return Err(failed(format!("rank {to} is gone")));
        }
        drop(state);
        let (time, is_eager) = cluster.draw(|random| (random.u64(0..2000), random.bool()));
        let mut arrives = cluster.in_time(Duration::from_micros(time));
        let mut state = locked(&self.meeting.state);
        let queue = state.traffic(self.channel).under_way.entry((self.rank, to)).or_default();
        // Between two ranks messages keep their order.
        arrives = queue.back().map_or(arrives, |last| arrives.max(last.arrives));
        queue.push_back(Sent { message, bytes: (*bytes).as_ref().to_vec(), arrives, is_eager });
        drop(state);
        locked(&self.started).insert(message, Started::Send { to, _bytes: bytes });
        Ok(message)
    }

    fn start_receive(&self, from: usize, into: Incoming) -> Result<Message> {
        let message = Message::new();
        if !locked(&self.meeting.state).shrinking.is_empty() {
            return Err(failed("some rank goes on without the failed ones"));
        }
        locked(&self.started).insert(message, Started::Receive { from, into });
        Ok(message)
    }

    fn test(&self, message: Message) -> Result<Tested> {
        current_world().expect("a thread of the cluster").step();
        let (mut started, mut state) = (locked(&self.started), locked(&self.meeting.state));
        if let Some(Started::Receive { from, .. }) = started.get(&message) {
            self.take_from(*from, &mut state, &mut started);
        }
        let unknown = || Error::Internal { what: format!("{message:?} is not in progress in this group") };
        let one = started.remove(&message).ok_or_else(unknown)?;
        let peer = match one {
            Started::Received(into) => {
                drop((started, state));
                self.meeting.cluster.has_happened();
                return into.map(Tested::Received);
            }
            Started::Send { to, .. } if !self.is_held(&state, to, message) => return Ok(Tested::Sent),
            Started::Send { to, .. } => to,
            Started::Receive { from, .. } => from,
        };
        if self.is_cut_off(&state, peer) {
            return Err(failed(format!("rank {peer} is gone")));
        }
        started.insert(message, one);
        Ok(Tested::UnderWay)
    }

    fn failed(&self) -> Result<Vec<usize>> {
        let state = locked(&self.meeting.state);
        Ok((0..self.size()).filter(|rank| self.meeting.knows_death(&state, *rank)).collect())
    }

    fn shrink(&self, divided: Divided) -> Result<Box<dyn Group>> {
        let meeting = &self.meeting;
        {
            let mut state = locked(&meeting.state);
            state.shrinking.insert(self.rank);
            state.divided = state.divided.max(Some(divided));
        }
        meeting.cluster.has_happened();
        self.wait("the ranks that go on", |state| {
            state.shrunk.is_some()
                || (0..meeting.members.len())
                    .all(|rank| state.shrinking.contains(&rank) || meeting.is_gone(state, rank))
        });
        if locked(&meeting.state).shrunk.is_none() {
            self.make_shrunk();
        }
        let state = locked(&meeting.state);
        let Some((survivors, shrunk)) = &state.shrunk else { return Err(failed("the ranks cannot go on")) };
        let rank = survivors.iter().position(|rank| *rank == Some(self.rank));
        let rank = rank.ok_or_else(|| failed("the other ranks take this rank for a failed one"))?;
        self.generation.store(shrunk.generation, Ordering::Relaxed);
        *locked(&self.newest) = (rank, shrunk.clone());
        let mut goes_on = SimulatedGroup::new(rank, shrunk, Channel::Engine, self.newest.clone());
        goes_on.generation = self.generation.clone();
        Ok(Box::new(goes_on))
    }
}

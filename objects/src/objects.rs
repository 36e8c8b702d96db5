//! The objects of a job, as seen by one rank.

use crate::{
    balance::Strategy,
    index::Key,
    kind::{Kind, Maker, Object, fault},
    post::{Message, Post},
    wire::Wire,
};
use mainstay_engine::{
    Error, Region, Result, Saver, Session,
    space::format::{ElementType, PlaceInWhole},
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// The region that tells the engine that any number of ranks can take the state over.
const MARK: &str = "mainstay_objects";

/// When objects move to balance the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    pub strategy: Strategy,
    /// Interval in steps; 0: not by steps.
    pub every: u64,
    /// Number of steps after a failure; 0: not after failures.
    pub after_failure: u64,
}

/// The objects of a job on this rank, and the ranks of all others. For methods marked as collective, all ranks call
/// them in the same order. Only `step`, `checkpoint`, `balance` and `evacuate` deliver messages and call handlers.
pub struct Objects {
    pub(crate) wire: Box<dyn Wire>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) here: BTreeMap<Key, Held>,
    /// The rank of each object.
    pub(crate) map: HashMap<Key, u32>,
    /// Objects that were made here and are not announced to the others yet.
    pub(crate) fresh: BTreeSet<Key>,
    /// Messages to objects that are here.
    pub(crate) queue: VecDeque<Message>,
    /// Messages to objects that this rank does not know.
    pub(crate) parked: Vec<Message>,
    /// Outgoing bytes for each rank.
    pub(crate) leaving: Vec<Vec<u8>>,
    /// Memory for incoming bytes from each rank.
    pub(crate) arrived: Vec<Vec<u8>>,
    /// The time between two failures, or starts: a message of an older one is dropped.
    pub(crate) epoch: u64,
    pub(crate) post: Post,
    pub(crate) options: Options,
    pub(crate) steps: u64,
    /// Steps since ranks were lost, until the load was balanced after that.
    pub(crate) since_failure: Option<u64>,
    /// The number of this rank when it last restored.
    pub(crate) rank_before: Option<u32>,
    /// The number of this rank in the revisions that were saved since, and the first of those.
    pub(crate) saved_as: Option<(u64, u32)>,
    /// This rank should have no objects (`evacuate`).
    pub(crate) is_given_up: bool,
    /// The set of given-up ranks has changed since the last checkpoint.
    pub(crate) holders_change: bool,
    /// An error has left messages undelivered, or objects unrestored: the program must go back to a checkpoint before
    /// anything else. The same on all ranks.
    pub(crate) is_torn: bool,
    mark: Box<u64>,
    /// Keeps the session from saving without these objects; `None` until they are attached to it.
    pub(crate) saver: Option<Saver>,
}

/// Recent work of an object: each balancing of loads halves it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Nanoseconds of processor time, or the reported work (`Post::work`).
    pub load: u64,
    /// Bytes that its handlers have sent to other objects, on any rank.
    pub sent: BTreeMap<Key, u64>,
}

impl Measured {
    /// Older work counts less and less.
    pub(crate) fn age(&mut self) {
        self.load /= 2;
        self.sent.retain(|_, bytes| {
            *bytes /= 2;
            *bytes > 0
        });
    }
}

/// An object that is here.
pub(crate) struct Held {
    pub(crate) object: Box<dyn Object>,
    pub(crate) measured: Measured,
    /// A failure has taken its former rank.
    pub(crate) is_orphan: bool,
}

impl Objects {
    pub fn new(wire: Box<dyn Wire>, options: Options) -> Objects {
        let ranks = wire.ranks();
        Objects {
            wire,
            kinds: Vec::new(),
            here: BTreeMap::new(),
            map: HashMap::new(),
            fresh: BTreeSet::new(),
            queue: VecDeque::new(),
            parked: Vec::new(),
            leaving: vec![Vec::new(); ranks],
            arrived: vec![Vec::new(); ranks],
            epoch: 1,
            post: Post::default(),
            options,
            steps: 0,
            since_failure: None,
            rank_before: None,
            saved_as: None,
            is_given_up: false,
            holders_change: false,
            is_torn: false,
            mark: Box::default(),
            saver: None,
        }
    }

    /// Registers a kind of objects, and returns its number: all ranks register the same kinds in the same order, before
    /// any object is made or restored. `dimensions`: of their indices, as messages write them; 0: an index is just a
    /// number.
    pub fn register(&mut self, name: &str, dimensions: usize, make: Maker) -> Result<u32> {
        let known = self.kinds.iter().any(|kind| kind.name == name);
        if known || name.is_empty() || dimensions > 3 {
            let why = match known {
                true => "another kind of objects has this name; give each its own",
                false => "a kind of objects has a name, and at most three dimensions",
            };
            return Err(Error::argument(format!("kind {name:?}"), why));
        }
        self.kinds.push(Kind { name: name.to_owned(), dimensions, make });
        Ok(self.kinds.len() as u32 - 1)
    }

    pub fn rank(&self) -> usize {
        self.wire.rank()
    }

    pub fn ranks(&self) -> usize {
        self.wire.ranks()
    }

    /// The outlet for messages.
    pub fn post(&self) -> Post {
        self.post.clone()
    }

    /// Makes an object here, of the kind with this number. Local: the others learn of it when the step ends, or when
    /// this one is saved. No other rank may have an object with this index.
    pub fn create(&mut self, key: Key) -> Result<&mut dyn Object> {
        if self.map.contains_key(&key) || self.here.contains_key(&key) {
            return Err(fault(&self.name(key), self.rank(), "there is one of this index already; give each its own"));
        }
        let object = self.make(key)?;
        self.fresh.insert(key);
        self.here.insert(key, Held { object, measured: Measured::default(), is_orphan: false });
        self.get(key).ok_or_else(|| Error::Internal { what: "an object that was just made".to_owned() })
    }

    /// An object that is here.
    pub fn get(&mut self, key: Key) -> Option<&mut dyn Object> {
        // A plain `map` would tie the object's own lifetime to that of the borrow.
        match self.here.get_mut(&key) {
            Some(held) => Some(&mut *held.object),
            None => None,
        }
    }

    /// The objects that are here, in order.
    pub fn here(&self) -> Vec<Key> {
        self.here.keys().copied().collect()
    }

    /// The rank of an object, as far as all ranks know.
    pub fn rank_of(&self, key: Key) -> Option<usize> {
        self.map.get(&key).map(|rank| *rank as usize)
    }

    /// Recent work of an object that is here.
    pub fn measured(&self, key: Key) -> Option<&Measured> {
        self.here.get(&key).map(|held| &held.measured)
    }

    /// Number of objects that all ranks know.
    pub fn count(&self) -> usize {
        self.map.len()
    }

    /// Steps that have ended.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// An object's name in messages.
    pub fn name(&self, key: Key) -> String {
        match self.kinds.get(key.kind as usize) {
            Some(kind) => kind.object(key.id),
            None => format!("of the kind number {}, index {}", key.kind, key.id),
        }
    }

    /// Refuses to go on, or to save, after messages or objects were lost. The same on all ranks.
    pub(crate) fn check_whole(&self, call: &str) -> Result<()> {
        if !self.is_torn {
            return Ok(());
        }
        let why =
            "an error has left messages undelivered, or objects unrestored; go back to a checkpoint by restore, or end";
        Err(Error::argument(format!("{call} of objects"), why))
    }

    pub(crate) fn make(&self, key: Key) -> Result<Box<dyn Object>> {
        let Some(kind) = self.kinds.get(key.kind as usize) else {
            let why = "its kind is not registered here; register the same kinds on all ranks, before the first object";
            return Err(fault(&self.name(key), self.rank(), why));
        };
        (kind.make)(key.id)
            .map_err(|error| fault(&self.name(key), self.rank(), format!("it could not be made: {error}")))
    }

    /// From here on `session` saves nothing without these objects, until they are dropped or forgotten; without this
    /// call that begins with the first `restore` or `checkpoint`. `InvalidArgument` if there are other objects on it.
    /// Local.
    pub fn attach(&mut self, session: &mut Session) -> Result<()> {
        if self.saver.is_none() {
            self.saver = Some(session.reserve_saving()?);
        }
        Ok(())
    }

    /// Tells the engine that other numbers of ranks can take the state over.
    pub(crate) fn protect_mark(&mut self, session: &mut Session) -> Result<()> {
        self.attach(session)?;
        // Without a cell: for a cell that all ranks have, the whole shard with it would be brought to each of them.
        let place = PlaceInWhole { global_shape: vec![1], offset: vec![0] };
        // SAFETY: the box stays in place until `forget`, or the end of the session, which the caller guarantees.
        #[allow(unsafe_code)]
        let region = unsafe { Region::placed(MARK, (&raw mut *self.mark).cast(), ElementType::U64, &[0], place) }?;
        match session.protect(region) {
            // After a recovery, which keeps protected regions.
            Err(Error::DuplicateName { .. }) => Ok(()),
            protected => protected,
        }
    }

    /// Removes the protected data of these objects from `session`: before they are dropped, if the session goes on.
    pub fn forget(&mut self, session: &mut Session) -> Result<()> {
        self.saver = None;
        match session.unprotect(MARK) {
            Err(Error::RegionMissing { .. }) => Ok(()),
            done => done,
        }
    }
}

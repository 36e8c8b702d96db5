//! The objects of a job, as one rank has them.

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

/// The region by which the engine knows that any number of ranks can take the state over.
const MARK: &str = "mainstay_objects";

/// When objects move to balance the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    pub strategy: Strategy,
    /// Every so many steps; 0: not by steps.
    pub every: u64,
    /// So many steps after a failure; 0: not for that.
    pub after_failure: u64,
}

/// The objects of a job on this rank, and where all others are. Methods that say so are collective: all ranks call them in
/// the same order. Nothing is delivered, and no handler called, but in `step`, `checkpoint`, `balance` and `evacuate`.
pub struct Objects {
    pub(crate) wire: Box<dyn Wire>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) here: BTreeMap<Key, Held>,
    /// On which rank each object is.
    pub(crate) map: HashMap<Key, u32>,
    /// Objects that were made here, of which the others do not know yet.
    pub(crate) fresh: BTreeSet<Key>,
    /// Messages to objects that are here.
    pub(crate) queue: VecDeque<Message>,
    /// Messages to objects that this rank does not know.
    pub(crate) parked: Vec<Message>,
    /// For each rank, what is to be sent there.
    pub(crate) leaving: Vec<Vec<u8>>,
    /// For each rank, memory for what comes from there.
    pub(crate) arrived: Vec<Vec<u8>>,
    /// The time between two failures, or starts: a message of an older one is dropped.
    pub(crate) epoch: u64,
    pub(crate) post: Post,
    pub(crate) options: Options,
    pub(crate) steps: u64,
    /// Steps since ranks were lost, until that was balanced.
    pub(crate) since_failure: Option<u64>,
    /// The number that this rank had when it last restored.
    pub(crate) rank_before: Option<u32>,
    /// The number that this rank has in the revisions that were saved since, and the first of those.
    pub(crate) saved_as: Option<(u64, u32)>,
    /// This rank is to have no objects (`evacuate`).
    pub(crate) is_given_up: bool,
    /// Who is given up has changed since the last checkpoint.
    pub(crate) holders_change: bool,
    /// An error has left messages undelivered, or objects unrestored: the program goes back to a checkpoint before anything
    /// else. The same on all ranks.
    pub(crate) is_torn: bool,
    mark: Box<u64>,
    /// That the session saves nothing without these objects; `None` until they are known to it.
    pub(crate) saver: Option<Saver>,
}

/// What an object has done of late: the last time that loads were balanced halved it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Nanoseconds of a processor, or what it has told (`Post::work`).
    pub load: u64,
    /// Bytes that its handlers have sent to other objects, wherever those are.
    pub sent: BTreeMap<Key, u64>,
}

impl Measured {
    /// What was long ago counts less and less.
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
    /// A failure has taken the rank where it was.
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

    /// Makes a kind of objects known, and returns its number: all ranks register the same kinds in the same order, before
    /// any object is made or restored. `dimensions` of their indices, as messages write them; 0: an index is just a number.
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

    /// Where messages are handed over.
    pub fn post(&self) -> Post {
        self.post.clone()
    }

    /// Makes an object here, of the kind of this number. Local: the others learn of it when the step ends, or when this one
    /// is saved. An object of this index may be on no other rank.
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

    /// The rank on which an object is, as far as all ranks know.
    pub fn rank_of(&self, key: Key) -> Option<usize> {
        self.map.get(&key).map(|rank| *rank as usize)
    }

    /// What an object that is here has done of late.
    pub fn measured(&self, key: Key) -> Option<&Measured> {
        self.here.get(&key).map(|held| &held.measured)
    }

    /// How many objects all ranks know of.
    pub fn count(&self) -> usize {
        self.map.len()
    }

    /// Steps that have ended.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// An object as messages name it.
    pub fn name(&self, key: Key) -> String {
        match self.kinds.get(key.kind as usize) {
            Some(kind) => kind.object(key.id),
            None => format!("of the kind number {}, index {}", key.kind, key.id),
        }
    }

    /// Refuses to go on, or to save, where messages or objects are lost. The same on all ranks.
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

    /// Has `session` save nothing without these objects from here on, until they are dropped or forgotten: else that begins with the
    /// first `restore` or `checkpoint`. `InvalidArgument` if there are other objects on it. Local.
    pub fn attach(&mut self, session: &mut Session) -> Result<()> {
        if self.saver.is_none() {
            self.saver = Some(session.reserve_saving()?);
        }
        Ok(())
    }

    /// Has the engine know that the state is one that other numbers of ranks can take over.
    pub(crate) fn protect_mark(&mut self, session: &mut Session) -> Result<()> {
        self.attach(session)?;
        // Without a cell: for one that all ranks have, the shard that it is in would be brought to each of them, whole.
        let place = PlaceInWhole { global_shape: vec![1], offset: vec![0] };
        // SAFETY: the box stays where it is until `forget`, or the end of the session, which the caller sees to.
        #[allow(unsafe_code)]
        let region = unsafe { Region::placed(MARK, (&raw mut *self.mark).cast(), ElementType::U64, &[0], place) }?;
        match session.protect(region) {
            // As after a recovery, which keeps what is protected.
            Err(Error::DuplicateName { .. }) => Ok(()),
            protected => protected,
        }
    }

    /// Takes out of `session` what these objects have protected there: before they are dropped, if the session goes on.
    pub fn forget(&mut self, session: &mut Session) -> Result<()> {
        self.saver = None;
        match session.unprotect(MARK) {
            Err(Error::RegionMissing { .. }) => Ok(()),
            done => done,
        }
    }
}

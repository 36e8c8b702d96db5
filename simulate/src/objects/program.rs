//! The program of a rank: objects with the kinds of the model, which compare themselves with it.

use super::{
    model::{Letter, Model, Models, Receiver, Results, Tally},
    wire::SimulatedWire,
};
use crate::{
    acts::{Act, ObjectSetting},
    group::ProgramChannel,
    lock::locked,
    mark::Mark,
    workload::{Restoring, Workload},
};
use mainstay_engine::{Error, Region, Session};
use mainstay_objects::{Key, Object, Objects, Op, Options, Post};
use std::{
    any::Any,
    sync::{Arc, Mutex},
};

const LETTER: u32 = 1;
const SUM: u32 = 7;
const MAX: u32 = 8;
const HEAD_BYTES: usize = 32;

/// An object. The messages that it got decide the size and the bytes of its tail.
struct Cell {
    mark: Mark,
    tally: Tally,
}

impl Cell {
    fn packed(&self) -> Vec<u8> {
        let Cell { mark, tally } = self;
        let mut random = fastrand::Rng::with_seed(tally.sum ^ tally.messages);
        let most = if random.u8(0..10) == 0 { 9000 } else { 200 };
        let mut tail = vec![0; random.usize(0..most)];
        random.fill(&mut tail);
        let words = [mark.run, mark.step, tally.messages, tally.sum];
        words.iter().flat_map(|word| word.to_le_bytes()).chain(tail).collect()
    }
}

impl Object for Cell {
    fn bytes(&self) -> Result<usize, Error> {
        Ok(self.packed().len())
    }

    fn pack(&self, into: &mut [u8]) -> Result<usize, Error> {
        into.copy_from_slice(&self.packed());
        Ok(into.len())
    }

    fn unpack(&mut self, from: &[u8]) -> Result<usize, Error> {
        let (words, _) = from[..HEAD_BYTES].as_chunks();
        let [run, step, messages, sum] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
        *self = Cell { mark: Mark { run, step }, tally: Tally { messages, sum } };
        if self.packed() == from { Ok(from.len()) } else { Err(Error::argument("a packed object", "it is a mixture")) }
    }

    fn receive(&mut self, _method: u32, bytes: &[u8], post: &Post) -> Result<(), Error> {
        let letter = Letter::read(bytes).ok_or_else(|| Error::argument("a message", "its bytes are wrong"))?;
        self.tally.add(letter);
        // Measured time would differ from run to run.
        post.work(1 + letter.number % 5);
        post.contribute(SUM, Op::Sum, &[letter.weight(), 1.0]);
        post.contribute(MAX, Op::Max, &[letter.weight()]);
        if let Some((to, letter)) = letter.next() {
            post.send(to, LETTER, &letter.bytes());
        }
        Ok(())
    }
}

/// The objects of one rank, and those of all ranks as they should be.
pub struct ObjectsProgram {
    objects: Objects,
    wire: SimulatedWire,
    setting: ObjectSetting,
    /// The mark of the state, in a region beside the objects.
    mark: Box<[u64; 2]>,
    model: Model,
    models: Arc<Mutex<Models>>,
    run: u64,
    /// Comparisons with the model since the run began.
    looks: u64,
}

impl ObjectsProgram {
    pub fn new(
        channel: ProgramChannel,
        setting: ObjectSetting,
        models: Arc<Mutex<Models>>,
    ) -> Result<ObjectsProgram, Error> {
        let wire = SimulatedWire::new(channel);
        let ObjectSetting { strategy, every, after_failure, .. } = setting;
        let mut objects = Objects::new(Box::new(wire.clone()), Options { strategy, every, after_failure });
        for name in ["even", "odd"] {
            objects.register(name, 1, Box::new(|_| Ok(Box::new(new_cell()))))?;
        }
        let (mark, model, run, looks) = Default::default();
        Ok(ObjectsProgram { objects, wire, setting, mark, model, models, run, looks })
    }

    /// Makes objects. Each rank makes its part.
    fn create(&mut self, count: u64) -> Result<(), Error> {
        let (rank, ranks) = (self.objects.rank(), self.objects.ranks());
        for key in self.model.create(count) {
            if key.id as usize % ranks == rank {
                self.objects.create(key)?;
            }
        }
        Ok(())
    }

    /// Sends the messages of the objects that are here.
    fn send(&mut self) {
        let post = self.objects.post();
        for sending in self.model.send(self.run) {
            if self.objects.get(sending.with).is_some() {
                match sending.to {
                    Receiver::One(to) => post.send(to, LETTER, &sending.letter.bytes()),
                    Receiver::All(kind) => post.broadcast(kind, LETTER, &sending.letter.bytes()),
                }
            }
        }
    }

    fn cell(&mut self, key: Key) -> Option<&mut Cell> {
        let object: &mut dyn Any = self.objects.get(key)?;
        object.downcast_mut()
    }

    /// Compares the objects with the model. Each rank does so at the same moments.
    fn compare(&mut self) -> Result<(), String> {
        let (rank, ranks, here) = (self.objects.rank(), self.objects.ranks(), self.objects.here());
        self.looks += 1;
        locked(&self.models).see((self.run, self.looks), (rank, ranks), &here, self.model.objects.len())?;
        for key in &here {
            let right = self.model.objects.get(key).copied();
            let found = self.cell(*key).map(|cell| cell.tally);
            if found != right {
                return Err(format!("{key:?} is {found:?} on rank {rank}, and should be {right:?}"));
            }
        }
        let misplaced = |key: &&Key| (self.objects.rank_of(**key) == Some(rank)) != here.contains(key);
        match self.model.objects.keys().find(misplaced) {
            Some(key) => Err(format!("rank {rank} has a wrong place of {key:?}: {:?}", self.objects.rank_of(*key))),
            None => Ok(()),
        }
    }

    fn results(&self) -> Option<Results> {
        let (sum, max) = (self.objects.post().result(SUM)?, self.objects.post().result(MAX)?);
        Some(Results { sum: sum.try_into().ok()?, max: max.try_into().ok()? })
    }

    /// Compares the restored objects with the model of their mark.
    fn has_come_back(&mut self, came: usize) -> Result<Mark, String> {
        let mark = Mark { run: self.mark[0], step: self.mark[1] };
        self.model = locked(&self.models).of(mark)?;
        for key in self.objects.here() {
            let of = self.cell(key).map(|cell| cell.mark);
            if of != Some(mark) {
                return Err(format!("{key:?} comes back from {of:?}, beside a region of {mark:?}"));
            }
        }
        if came != self.model.objects.len() {
            return Err(format!("{came} of {} objects come back", self.model.objects.len()));
        }
        self.compare()?;
        Ok(mark)
    }
}

fn new_cell() -> Cell {
    Cell { mark: Mark { run: 0, step: 0 }, tally: Tally::default() }
}

impl Workload for ObjectsProgram {
    fn protect(&mut self, session: &mut Session) -> Result<(), Error> {
        // SAFETY: the memory stays until the session is gone.
        #[allow(unsafe_code)]
        let region = unsafe { Region::new("mark", self.mark.as_mut_ptr().cast(), 16) };
        session.protect(region?)?;
        session.same_on_all_ranks("mark")
    }

    fn goes_on(&mut self, _session: &mut Session, _rank: usize, _ranks: usize) -> Result<(), Error> {
        self.wire.goes_on();
        Ok(())
    }

    fn fill(&mut self, _session: &mut Session, mark: Mark, _bytes: usize) -> Result<(), Error> {
        *self.mark = [mark.run, mark.step];
        for key in self.objects.here() {
            self.cell(key).expect("an object that is here").mark = mark;
        }
        Ok(())
    }

    fn save(&mut self, session: &mut Session) -> Result<u64, Error> {
        self.model.deliver();
        let mark = Mark { run: self.mark[0], step: self.mark[1] };
        let saved = locked(&self.models).save(mark, &self.model);
        saved.map_err(|what| Error::Internal { what })?;
        self.objects.checkpoint(session)
    }

    fn restore(&mut self, session: &mut Session, run: u64) -> Result<Option<Mark>, Restoring> {
        (self.run, self.looks) = (run, 0);
        match self.objects.restore(session).map_err(Restoring::Refused)? {
            Some(came) => self.has_come_back(came.objects).map(Some).map_err(Restoring::Wrong),
            None => {
                self.model = Model::default();
                self.create(self.setting.count).map_err(Restoring::Refused)?;
                Ok(None)
            }
        }
    }

    fn end(&mut self) {
        self.wire.end();
    }

    fn act(&mut self, act: Act) -> Result<(), Restoring> {
        let refused = Restoring::Refused;
        match act {
            Act::Send => {
                self.send();
                return Ok(());
            }
            Act::Create { count } => return self.create(count).map_err(refused),
            Act::Step => {
                self.send();
                self.objects.step().map_err(refused)?;
                let (found, right) = (self.results(), self.model.step());
                if found != right {
                    return Err(Restoring::Wrong(format!("a step has {found:?}, and should have {right:?}")));
                }
            }
            Act::Balance(strategy) => drop(self.objects.balance(strategy).map_err(refused)?),
            Act::Evacuate { given_up } => {
                // The last rank stays.
                let ranks: Vec<usize> =
                    (0..self.objects.ranks() - 1).filter(|rank| given_up >> rank & 1 == 1).collect();
                self.objects.evacuate(&ranks).map_err(refused)?;
                if ranks.contains(&self.objects.rank()) && !self.objects.here().is_empty() {
                    return Err(Restoring::Wrong("a rank that is given up has objects".to_owned()));
                }
            }
        }
        self.model.deliver();
        self.compare().map_err(Restoring::Wrong)
    }
}

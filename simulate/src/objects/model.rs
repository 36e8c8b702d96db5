//! The right states of objects. Each is a function of the messages that the object got, in any order.

use crate::mark::Mark;
use mainstay_objects::Key;
use std::collections::BTreeMap;

/// A number that looks random and depends on `of` alone.
pub(super) fn mixed(of: u64) -> u64 {
    fastrand::Rng::with_seed(of).u64(..)
}

/// The object with this number. There are two kinds.
fn key_of(number: u64) -> Key {
    Key { kind: (number % 2) as u32, id: number }
}

/// The messages that an object got: their count, and the sum of their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub messages: u64,
    pub sum: u64,
}

impl Tally {
    pub fn add(&mut self, letter: Letter) {
        self.messages += 1;
        self.sum = self.sum.wrapping_add(letter.number);
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Letter {
    pub number: u64,
    /// How many more objects it goes to, one after the other.
    hops: u64,
    /// The number of objects.
    objects: u64,
}

impl Letter {
    /// The bytes of the message. The number decides the size and the bytes of their tail.
    pub fn bytes(self) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(self.number);
        let most = if random.u8(0..20) == 0 { 3000 } else { 40 };
        let mut tail = vec![0; random.usize(0..most)];
        random.fill(&mut tail);
        let words = [self.number, self.hops, self.objects];
        words.iter().flat_map(|word| word.to_le_bytes()).chain(tail).collect()
    }

    /// `None`: not the bytes of a message.
    pub fn read(bytes: &[u8]) -> Option<Letter> {
        let word = |at: usize| bytes.get(8 * at..8 * at + 8)?.try_into().map(u64::from_le_bytes).ok();
        let letter = Letter { number: word(0)?, hops: word(1)?, objects: word(2)? };
        (letter.bytes() == bytes).then_some(letter)
    }

    /// The message that its receiver sends on.
    pub fn next(self) -> Option<(Key, Letter)> {
        let hops = self.hops.checked_sub(1)?;
        let number = mixed(self.number);
        Some((key_of(mixed(!number) % self.objects), Letter { number, hops, ..self }))
    }

    /// Its contribution to the results of the step.
    pub fn weight(self) -> f64 {
        (self.number >> 44) as f64
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    One(Key),
    /// All of a kind.
    All(u32),
}

/// A message that the program sends on the rank of the object `with`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sending {
    pub with: Key,
    pub to: Receiver,
    pub letter: Letter,
}

/// The results of a step: the sum and the number of contributions, and the largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Results {
    pub sum: [f64; 2],
    pub max: [f64; 1],
}

/// The objects of all ranks, as they should be.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Model {
    pub objects: BTreeMap<Key, Tally>,
    under_way: Vec<Sending>,
    parts: Option<Results>,
    /// How often the program has sent messages.
    times: u64,
}

impl Model {
    /// Adds objects, and returns them.
    pub fn create(&mut self, count: u64) -> Vec<Key> {
        let first = self.objects.len() as u64;
        let new: Vec<Key> = (first..first + count).map(key_of).collect();
        self.objects.extend(new.iter().map(|key| (*key, Tally::default())));
        new
    }

    /// Sends messages in the run `run`, and returns them.
    pub fn send(&mut self, run: u64) -> Vec<Sending> {
        self.times += 1;
        let mut random = fastrand::Rng::with_seed(run << 20 | self.times);
        let objects = self.objects.len() as u64;
        let mut all = Vec::new();
        for with in self.objects.keys() {
            for _ in 0..random.usize(0..3) {
                let letter = Letter { number: random.u64(..), hops: random.u64(0..4), objects };
                let to = match random.u8(0..10) {
                    // Each receiver sends on.
                    0 => Receiver::All(random.u32(0..2)),
                    _ => Receiver::One(key_of(random.u64(0..objects))),
                };
                all.push(Sending { with: *with, to, letter });
            }
        }
        self.under_way.extend(&all);
        all
    }

    /// Delivers all messages.
    pub fn deliver(&mut self) {
        while let Some(Sending { to, letter, .. }) = self.under_way.pop() {
            let receivers: Vec<Key> = match to {
                Receiver::One(key) => vec![key],
                Receiver::All(kind) => self.objects.keys().filter(|key| key.kind == kind).copied().collect(),
            };
            for with in receivers {
                self.objects.get_mut(&with).expect("an object that there is").add(letter);
                let (weight, before) = (letter.weight(), self.parts.unwrap_or(Results { sum: [0.0; 2], max: [0.0] }));
                let [sum, count] = before.sum;
                self.parts = Some(Results { sum: [sum + weight, count + 1.0], max: [before.max[0].max(weight)] });
                if let Some((to, letter)) = letter.next() {
                    self.under_way.push(Sending { with, to: Receiver::One(to), letter });
                }
            }
        }
    }

    /// Ends a step, and returns its results.
    pub fn step(&mut self) -> Option<Results> {
        self.deliver();
        self.parts.take()
    }
}

/// The models of a run of a plan, for all ranks and jobs.
#[derive(Debug, Default)]
pub struct Models {
    saved: BTreeMap<Mark, Model>,
    /// For each moment of each run: the rank of each object, and the number of ranks that have told theirs.
    seen: BTreeMap<(u64, u64), (BTreeMap<Key, usize>, usize)>,
}

impl Models {
    /// The ranks save `model` as `mark`.
    pub(super) fn save(&mut self, mark: Mark, model: &Model) -> Result<(), String> {
        // The results of a step that has not ended are not saved.
        let model = Model { parts: None, ..model.clone() };
        let known = self.saved.entry(mark).or_insert_with(|| model.clone());
        if *known == model { Ok(()) } else { Err(format!("the ranks save different states as {mark:?}")) }
    }

    pub(super) fn of(&self, mark: Mark) -> Result<Model, String> {
        self.saved.get(&mark).cloned().ok_or_else(|| format!("{mark:?} comes back, and was never saved"))
    }

    /// A rank tells its objects at a moment of a run. Fails if not each of all `count` objects is on one of the `ranks`.
    pub(super) fn see(
        &mut self,
        at: (u64, u64),
        (rank, ranks): (usize, usize),
        here: &[Key],
        count: usize,
    ) -> Result<(), String> {
        self.seen.retain(|(run, _), _| *run == at.0);
        let (seen, told) = self.seen.entry(at).or_default();
        for key in here {
            if let Some(other) = seen.insert(*key, rank) {
                return Err(format!("{key:?} is on ranks {other} and {rank}"));
            }
        }
        *told += 1;
        if *told < ranks || seen.len() == count {
            return Ok(());
        }
        Err(format!("{} of {count} objects are left", seen.len()))
    }
}

//! Outgoing data of objects and programs: messages, and parts of sums over all objects. They are delivered, and added
//! up, when the step ends.

use crate::{exact::Exact, index::Key};
use serde::{Deserialize, Serialize};
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

/// Takes outgoing messages; each clone is the same one. Only for the thread that calls [`crate::Objects`].
#[derive(Clone, Default)]
pub struct Post(Rc<RefCell<HandoverCounts>>);

/// Bytes of memory of delivered messages that are kept for later ones: making memory costs more than filling it.
const KEPT_BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
struct HandoverCounts {
    messages: Vec<Message>,
    /// Memory of delivered messages, and its size.
    kept: Vec<Vec<u8>>,
    kept_bytes: usize,
    /// The object that is handling a message.
    at_work: Option<Key>,
    /// Work that it has reported, in units of its own.
    told: Option<u64>,
    /// Bytes that it has sent, one entry for each message.
    sent: Vec<(Key, u64)>,
    parts: Parts,
    results: BTreeMap<u32, Vec<f64>>,
}

/// The receivers of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    One(Key),
    /// All objects of a kind, through a tree of ranks with this root.
    All {
        kind: u32,
        root: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) to: To,
    pub(crate) method: u32,
    pub(crate) bytes: Vec<u8>,
    /// The sender.
    pub(crate) from: Option<Key>,
}

impl Message {
    pub(crate) fn carried(&self) -> Carried<'_> {
        Carried { to: self.to, method: self.method, bytes: &self.bytes }
    }
}

/// A message on its way from rank to rank, and to objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carried<'a> {
    pub(crate) to: To,
    pub(crate) method: u32,
    pub(crate) bytes: &'a [u8],
}

/// How the parts of a result are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// The sum, rounded once: the same wherever the objects are.
    Sum,
    Min,
    Max,
}

/// Applies `of` to both numbers; NaN if one of them is NaN, as in a sum.
fn of_both(of: fn(f64, f64) -> f64, one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() { f64::NAN } else { of(one, other) }
}

/// Contributions, by the number of the result.
pub(crate) type Parts = BTreeMap<u32, Part>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Part {
    Sum(Vec<Exact>),
    Min(Vec<f64>),
    Max(Vec<f64>),
}

impl Part {
    fn of(op: Op, values: usize) -> Part {
        match op {
            Op::Sum => Part::Sum(vec![Exact::default(); values]),
            Op::Min => Part::Min(vec![f64::INFINITY; values]),
            Op::Max => Part::Max(vec![f64::NEG_INFINITY; values]),
        }
    }

    /// `false`: the number of values differs.
    fn add(&mut self, values: &[f64]) -> bool {
        match self {
            Part::Sum(sums) if sums.len() == values.len() => {
                sums.iter_mut().zip(values).for_each(|(sum, value)| sum.add(*value));
            }
            Part::Min(all) if all.len() == values.len() => {
                all.iter_mut().zip(values).for_each(|(one, value)| *one = of_both(f64::min, *one, *value));
            }
            Part::Max(all) if all.len() == values.len() => {
                all.iter_mut().zip(values).for_each(|(one, value)| *one = of_both(f64::max, *one, *value));
            }
            _ => return false,
        }
        true
    }

    /// `false`: the parts have different kinds.
    pub(crate) fn add_all(&mut self, other: &Part) -> bool {
        match (self, other) {
            (Part::Sum(sums), Part::Sum(more)) if sums.len() == more.len() => {
                sums.iter_mut().zip(more).for_each(|(sum, more)| sum.add_all(more));
                true
            }
            (mine @ Part::Min(_), Part::Min(values)) | (mine @ Part::Max(_), Part::Max(values)) => mine.add(values),
            _ => false,
        }
    }

    pub(crate) fn values(&self) -> Vec<f64> {
        match self {
            Part::Sum(sums) => sums.iter().map(Exact::value).collect(),
            Part::Min(values) | Part::Max(values) => values.clone(),
        }
    }

    fn is_of(&self, op: Op) -> bool {
        matches!((self, op), (Part::Sum(_), Op::Sum) | (Part::Min(_), Op::Min) | (Part::Max(_), Op::Max))
    }
}

impl Post {
    /// Calls `method` of the object `to` with `bytes`, on any rank, before the step ends.
    pub fn send(&self, to: Key, method: u32, bytes: &[u8]) {
        self.hand_over(To::One(to), method, bytes);
    }

    /// Calls `method` of all objects of the kind with the number `kind`.
    pub fn broadcast(&self, kind: u32, method: u32, bytes: &[u8]) {
        self.hand_over(To::All { kind, root: u32::MAX }, method, bytes);
    }

    /// Adds `values` to the result with this number, which all ranks have once the step has ended. `false`: another
    /// part of it has another operation, or another number of values.
    pub fn contribute(&self, result: u32, op: Op, values: &[f64]) -> bool {
        let mut post = self.0.borrow_mut();
        let part = post.parts.entry(result).or_insert_with(|| Part::of(op, values.len()));
        part.is_of(op) && part.add(values)
    }

    /// The result of the last ended step; `None` if there was no contribution.
    pub fn result(&self, result: u32) -> Option<Vec<f64>> {
        self.0.borrow().results.get(&result).cloned()
    }

    /// Counts the work of the current object as `units` more, in place of its measured time: all objects must do so, or
    /// none.
    pub fn work(&self, units: u64) {
        let mut post = self.0.borrow_mut();
        post.told = Some(post.told.unwrap_or(0) + units);
    }

    fn hand_over(&self, to: To, method: u32, bytes: &[u8]) {
        let mut post = self.0.borrow_mut();
        let from = post.at_work;
        if let (Some(_), To::One(key)) = (from, to) {
            post.sent.push((key, bytes.len() as u64));
        }
        let mut own = post.kept.pop().unwrap_or_default();
        post.kept_bytes -= own.capacity();
        own.extend_from_slice(bytes);
        post.messages.push(Message { to, method, bytes: own, from });
    }

    /// Takes back the memory of delivered messages.
    pub(crate) fn keep(&self, delivered: impl IntoIterator<Item = Message>) {
        let mut post = self.0.borrow_mut();
        for Message { mut bytes, .. } in delivered {
            if post.kept_bytes + bytes.capacity() <= KEPT_BYTES_MAX {
                bytes.clear();
                post.kept_bytes += bytes.capacity();
                post.kept.push(bytes);
            }
        }
    }

    pub(crate) fn begin_work(&self, key: Option<Key>) {
        let mut post = self.0.borrow_mut();
        (post.at_work, post.told) = (key, None);
    }

    /// The reported work of the current object, and the receivers and sizes of its messages.
    pub(crate) fn end_work(&self) -> (Option<u64>, Vec<(Key, u64)>) {
        let mut post = self.0.borrow_mut();
        post.at_work = None;
        (post.told.take(), std::mem::take(&mut post.sent))
    }

    pub(crate) fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.0.borrow_mut().messages)
    }

    pub(crate) fn has_parts(&self) -> bool {
        !self.0.borrow().parts.is_empty()
    }

    pub(crate) fn take_parts(&self) -> Parts {
        std::mem::take(&mut self.0.borrow_mut().parts)
    }

    pub(crate) fn set_results(&self, results: BTreeMap<u32, Vec<f64>>) {
        self.0.borrow_mut().results = results;
    }

    /// Forgets all outgoing data and all results.
    pub(crate) fn clear(&self) {
        *self.0.borrow_mut() = HandoverCounts::default();
    }
}

//! The readers of foreign bytes that no public function reaches alone, for `mainstay-fuzz`.

use crate::{
    Key, Object, Objects, Options, Post,
    checkpoint::{Index, Row},
    deliver::{unite, write},
    post::{Carried, Part, Parts, To},
    tree::{decode, encode},
    wire::{Arriving, Wire},
};
use mainstay_engine::Result;
use std::collections::BTreeMap;

const CELL: Key = Key { kind: 0, id: 5 };

/// The list of the objects in a shard, written again.
pub fn index(bytes: &[u8]) -> Result<Vec<u8>> {
    encode(&decode::<Index>(bytes)?)
}

/// The list of one object of each kind.
pub fn index_of(kinds: &[&str]) -> Result<Vec<u8>> {
    let row = |kind| Row { key: Key { kind, id: 1 << 40 }, offset: 100, bytes: 3000, load: 77 };
    let rows = (0..kinds.len() as u32).map(row).collect();
    encode(&Index { kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(), steps: 12, rows })
}

/// Contributions of two ranks to results. Returns the number of values.
pub fn results(bytes: &[u8]) -> Result<usize> {
    let parts: Parts = decode(bytes)?;
    let values = |parts: Parts| parts.values().map(|part: &Part| part.values().len()).sum();
    Ok(unite(parts.clone(), parts).map_or(0, values))
}

/// Contributions to a sum and a maximum, as ranks send them.
pub fn contributions(values: &[f64]) -> Result<Vec<u8>> {
    let post = Post::default();
    post.contribute(0, crate::Op::Sum, values);
    post.contribute(1, crate::Op::Max, values);
    encode(&post.take_parts())
}

/// Delivers the messages of another rank.
pub fn messages(bytes: &[u8]) -> Result<()> {
    objects()?.take_in(1, bytes)
}

/// Messages as another rank sends them: one to an object, and the others to all.
pub fn messages_of(bodies: &[&[u8]]) -> Result<Vec<u8>> {
    let mut sent = objects()?.epoch.to_le_bytes().to_vec();
    for (body, is_first) in bodies.iter().zip([true].into_iter().chain(std::iter::repeat(false))) {
        let to = if is_first { To::One(CELL) } else { To::All { kind: CELL.kind, root: 1 } };
        write(Carried { to, method: 7, bytes: body }, &mut sent);
    }
    Ok(sent)
}

/// Unpacks the objects that come from another rank. Returns their number.
pub fn arriving(bytes: &[u8]) -> Result<usize> {
    let mut came = BTreeMap::new();
    objects()?.unpack_all(1, bytes, &mut came)?;
    Ok(came.len())
}

/// The bytes of an object that moves to another rank.
pub fn leaving(contents: &[u8]) -> Result<Vec<u8>> {
    let (mut objects, mut bytes) = (objects()?, Vec::new());
    if let Some(object) = objects.get(CELL) {
        object.unpack(contents)?;
    }
    objects.pack_into(CELL, &mut bytes)?;
    Ok(bytes)
}

/// The objects of the first of two ranks.
fn objects() -> Result<Objects> {
    let mut objects = Objects::new(Box::new(Pair), Options::default());
    objects.register("cell", 1, Box::new(|_| Ok(Box::new(Bytes(Vec::new())))))?;
    objects.create(CELL)?;
    Ok(objects)
}

/// An object that is its packed bytes.
struct Bytes(Vec<u8>);

impl Object for Bytes {
    fn bytes(&self) -> Result<usize> {
        Ok(self.0.len())
    }

    fn pack(&self, into: &mut [u8]) -> Result<usize> {
        into.copy_from_slice(&self.0);
        Ok(into.len())
    }

    fn unpack(&mut self, from: &[u8]) -> Result<usize> {
        self.0 = from.to_vec();
        Ok(from.len())
    }

    fn receive(&mut self, _: u32, _: &[u8], _: &Post) -> Result<()> {
        Ok(())
    }
}

/// The wire of the first of two ranks. It carries nothing.
struct Pair;

impl Wire for Pair {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        2
    }

    fn swap(&self, _: &[u64], _: &mut [u64]) -> Result<()> {
        Ok(())
    }

    fn exchange(&self, _: &[(usize, &[u8])], _: &mut Vec<Arriving>, _: &mut dyn FnMut() -> bool) -> Result<()> {
        Ok(())
    }
}

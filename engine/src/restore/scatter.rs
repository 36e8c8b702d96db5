//! Distributes the bytes of a portion: the extents of items, each with its owner.

use crate::space::format::Item;

/// The source of zeros; this many bytes at most are passed at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Extents, ascending. They may overlap: items may share bytes.
pub(crate) struct Scatter<T> {
    extents: Vec<ItemPart<T>>,
    /// Stretches of zeros, which are not stored: the owner, the offset in the owner's bytes, and the length.
    zeros: Vec<(T, u64, u64)>,
}

struct ItemPart<T> {
    at: u64,
    bytes: u64,
    owner: T,
    /// The offset of the extent in its owner's bytes.
    offset: u64,
    /// The largest offset at which this extent or one before it ends.
    reach: u64,
}

impl<T: Copy> Scatter<T> {
    pub(crate) fn new<'a>(items: impl IntoIterator<Item = (&'a Item, T)>) -> Scatter<T> {
        let (mut extents, mut zeros) = (Vec::new(), Vec::new());
        for (item, owner) in items {
            let mut offset = 0;
            for extent in &item.extents {
                match extent.is_zeros() {
                    true => zeros.push((owner, offset, extent.bytes)),
                    false => extents.push(ItemPart { at: extent.at, bytes: extent.bytes, owner, offset, reach: 0 }),
                }
                offset += extent.bytes;
            }
        }
        extents.sort_by_key(|target| target.at);
        let mut reach = 0;
        for target in &mut extents {
            reach = reach.max(target.at + target.bytes);
            target.reach = reach;
        }
        Scatter { extents, zeros }
    }

    /// Calls `put` with all zeros, in parts: the owner, the offset in the owner's bytes, and the part.
    pub(crate) fn fill_zeros(&self, mut put: impl FnMut(T, u64, &[u8])) {
        for (owner, offset, bytes) in &self.zeros {
            let mut from = 0;
            while from < *bytes {
                let part = &ZEROS[..ZEROS.len().min((bytes - from) as usize)];
                put(*owner, offset + from, part);
                from += part.len() as u64;
            }
        }
    }

    /// Calls `put` with each part of `bytes`, which are at `at` in the portion: the owner, the offset in the owner's
    /// bytes, and the part.
    pub(crate) fn fill(&self, at: u64, bytes: &[u8], mut put: impl FnMut(T, u64, &[u8])) {
        let end = at + bytes.len() as u64;
        let first = self.extents.partition_point(|target| target.reach <= at);
        for target in self.extents[first..].iter().take_while(|target| target.at < end) {
            let (from, to) = (target.at.max(at), (target.at + target.bytes).min(end));
            if to > from {
                put(target.owner, target.offset + (from - target.at), &bytes[(from - at) as usize..(to - at) as usize]);
            }
        }
    }
}

//! A slab: slots of one size, behind a bitmap of the taken slots. The bitmap is saved with the slots.

use std::slice;

pub(super) const BYTES: usize = 1 << 20;
/// Bytes of the bitmap; the slots then begin on a page.
const MAP_BYTES: usize = 4096;
const WORDS: usize = MAP_BYTES / 8;
/// The saved part of a slab ends on a multiple of this, so its size seldom changes.
const SAVED_BYTES: usize = 64 << 10;

/// The facts about the slots, without the bitmap.
#[derive(Debug)]
pub(super) struct Slab {
    at: *mut u8,
    slot: usize,
    taken: usize,
    /// No word of the bitmap before this one has a free slot.
    first: usize,
}

// SAFETY: it is memory of the heap, which is accessible only under the heap's lock.
#[allow(unsafe_code)]
unsafe impl Send for Slab {}

impl Slab {
    pub(super) fn new(at: *mut u8, slot: usize) -> Slab {
        Slab { at, slot, taken: 0, first: 0 }
    }

    fn slots(&self) -> usize {
        ((BYTES - MAP_BYTES) / self.slot).min(MAP_BYTES * 8)
    }

    pub(super) fn is_full(&self) -> bool {
        self.taken >= self.slots()
    }

    /// The lowest free slot, and whether there is none after it.
    pub(super) fn take(&mut self) -> Option<(*mut u8, bool)> {
        let slots = self.slots();
        for word in self.first..WORDS {
            let index = word * 64 + self.map()[word].trailing_ones() as usize;
            if index >= slots {
                break;
            }
            if index < (word + 1) * 64 {
                self.map_mut()[word] |= 1 << (index % 64);
                (self.first, self.taken) = (word, self.taken + 1);
                return Some((self.at.wrapping_add(MAP_BYTES + index * self.slot), self.is_full()));
            }
        }
        None
    }

    /// Frees the slot at `at`, which is taken. Returns whether all are free.
    pub(super) fn give_back(&mut self, at: usize) -> bool {
        if let Some(index) = self.index(at) {
            self.map_mut()[index / 64] &= !(1 << (index % 64));
            (self.first, self.taken) = (self.first.min(index / 64), self.taken - 1);
        }
        self.taken == 0
    }

    pub(super) fn is_used(&self, at: usize) -> bool {
        self.index(at).is_some_and(|index| self.map()[index / 64] & 1 << (index % 64) != 0)
    }

    fn index(&self, at: usize) -> Option<usize> {
        let offset = at.checked_sub(self.at.addr() + MAP_BYTES)?;
        let index = offset / self.slot;
        (offset.is_multiple_of(self.slot) && index < self.slots()).then_some(index)
    }

    /// Counts the taken slots in the bitmap.
    pub(super) fn count(&mut self) {
        let slots = self.slots();
        let map = self.map_mut();
        // A forged slab may have bits without slots.
        for (word, bits) in map.iter_mut().enumerate() {
            let here = slots.saturating_sub(word * 64).min(64);
            *bits &= if here == 64 { u64::MAX } else { (1 << here) - 1 };
        }
        let taken = map.iter().map(|bits| bits.count_ones() as usize).sum();
        (self.first, self.taken) = (0, taken);
    }

    /// The number of bytes up to the end of the last taken slot.
    pub(super) fn saved_bytes(&self) -> usize {
        let last = self.map().iter().rposition(|bits| *bits != 0);
        let slots = last.map_or(0, |word| word * 64 + 64 - self.map()[word].leading_zeros() as usize);
        (MAP_BYTES + slots * self.slot).next_multiple_of(SAVED_BYTES).min(BYTES)
    }

    #[allow(unsafe_code)]
    fn map(&self) -> &[u64] {
        // SAFETY: the slab begins with this many words; it stays mapped as long as its segment exists.
        unsafe { slice::from_raw_parts(self.at.cast(), WORDS) }
    }

    #[allow(unsafe_code)]
    fn map_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `map`; the heap's lock excludes other users.
        unsafe { slice::from_raw_parts_mut(self.at.cast(), WORDS) }
    }
}

//! The taken addresses, in stretches of whole granules.

use super::segment::{END, GRANULE};
use std::{collections::BTreeMap, ops::Range};

#[derive(Debug)]
pub(super) struct Room {
    /// The end of each stretch, by its beginning. No two are adjacent.
    taken: BTreeMap<usize, usize>,
}

impl Room {
    pub(super) const fn new() -> Room {
        Room { taken: BTreeMap::new() }
    }

    /// The lowest address from `from` on with `bytes` bytes that are free. `from` is the beginning of a granule.
    pub(super) fn find(&self, from: usize, bytes: usize) -> Option<usize> {
        let before = self.taken.range(..from).next_back();
        let mut at = from;
        for (start, end) in before.into_iter().chain(self.taken.range(from..)) {
            if *start >= at.checked_add(bytes)? {
                break;
            }
            at = at.max(*end);
        }
        (at.checked_add(bytes)? <= END).then_some(at)
    }

    /// Takes addresses that are free.
    pub(super) fn take(&mut self, range: Range<usize>) {
        let Range { mut start, mut end } = granules(range);
        if let Some(after) = self.taken.remove(&end) {
            end = after;
        }
        if let Some((before, _)) = self.taken.range(..start).next_back().filter(|(_, ends)| **ends == start) {
            start = *before;
        }
        self.taken.insert(start, end);
    }

    /// Frees addresses that were taken.
    pub(super) fn give_back(&mut self, range: Range<usize>) {
        let Range { start, end } = granules(range);
        let Some((from, to)) = self.taken.range_mut(..=start).next_back() else { return };
        let (from, to) = (*from, std::mem::replace(to, start));
        if from == start {
            self.taken.remove(&from);
        }
        if end < to {
            self.taken.insert(end, to);
        }
    }
}

/// A segment begins with a granule.
fn granules(range: Range<usize>) -> Range<usize> {
    range.start..range.end.next_multiple_of(GRANULE)
}

#[cfg(test)]
mod tests {
    use super::{super::segment::START, *};

    #[test]
    fn the_lowest_room_is_found_whatever_comes_and_goes() {
        let (mut room, mut taken) = (Room::new(), Vec::<Range<usize>>::new());
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..2000 {
            if !taken.is_empty() && random.u8(..5) < 2 {
                room.give_back(taken.swap_remove(random.usize(..taken.len())));
                continue;
            }
            let (from, bytes) = (START + random.usize(..9) * GRANULE, random.usize(1..3 * GRANULE));
            let is_free =
                |at: &usize| !taken.iter().any(|one| *at < granules(one.clone()).end && one.start < at + bytes);
            let lowest = (from..END).step_by(GRANULE).find(is_free);
            assert_eq!(room.find(from, bytes), lowest);
            let at = lowest.unwrap();
            taken.push(at..at + bytes);
            room.take(at..at + bytes);
        }
        taken.into_iter().for_each(|range| room.give_back(range));
        assert!(room.taken.is_empty());
        assert_eq!(room.find(START, END - START), Some(START));
        assert_eq!([room.find(START, END - START + 1), room.find(START, usize::MAX)], [None; 2]);
    }
}

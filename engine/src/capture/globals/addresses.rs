//! The addresses to which the program's variables may point, saved with them: the load address of the program, its
//! session, and its other regions. Each has a hash of its name, because a restore may find other regions than the
//! checkpoint.

use crate::{
    capture::region::Region,
    error::Result,
    space::format::{ElementType, hash},
};
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

pub(super) const NAME: &str = "globals/addresses";

/// A hash of the name of a thing, and its address.
pub(super) type Place = [u64; 2];

#[derive(Debug)]
pub(super) struct Addresses {
    /// The saved list; a restore writes to it.
    list: Box<[[AtomicU64; 2]]>,
    base: u64,
    handles: Vec<u64>,
}

impl Addresses {
    pub(super) fn new(base: u64, handles: &[usize]) -> Addresses {
        let handles = handles.iter().map(|handle| *handle as u64).collect();
        let mut addresses = Addresses { list: Box::default(), base, handles };
        addresses.note([].into_iter());
        addresses
    }

    pub(super) fn note<'a>(&mut self, regions: impl Iterator<Item = &'a Region>) {
        let named = |region: &'a Region| [key(&region.description.name), region.address() as u64];
        let handles = (0..).zip(&self.handles).map(|(index, handle)| [key(&format!("/session-{index}")), *handle]);
        let all: Vec<Place> =
            [[key(PROGRAM), self.base]].into_iter().chain(handles).chain(regions.map(named)).collect();
        if self.list.len() != all.len() {
            self.list = all.iter().map(|_| Default::default()).collect();
        }
        for (to, from) in self.list.iter().zip(all) {
            to.iter().zip(from).for_each(|(to, from)| to.store(from, Relaxed));
        }
    }

    /// The contents of the list: the current addresses after `note`, the saved ones after a restore.
    pub(super) fn all(&self) -> Vec<Place> {
        self.list.iter().map(|place| [0, 1].map(|index| place[index].load(Relaxed))).collect()
    }

    pub(super) fn handles(&self) -> &[u64] {
        &self.handles
    }

    pub(super) fn region(&self) -> Result<Region> {
        let at = self.list.as_ptr().cast_mut().cast();
        // SAFETY: the list lives as long as the region is protected, or until it is replaced by that of a new list.
        #[allow(unsafe_code)]
        unsafe {
            Region::array(NAME, at, ElementType::U64, &[self.list.len() as u64, 2]).map(Region::found_by_us)
        }
    }
}

/// No region has such a name.
const PROGRAM: &str = "/program";

fn key(name: &str) -> u64 {
    u128::from_le_bytes(hash(name.as_bytes())) as u64
}

/// The load address of the program.
pub(super) fn base_of(places: &[Place]) -> u64 {
    let program = key(PROGRAM);
    places.iter().find(|[name, _]| *name == program).map_or(0, |[_, at]| *at)
}

/// The saved and the current address of each named place that exists in both lists, without the program.
pub(super) fn moved(was: &[Place], now: &[Place]) -> Vec<(u64, u64)> {
    let program = key(PROGRAM);
    let now: HashMap<u64, u64> = now.iter().map(|[name, at]| (*name, *at)).collect();
    let is_thing = |[name, at]: &&Place| *name != program && *at != 0;
    was.iter().filter(is_thing).filter_map(|[name, at]| Some((*at, *now.get(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: two lists of the same length held other regions, and a pointer came to point to the wrong one.
    #[test]
    fn a_pointer_is_mended_to_the_thing_of_its_name_alone() {
        let place = |name: &str, at: u64| [key(name), at];
        let was = [place(PROGRAM, 1), place("/session-0", 10), place("a", 0x100), place("m", 0x200)];
        let now = [place(PROGRAM, 2), place("/session-0", 20), place("m", 0x300), place("z", 0x400)];
        assert_eq!((base_of(&was), base_of(&now)), (1, 2));
        assert_eq!(moved(&was, &now), [(10, 20), (0x200, 0x300)]);
    }
}

//! Where things lie that the program's variables may point to, as it is saved with them: first where the program was
//! loaded, then its session, then its other regions, in the order of their names.

use crate::{capture::region::Region, error::Result, space::format::ElementType};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(super) const NAME: &str = "globals/addresses";

#[derive(Debug)]
pub(super) struct Addresses {
    /// The list as it is saved, to which a restore writes.
    list: Box<[AtomicU64]>,
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
        let mut named: Vec<_> = regions.map(|region| (&region.description.name, region.address() as u64)).collect();
        named.sort_unstable();
        let others = named.iter().map(|(_, address)| *address);
        let all: Vec<u64> = [self.base].into_iter().chain(self.handles.iter().copied()).chain(others).collect();
        if self.list.len() != all.len() {
            self.list = all.iter().map(|_| AtomicU64::new(0)).collect();
        }
        self.list.iter().zip(all).for_each(|(to, from)| to.store(from, Relaxed));
    }

    /// The addresses in the list: after `note` those of now, after a restore those of when the list was saved.
    pub(super) fn all(&self) -> Vec<u64> {
        self.list.iter().map(|address| address.load(Relaxed)).collect()
    }

    pub(super) fn handles(&self) -> &[u64] {
        &self.handles
    }

    pub(super) fn region(&self) -> Result<Region> {
        let at = self.list.as_ptr().cast_mut().cast();
        // SAFETY: the list lives as long as the region is protected, or until it is replaced by that of a new list.
        #[allow(unsafe_code)]
        unsafe {
            Region::array(NAME, at, ElementType::U64, &[self.list.len() as u64]).map(Region::of_globals)
        }
    }
}

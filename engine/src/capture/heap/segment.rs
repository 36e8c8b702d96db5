//! Segments of the heap: their addresses, and their names, which contain them.

use super::{class, slab, slab::Slab};
use crate::{
    capture::{region::Region, snapshot::OwnMemory},
    device::HUGE_PAGE,
    error::Result,
};
use std::{io, ops::Range};

/// Far from the places that systems use, and from memory with an address by its name (`snapshot/allocation`).
pub(super) const START: usize = 0x4000_0000_0000;
pub(super) const END: usize = 0x4800_0000_0000;
/// Segments begin on a multiple of this.
pub(super) const GRANULE: usize = HUGE_PAGE;

const NAMES: &str = "heap/";

/// The contents of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The memory of one call.
    Array,
    /// Slots of this size.
    Slab { slot: usize },
}

impl Kind {
    /// The mapped bytes of a segment with this many saved bytes.
    pub(super) fn mapped_bytes(self, saved: usize) -> usize {
        match self {
            Kind::Array => saved,
            Kind::Slab { .. } => slab::BYTES,
        }
    }

    fn name(self, at: usize) -> String {
        match self {
            Kind::Array => format!("{NAMES}{at:x}"),
            Kind::Slab { slot } => format!("{NAMES}of-{slot}/{at:x}"),
        }
    }
}

/// The address and the kind in a name, if it is a name of the heap.
pub(super) fn parse(name: &str) -> Option<(usize, Kind)> {
    let rest = name.strip_prefix(NAMES)?;
    let (kind, at) = match rest.strip_prefix("of-") {
        None => (Kind::Array, rest),
        Some(rest) => {
            let (slot, at) = rest.split_once('/')?;
            (Kind::Slab { slot: slot.parse().ok().filter(|slot| class::is_one(*slot))? }, at)
        }
    };
    let at = usize::from_str_radix(at, 16).ok()?;
    let is_place = (START..END).contains(&at) && at.is_multiple_of(GRANULE);
    (is_place && kind.name(at) == name).then_some((at, kind))
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) memory: OwnMemory,
    pub(super) kind: Kind,
    /// The requested bytes, or those of a slab.
    pub(super) bytes: usize,
    /// A session knows the segment, and its threads may read it.
    pub(super) is_known: bool,
    slab: Slab,
}

impl Segment {
    pub(super) fn new(kind: Kind, at: usize, bytes: usize) -> io::Result<Segment> {
        let memory = OwnMemory::at(at, bytes)?;
        let slot = match kind {
            Kind::Array => bytes,
            Kind::Slab { slot } => slot,
        };
        let slab = Slab::new(memory.address(), slot);
        Ok(Segment { memory, kind, bytes, is_known: false, slab })
    }

    pub(super) fn address(&self) -> usize {
        self.memory.address().addr()
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.memory.range()
    }

    /// The slab of a segment that is one.
    pub(super) fn slab(&self) -> &Slab {
        &self.slab
    }

    pub(super) fn slab_mut(&mut self) -> &mut Slab {
        &mut self.slab
    }

    /// Frees the pages but keeps the addresses.
    #[allow(unsafe_code)]
    pub(super) fn let_pages_go(&self) {
        let Range { start, end } = self.range();
        // SAFETY: the memory is the heap's own, and no longer in use; a reader finds zeros.
        unsafe { libc::madvise(self.memory.address().cast(), end - start, libc::MADV_DONTNEED) };
    }

    /// The saved part of it: a slab is saved up to its last taken slot.
    pub(super) fn region(&self) -> Result<Region> {
        let bytes = match self.kind {
            Kind::Array => self.bytes,
            Kind::Slab { .. } => self.slab.saved_bytes(),
        };
        region(&self.kind.name(self.address()), self.address(), bytes as u64)
    }
}

pub(super) fn region(name: &str, at: usize, bytes: u64) -> Result<Region> {
    // SAFETY: the program has promised that nothing else uses the heap during a checkpoint or restore (`protect_heap`);
    // the memory stays mapped while a session saves it.
    #[allow(unsafe_code)]
    unsafe {
        Region::new(name, std::ptr::with_exposed_provenance_mut(at), bytes).map(Region::found_by_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_heap_gives_are_taken_for_its_own() {
        for kind in [Kind::Array, Kind::Slab { slot: 48 }] {
            assert_eq!(parse(&kind.name(START + 3 * GRANULE)), Some((START + 3 * GRANULE, kind)));
        }
        for name in [
            "heap",
            "heap/",
            "heap/1000",
            "heap/400000000001",
            "heap/0400000000000",
            "heap/480000000000",
            "heap/of-17/400000000000",
            "heap/of-+16/400000000000",
            "heap/of-16",
            "heap/of-200000/400000000000",
            "heap/saved",
            "other/400000000000",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}

//! Named memory of the program.

use super::{memory::RegionMemory, stretches::Stretches};
use crate::{
    boxes::{Cells, Rows},
    error::{Error, Result},
    space::format::{BLOCK_BYTES, DIMENSIONS_MAX, ElementType, Item, PlaceInWhole},
};
use std::{ops::Range, sync::Arc};

const NAME_BYTES_MAX: usize = 200;
/// Regions that are smaller than a block begin on a multiple of this in the log.
pub(super) const SMALL_ALIGNMENT: u64 = 64;
/// A single element has at most this many bytes.
const SINGLE_BYTES_MAX: u64 = 16;

/// Memory that a program wants saved, by name.
#[derive(Debug, Clone)]
pub struct Region {
    pub(crate) description: Arc<Description>,
    memory: RegionMemory,
    /// A device or the kernel writes to the region past the page tables of this process, so its page flags say nothing.
    is_untracked: bool,
    /// The region is a buffer that the program has put. A restore does not expect it.
    is_put: bool,
    /// The region holds the program's own variables or its heap; Mainstay has found it.
    is_found_by_us: bool,
    /// Everything that the region points to has the same address in every run.
    is_self_contained: bool,
}

/// The saved facts about a region, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) name: String,
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<u64>,
    pub(crate) place: Option<PlaceInWhole>,
    /// The program has said that all ranks have the same bytes.
    pub(crate) same_on_all_ranks: bool,
    pub(crate) bytes: u64,
}

impl Region {
    /// `bytes` bytes at `address`, without a type.
    ///
    /// # Safety
    /// From `protect` until `unprotect` or the end of the session, the memory stays readable and writable.
    /// During `checkpoint` and `restore`, nothing else writes to it.
    #[allow(unsafe_code)]
    pub unsafe fn new(name: &str, address: *mut u8, bytes: u64) -> Result<Region> {
        // SAFETY: the caller's promise is passed on.
        unsafe { Self::array(name, address, ElementType::Bytes, &[bytes]) }
    }

    /// An array of `element`s; `shape` in elements, slowest dimension first.
    ///
    /// # Safety
    /// As for [`Region::new`].
    #[allow(unsafe_code)]
    pub unsafe fn array(name: &str, address: *mut u8, element: ElementType, shape: &[u64]) -> Result<Region> {
        check_name(name)?;
        if shape.len() > DIMENSIONS_MAX {
            return Err(Error::argument(
                format!("shape of {name:?}"),
                format!("{} dimensions, the limit is {DIMENSIONS_MAX}", shape.len()),
            ));
        }
        let product = shape.iter().try_fold(element.size(), |total, n| total.checked_mul(*n));
        let Some(bytes) = product.filter(|bytes| i64::try_from(*bytes).is_ok()) else {
            return Err(Error::argument(format!("shape of {name:?}"), "more bytes than any memory has"));
        };
        check_address(name, address, bytes)?;
        let description = Description {
            name: name.to_owned(),
            element,
            shape: shape.to_vec(),
            place: None,
            same_on_all_ranks: false,
            bytes,
        };
        let memory = RegionMemory::in_a_row(address, bytes);
        Ok(Region {
            description: Arc::new(description),
            memory,
            is_untracked: false,
            is_put: false,
            is_found_by_us: false,
            is_self_contained: false,
        })
    }

    /// As `array`, for a box of a global array: `place` gives the size of the global array and the index at which the
    /// box begins. A job of any number of ranks fills its boxes from the saved ones.
    ///
    /// # Safety
    /// As for [`Region::new`].
    #[allow(unsafe_code)]
    pub unsafe fn placed(
        name: &str,
        address: *mut u8,
        element: ElementType,
        shape: &[u64],
        place: PlaceInWhole,
    ) -> Result<Region> {
        // SAFETY: the caller's promise is passed on.
        let region = unsafe { Self::array(name, address, element, shape)? };
        if let Some(why) = place.refusal(element, shape) {
            return Err(Error::argument(format!("box of {name:?}"), why));
        }
        let description = Description { place: Some(place), ..(*region.description).clone() };
        Ok(Region { description: Arc::new(description), ..region })
    }

    /// The same, for cells that are the inside of a larger array. `memory_shape` is the shape of that array,
    /// `memory_offset` the index in it of the first cell, and the address is the beginning of the larger array. The
    /// cells around them (ghost cells) are neither saved nor changed.
    ///
    /// # Safety
    /// As for [`Region::new`], of these cells.
    #[allow(unsafe_code)]
    pub unsafe fn within(self, memory_shape: &[u64], memory_offset: &[u64]) -> Result<Region> {
        let Description { element, shape, .. } = &*self.description;
        let larger = PlaceInWhole { global_shape: memory_shape.to_vec(), offset: memory_offset.to_vec() };
        if let Some(why) = larger.refusal_in("the array in memory", *element, shape) {
            return Err(self.refused(why));
        }
        let whole = PlaceInWhole { offset: vec![0; shape.len()], ..larger.clone() };
        let (cells, whole) = (Cells::of(shape, &larger), Cells::of(memory_shape, &whole));
        Ok(match (cells, whole) {
            (Some(cells), Some(whole)) => {
                let rows = Rows::new(&cells, &cells, &whole, element.size());
                Region { memory: self.memory.in_rows(rows), ..self }
            }
            _ => self,
        })
    }

    /// The same, for cells that are not adjacent: neighbours along each side are this many bytes apart, in C's order.
    ///
    /// # Safety
    /// As for [`Region::new`], of these cells.
    #[allow(unsafe_code)]
    pub unsafe fn spread(self, strides: &[u64]) -> Result<Region> {
        let Description { element, shape, bytes, .. } = &*self.description;
        if strides.len() != shape.len() {
            return Err(self.refused(format!("{} strides for {} dimensions", strides.len(), shape.len())));
        }
        if *bytes == 0 {
            return Ok(self);
        }
        let mut span = element.size();
        for (side, (cells, stride)) in shape.iter().zip(strides).enumerate().rev().filter(|(_, (cells, _))| **cells > 1)
        {
            if *stride < span {
                return Err(self.refused(format!(
                    "cells {stride} bytes apart along side {side}, each of {span} bytes with the sides behind it: they \
                     would overlap, or are not in C's order"
                )));
            }
            let all = (cells - 1).checked_mul(*stride).and_then(|all| all.checked_add(span));
            let Some(all) = all.filter(|all| i64::try_from(*all).is_ok()) else {
                return Err(self.refused("cells further apart than any memory reaches".to_owned()));
            };
            span = all;
        }
        let rows = Rows::spread(shape, element.size(), strides);
        Ok(Region { memory: self.memory.in_rows(rows), ..self })
    }

    /// Bytes at several addresses as one region. The addresses ascend, with gaps.
    ///
    /// # Safety
    /// As for [`Region::new`], of all of them.
    #[allow(unsafe_code)]
    pub(super) unsafe fn in_stretches(name: &str, addresses: &[Range<u64>]) -> Result<Region> {
        let bytes = addresses.iter().map(|range| range.end - range.start).sum();
        let first = addresses.first().map_or(0, |range| range.start);
        // SAFETY: the caller's promise is passed on.
        let region = unsafe { Self::new(name, std::ptr::with_exposed_provenance_mut(first as usize), bytes)? };
        if addresses.len() < 2 {
            return Ok(region);
        }
        Ok(Region { memory: region.memory.in_stretches(Stretches::new(addresses)), ..region })
    }

    /// The same region at another `address`. `count`, if given, is the new number of elements along its slowest side.
    /// For the inside of a larger array, the address is the beginning of that array, and the shape stays.
    ///
    /// # Safety
    /// As for [`Region::new`].
    #[allow(unsafe_code)]
    pub unsafe fn at(&self, address: *mut u8, count: Option<u64>) -> Result<Region> {
        let Description { name, shape, bytes, .. } = &*self.description;
        let Some(count) = count.filter(|count| *count != self.count()) else {
            check_address(name, address, *bytes)?;
            return Ok(Region { memory: self.memory.moved_to(address), ..self.clone() });
        };
        if shape.is_empty() {
            return Err(
                self.refused(format!("{count} elements, where it is protected as a single one without a shape"))
            );
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.shaped(address, &[&[count], &shape[1..]].concat()) }
    }

    /// The same region at another `address` in another `shape`, at the same place in the global array.
    ///
    /// # Safety
    /// As for [`Region::new`].
    #[allow(unsafe_code)]
    pub(super) unsafe fn shaped(&self, address: *mut u8, shape: &[u64]) -> Result<Region> {
        if !self.memory.is_in_a_row() {
            let why = "it is the inside of a larger array, and that array must change too; move both, or unprotect \
                       it and protect it anew";
            return Err(self.refused(why.to_owned()));
        }
        let Description { name, element, .. } = &*self.description;
        // SAFETY: the caller's promise is passed on.
        unsafe { Self::array(name, address, *element, shape) }?.in_place_of(self)
    }

    /// The same region with the shape and size of `item`, before its memory exists; `None` if its elements are not
    /// adjacent.
    pub(super) fn reshaped(&self, item: &Item) -> Option<Region> {
        let (shape, bytes) = (item.shape.clone(), item.bytes);
        let description = Arc::new(Description { shape, bytes, ..(*self.description).clone() });
        let memory = RegionMemory::in_a_row(self.memory.start(), bytes);
        self.memory.is_in_a_row().then(|| Region { description, memory, ..self.clone() })
    }

    /// Elements along its slowest side; 1 if it has no sides.
    pub fn count(&self) -> u64 {
        self.description.shape.first().copied().unwrap_or(1)
    }

    /// The region in place of `old`, with its name and type. It keeps `old`'s promise of being the same on all ranks,
    /// and `old`'s place in a global array unless it has one.
    pub(super) fn in_place_of(mut self, old: &Region) -> Result<Region> {
        self.is_untracked |= old.is_untracked;
        let (now, was) = (&*self.description, &*old.description);
        if now.name != was.name || now.element != was.element {
            let (now, was) = (now.kind(), was.kind());
            return Err(old.refused(format!(
                "it was protected as {was} and would become {now}; unprotect it and protect it anew"
            )));
        }
        if was.same_on_all_ranks {
            return self.said_same();
        }
        let Some(place) = was.place.clone().filter(|_| now.place.is_none()) else { return Ok(self) };
        if let Some(why) = place.refusal(now.element, &now.shape) {
            let why = format!("{why}; give its box with the new shape, or unprotect it and protect it anew");
            return Err(Error::argument(format!("box of {:?}", now.name), why));
        }
        let description = Description { place: Some(place), ..now.clone() };
        Ok(Region { description: Arc::new(description), ..self })
    }

    /// The same region, with the program's promise that all ranks hold the same bytes.
    pub(super) fn said_same(mut self) -> Result<Region> {
        if self.description.place.is_some() {
            let why =
                "it is a box of a global array, so each rank has a part; protect it without a box, or drop the promise";
            return Err(self.refused(why.to_owned()));
        }
        Arc::make_mut(&mut self.description).same_on_all_ranks = true;
        Ok(self)
    }

    /// From now on, changes of the region are found by its hashes.
    pub(super) fn untrack(&mut self) {
        self.is_untracked = true;
    }

    pub(super) fn is_untracked(&self) -> bool {
        self.is_untracked
    }

    /// The same as a buffer that is put: a restore does not expect a region of its name.
    pub(crate) fn put(self) -> Region {
        Region { is_put: true, ..self }
    }

    pub(in crate::capture) fn is_put(&self) -> bool {
        self.is_put
    }

    /// The same, in memory of a program whose code and libraries have the same addresses in every run. Mainstay does not
    /// look for pointers in it that a restart would break.
    pub fn self_contained(self) -> Region {
        Region { is_self_contained: true, ..self }
    }

    pub(super) fn is_self_contained(&self) -> bool {
        self.is_self_contained
    }

    /// The same as a part of the program's own variables or of its heap.
    pub(super) fn found_by_us(self) -> Region {
        Region { is_found_by_us: true, ..self }
    }

    pub(super) fn is_found_by_us(&self) -> bool {
        self.is_found_by_us
    }

    /// Whether both are the same bytes under the same name.
    pub(super) fn is_at(&self, other: &Region) -> bool {
        self.address() == other.address() && self.description == other.description
    }

    pub(super) fn begins_at(&self) -> usize {
        self.memory.begins_at()
    }

    /// The address that the program gave: for the inside of a larger array, the beginning of that array.
    pub(super) fn address(&self) -> usize {
        self.memory.address()
    }

    /// The addresses from the region's first byte to its last.
    pub(super) fn reach(&self) -> usize {
        self.memory.reach() as usize
    }

    /// The first stretch of its bytes that ends behind `address`, or the part of it behind `address`.
    pub(super) fn stretch_from(&self, address: usize) -> Option<Range<usize>> {
        self.memory.stretch_from(address)
    }

    pub(super) fn row_bytes(&self) -> usize {
        self.memory.row_bytes() as usize
    }

    pub(super) fn refused(&self, why: String) -> Error {
        Error::argument(format!("memory of {:?}", self.description.name), why)
    }

    /// All bytes of the region, if they are one row.
    pub(crate) fn row(&self) -> Option<&[u8]> {
        self.memory.row()
    }

    /// Copies its bytes from `offset` on.
    pub(crate) fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.memory.copy_out(offset, into);
    }

    /// Puts `from` into it at `offset`.
    pub(crate) fn copy_in(&self, offset: u64, from: &[u8]) {
        self.memory.copy_in(offset, from);
    }

    /// The same, but does not write memory that is zero already. Pages that the program never used then stay unused.
    pub(crate) fn put_zeros(&self, offset: u64, zeros: &[u8]) {
        self.memory.copy_in_what_differs(offset, zeros);
    }
}

impl Description {
    /// The description of a saved item.
    pub(crate) fn of(item: Item) -> Description {
        let Item { name, element, shape, place, same_on_all_ranks, bytes, .. } = item;
        Description { name, element, shape, place, same_on_all_ranks, bytes }
    }

    /// Whether a job with any number of ranks can take it over.
    pub(super) fn is_divisible(&self) -> bool {
        self.place.is_some() || self.same_on_all_ranks || is_single(self.element, self.bytes)
    }

    /// Its alignment in the shard's log. Large regions begin on a block; small ones share blocks. Bytes read in place
    /// are then aligned for every element type.
    pub(crate) fn alignment(&self) -> u64 {
        if self.bytes >= BLOCK_BYTES { BLOCK_BYTES } else { SMALL_ALIGNMENT }
    }

    /// The description in readable form: `f64 3 x 4 (96 bytes)`.
    pub(crate) fn kind(&self) -> String {
        kind_of(self.element, &self.shape, self.place.as_ref(), self.bytes)
    }
}

fn check_address(name: &str, address: *mut u8, bytes: u64) -> Result<()> {
    if !address.is_null() || bytes == 0 {
        return Ok(());
    }
    Err(Error::argument(
        format!("address of {name:?}"),
        "a null pointer, which only a region of 0 bytes takes; let it point to the region's memory, or unprotect the region",
    ))
}

/// Whether this is a single element, such as a step. It counts as the same on all ranks if its bytes are. Untyped bytes
/// may be one.
pub(crate) fn is_single(element: ElementType, bytes: u64) -> bool {
    let is_one = element == ElementType::Bytes || bytes == element.size();
    is_one && (1..=SINGLE_BYTES_MAX).contains(&bytes)
}

pub(crate) fn kind_of(element: ElementType, shape: &[u64], place: Option<&PlaceInWhole>, bytes: u64) -> String {
    let joined = |numbers: &[u64], by| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(by);
    match place {
        None if element == ElementType::Bytes => format!("{bytes} bytes"),
        None => format!("{} {} ({bytes} bytes)", element.name(), joined(shape, " x ")),
        Some(place) => {
            let (shape, offset, global) = (joined(shape, " x "), joined(&place.offset, ", "), &place.global_shape);
            format!("{} {shape} at {offset} of {} ({bytes} bytes)", element.name(), joined(global, " x "))
        }
    }
}

/// Whether a region may have this name. Such a name can serve as a path below any folder.
pub fn check_name(name: &str) -> Result<()> {
    let odd = name.chars().find(|c| !(c.is_ascii_alphanumeric() || "_.-:[]/".contains(*c)));
    let why = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > NAME_BYTES_MAX {
        format!("it has {} characters", name.len())
    } else if let Some(odd) = odd {
        format!("{odd:?} is not allowed")
    } else if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        "a part between slashes is empty, '.' or '..'".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::InvalidName { name: name.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_a_folder_are_refused() {
        for name in ["", "a b", "ä", "a\n", "/a", "a/", "a//b", "a/../b", ".", "a\\b", &"x".repeat(201)] {
            assert!(check_name(name).is_err(), "{name:?} was taken");
        }
        for name in ["a", "model.layers.0/weight", "u[3]", "A-b_c:d", &"x".repeat(200)] {
            assert!(check_name(name).is_ok(), "{name:?} was refused");
        }
    }
}

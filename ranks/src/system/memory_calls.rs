//! System calls for memory: everything stays in the slot, and the table of areas follows.

use super::{Arguments, System, kernel};
use crate::{
    address::{PAGE, Slot, page_down, page_up},
    memory,
    slot::{Area, Source},
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::{self, BufRead, BufReader},
    ops::Range,
    os::fd::AsFd,
    path::Path,
};

/// The remark on missing memory counts as that on this call. No system call has the number.
const NO_MEMORY: i64 = -1;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
/// A process with this many mappings left counts as one without any.
const MAPPINGS_SPARE: usize = 16;

/// The heap that `brk` moves. Memory is mapped ahead of its end, so that it is a few areas, not thousands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heap {
    end: usize,
    mapped: usize,
}

impl Heap {
    pub fn new(slot: Slot) -> Heap {
        let start = slot.heap().start;
        Heap { end: start, mapped: start }
    }
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// The pages of `bytes` bytes at `address`, which begin at a page boundary.
fn pages(address: u64, bytes: u64) -> io::Result<Range<usize>> {
    let (address, bytes) = (address as usize, bytes as usize);
    let end = address.checked_add(bytes).filter(|end| *end <= usize::MAX - PAGE).ok_or_else(|| error(libc::ENOMEM))?;
    if address.is_multiple_of(PAGE) && bytes > 0 { Ok(address..page_up(end)) } else { Err(error(libc::EINVAL)) }
}

/// On this processor, memory that can be written can be read.
fn readable(protection: i32) -> i32 {
    if protection & libc::PROT_WRITE == 0 { protection } else { protection | libc::PROT_READ }
}

/// Memory with contents stays readable when a rank hides it: a checkpoint reads it, and saves no memory that never was.
fn kept_readable(area: &Area, wanted: i32) -> i32 {
    let has_contents = area.source == Source::Memory && area.protection & BOTH != 0;
    if has_contents { wanted | libc::PROT_READ } else { wanted }
}

/// Whether this process has almost as many mappings as the system allows.
fn is_out_of_mappings() -> bool {
    let limit =
        fs::read_to_string("/proc/sys/vm/max_map_count").ok().and_then(|text| text.trim().parse::<usize>().ok());
    let count = fs::File::open("/proc/self/maps").map(|maps| BufReader::new(maps).split(b'\n').count());
    matches!((limit, count), (Some(limit), Ok(count)) if count + MAPPINGS_SPARE > limit)
}

impl System {
    /// Returns the end of the heap: the new one, or the old one if there is no room.
    pub(super) fn brk(&mut self, _: i64, [end, ..]: Arguments) -> io::Result<i64> {
        const STEP: usize = 1 << 20;
        let (bounds, end) = (self.slot.heap(), end as usize);
        if end < bounds.start || end > bounds.end {
            return Ok(self.heap.end as i64);
        }
        if end > self.heap.mapped {
            let ahead = STEP.max((end - bounds.start) / 8);
            let wanted = end.saturating_add(ahead).next_multiple_of(STEP).min(bounds.end);
            let fresh = self.heap.mapped..wanted;
            if memory::map(self.slot, &fresh, BOTH, None).is_err() {
                return Ok(self.heap.end as i64);
            }
            self.areas.insert(fresh, BOTH, Source::Memory);
            self.heap.mapped = wanted;
        } else if end < self.heap.end {
            // The program expects zeros when the heap grows again.
            let keep = page_up(end);
            memory::write(self.slot, end, &vec![0; keep.min(self.heap.end) - end])?;
            if keep < page_up(self.heap.end) {
                let gone = keep..page_up(self.heap.end);
                memory::map(self.slot, &gone, BOTH, None)?;
                self.areas.renew(gone);
            }
        }
        self.heap.end = end;
        Ok(end as i64)
    }

    pub(super) fn mmap(&mut self, _: i64, arguments: Arguments) -> io::Result<i64> {
        let [address, bytes, protection, flags, descriptor, offset] = arguments;
        let (protection, flags) = (readable(protection as i32), flags as i32);
        let is_anonymous = flags & libc::MAP_ANONYMOUS != 0;
        let is_shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        if bytes == 0 || !offset.is_multiple_of(PAGE as u64) {
            return Err(error(libc::EINVAL));
        }
        if is_shared && !is_anonymous && protection & libc::PROT_WRITE != 0 {
            self.refuse(libc::SYS_mmap, "it mapped a file to share its writes, which a rank in a slot cannot");
            return Err(error(libc::ENODEV));
        }
        let range = self.place(address, page_up(bytes as usize), flags)?;
        let source = if is_anonymous {
            memory::map(self.slot, &range, protection, None)?;
            Source::Memory
        } else {
            let is_saved = self.with_libraries && !is_shared;
            self.map_file(&range, protection, (descriptor as i32, offset), is_saved)?
        };
        self.areas.insert(range.clone(), protection, source);
        Ok(range.start as i64)
    }

    /// The addresses of a new mapping.
    fn place(&self, address: u64, bytes: usize, flags: i32) -> io::Result<Range<usize>> {
        if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
            let range = pages(address, bytes as u64)?;
            if flags & libc::MAP_FIXED_NOREPLACE != 0 && !self.areas.within(&range).is_empty() {
                return Err(error(libc::EEXIST));
            }
            return Ok(range);
        }
        let (hint, arena) = (page_down(address as usize), self.slot.arena());
        let suits = hint != 0
            && arena.contains(&hint)
            && arena.end - hint >= bytes
            && self.areas.within(&(hint..hint + bytes)).is_empty();
        let at = if suits { Some(hint) } else { self.areas.free(arena, bytes) };
        let at = at.ok_or_else(|| error(libc::ENOMEM))?;
        Ok(at..at + bytes)
    }

    /// Maps the file, or a copy of it if its bytes may change or are saved.
    fn map_file(
        &mut self,
        range: &Range<usize>,
        protection: i32,
        (descriptor, offset): (i32, u64),
        is_saved: bool,
    ) -> io::Result<Source> {
        let file = self.descriptors.get(descriptor)?;
        let Some((path, handle)) = file.regular() else {
            memory::map(self.slot, range, protection, Some((file.host.as_fd(), offset)))?;
            return Ok(Source::Memory);
        };
        if is_saved || protection & libc::PROT_WRITE != 0 {
            memory::map_copy(self.slot, range, protection, handle, offset)?;
        } else {
            memory::map(self.slot, range, protection, Some((handle.as_fd(), offset)))?;
        }
        if is_saved {
            return Ok(Source::Memory);
        }
        Ok(Source::File { file: self.mapped.enter(Path::new(&path), handle)?, offset })
    }

    pub(super) fn munmap(&mut self, _: i64, [address, bytes, ..]: Arguments) -> io::Result<i64> {
        let range = pages(address, bytes)?;
        if self.slot.has(range.start, range.len()) {
            memory::unmap(self.slot, &range)?;
            self.areas.remove(range);
        }
        Ok(0)
    }

    pub(super) fn mprotect(&mut self, _: i64, [address, bytes, protection, ..]: Arguments) -> io::Result<i64> {
        if bytes == 0 {
            return Ok(0);
        }
        let (range, protection) = (pages(address, bytes)?, readable(protection as i32));
        if !self.areas.covers(&range) {
            return Err(error(libc::ENOMEM));
        }
        for (part, area) in self.areas.within(&range) {
            let protection = kept_readable(&area, protection);
            memory::protect(self.slot, &part, protection)?;
            self.areas.protect(part, protection);
        }
        Ok(0)
    }

    /// Grows in place if it can. Otherwise it copies: the kernel would move pages that the engine watches.
    pub(super) fn mremap(&mut self, _: i64, [address, old, new, flags, target, _]: Arguments) -> io::Result<i64> {
        let (from, flags) = (pages(address, old)?, flags as i32);
        let bytes = page_up(new as usize);
        let Some((_, area)) = self.areas.at(from.start) else { return Err(error(libc::EFAULT)) };
        let protection = area.protection;
        if !self.areas.covers(&from) || protection & BOTH != BOTH {
            return Err(error(libc::EFAULT));
        }
        let is_fixed = flags & libc::MREMAP_FIXED != 0;
        if !is_fixed && bytes <= from.len() {
            if bytes < from.len() {
                self.munmap(0, [(from.start + bytes) as u64, (from.len() - bytes) as u64, 0, 0, 0, 0])?;
            }
            return Ok(from.start as i64);
        }
        let behind = from.end..from.start + bytes;
        if !is_fixed
            && self.slot.arena().end >= behind.end + PAGE
            && self.areas.within(&(behind.start..behind.end + PAGE)).is_empty()
        {
            memory::map(self.slot, &behind, protection, None)?;
            self.areas.insert(behind, protection, Source::Memory);
            return Ok(from.start as i64);
        }
        if flags & libc::MREMAP_MAYMOVE == 0 {
            return Err(error(libc::ENOMEM));
        }
        let to = match is_fixed {
            true => target as usize,
            false => self.areas.free(self.slot.arena(), bytes).ok_or_else(|| error(libc::ENOMEM))?,
        };
        let to = pages(to as u64, bytes as u64)?;
        memory::map(self.slot, &to, protection, None)?;
        self.areas.insert(to.clone(), protection, Source::Memory);
        memory::copy((self.slot, from.start), (self.slot, to.start), from.len().min(bytes))?;
        memory::unmap(self.slot, &from)?;
        self.areas.remove(from);
        Ok(to.start as i64)
    }

    /// Tells the user once why a rank gets no more memory.
    pub(super) fn explain_no_memory(&mut self, number: i64, arguments: Arguments) {
        let wanted = match number {
            libc::SYS_mmap => arguments[1],
            libc::SYS_mremap => arguments[2],
            libc::SYS_mprotect | libc::SYS_munmap | libc::SYS_madvise => 0,
            _ => return,
        };
        let why = if !self.has_room(wanted) {
            let slot = self.slot.bytes >> 20;
            format!("its slot of {slot} MiB has no room for {wanted} bytes; a job of fewer ranks has larger slots")
        } else if is_out_of_mappings() {
            "its process has too many mappings of memory; raise vm.max_map_count, or start more processes".to_owned()
        } else {
            format!("the system has no memory for {wanted} more bytes; start fewer ranks on this node")
        };
        self.refuse(NO_MEMORY, &why);
    }

    fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.slot.bytes as u64
            && self.areas.free(self.slot.arena(), page_up(bytes as usize).max(PAGE)).is_some()
    }

    /// Memory that is dropped is new memory, for the engine as well.
    pub(super) fn madvise(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let [address, bytes, advice, ..] = arguments;
        if bytes == 0 {
            return Ok(0);
        }
        let range = pages(address, bytes)?;
        match advice as i32 {
            libc::MADV_DONTNEED => {
                for (part, area) in self.areas.within(&range) {
                    if area.source == Source::Memory {
                        memory::map(self.slot, &part, area.protection, None)?;
                        self.areas.renew(part);
                    }
                }
                Ok(0)
            }
            libc::MADV_FREE | libc::MADV_DONTFORK | libc::MADV_DOFORK | libc::MADV_DONTDUMP => Ok(0),
            libc::MADV_HUGEPAGE
            | libc::MADV_NOHUGEPAGE
            | libc::MADV_WILLNEED
            | libc::MADV_SEQUENTIAL
            | libc::MADV_RANDOM
            | libc::MADV_NORMAL
            | libc::MADV_COLD => kernel::result(kernel::call(number, arguments)),
            _ => Err(error(libc::EINVAL)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_a_rank_hides_is_saved_if_it_has_contents() {
        let area = |source, protection| Area { bytes: PAGE, protection, source, id: 1 };
        let none = libc::PROT_NONE;
        assert_eq!(kept_readable(&area(Source::Memory, BOTH), none), libc::PROT_READ);
        assert_eq!(kept_readable(&area(Source::Memory, none), none), none, "never used");
        assert_eq!(kept_readable(&area(Source::File { file: 0, offset: 0 }, libc::PROT_READ), none), none);
        assert_eq!(readable(libc::PROT_WRITE), BOTH);
    }
}

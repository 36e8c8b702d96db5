//! Finds the pages that the program has written, by write protection that the kernel lifts at the first write.
//!
//! Invariant: a page that changed since it was last reported is reported again. If this is uncertain, all is reported:
//! at first, after an error, after a new mapping, and for pages that a range shares with other memory. Pages that were
//! added or freed count as written, and so do pages that a private mapping still has from its file. Memory that another
//! session has registered meanwhile is not scanned, because a write is reported to only one session.
//!
//! Writes past this process's page tables are not seen: devices write to memory that is pinned for them. The user of
//! this module must check for these.

#[cfg(test)]
mod tests;

use crate::{
    capture::{
        mappings::{Kind, Mappings},
        userfaultfd::{Pagemap, Protection, ScannedPages, WantedPages, page_bytes},
    },
    device::{HUGE_PAGE, forks},
};
use nix::sys::utsname::uname;
use std::{collections::BTreeMap, io, ops::Range, ptr};

/// The number of stretches of pages that one call of the kernel can return.
const FOUND_MAX: usize = 4096;

/// The error for memory that another userfaultfd watches.
const TAKEN: &str = "another userfaultfd of this process has it";

#[derive(Debug)]
pub(crate) struct PageTracker {
    protection: Protection,
    pagemap: Pagemap,
    page_bytes: usize,
    /// The watched ranges, by their first byte; they do not overlap.
    watched: BTreeMap<usize, Watched>,
    found: Vec<ScannedPages>,
    /// The descriptors belong to one process. In a forked child they still mean the parent's memory.
    forks: u32,
}

#[derive(Debug)]
struct Watched {
    end: usize,
    kind: Kind,
    registered: Range<usize>,
    /// Whether all pages of the range were protected, and stayed so until they were reported.
    is_known: bool,
}

/// Whether a kernel of this release misses some written pages that were swapped out or are being moved (mended in
/// 6.8.10 and 6.9: "fix uffd-wp confusion in pagemap_scan_pmd_entry"). A distribution's kernel with the fix under
/// another number counts as broken.
fn misses_pages(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let mut next = || numbers.next().unwrap_or(0);
    matches!((next(), next(), next()), (6, 7, _) | (6, 8, 0..10))
}

impl PageTracker {
    /// An error says why pages cannot be tracked here: because of the kernel, or of limits on this process.
    pub(crate) fn new() -> Result<PageTracker, String> {
        let kernel = uname().map_err(|e| format!("the version of the kernel: {e}"))?;
        if misses_pages(&kernel.release().to_string_lossy()) {
            return Err("Linux before 6.8.10 misses written pages that were swapped out".to_owned());
        }
        let protection = Protection::lifted_by_the_kernel().map_err(|e| match e.raw_os_error() {
            Some(libc::ENOSYS) => "this system has no userfaultfd".to_owned(),
            Some(libc::EPERM | libc::EACCES) => "this system, or a container, does not allow userfaultfd".to_owned(),
            Some(libc::EINVAL) => "protection that lifts itself (userfaultfd WP_ASYNC) needs Linux 6.8.10".to_owned(),
            _ => format!("userfaultfd: {e}"),
        })?;
        let pagemap = Pagemap::open().map_err(|e| format!("/proc/self/pagemap: {e}"))?;
        let page_bytes = page_bytes();
        let found = vec![ScannedPages::default(); FOUND_MAX];
        let mut tracker =
            PageTracker { protection, pagemap, page_bytes, watched: BTreeMap::new(), found, forks: forks() };
        tracker.try_out()?;
        Ok(tracker)
    }

    /// Checks on memory of our own that writes are found, and pages that were added or freed.
    fn try_out(&mut self) -> Result<(), String> {
        let probe = Probe::new().map_err(|e| format!("memory to try it out: {e}"))?;
        let (pages, page) = (probe.pages(), self.page_bytes);
        let first = pages.start..pages.start + page;
        self.watch(pages.clone())?;
        // Then only the scan can find the missing pages.
        self.watched_at(&pages).expect("just watched").is_known = true;
        let mut found = Vec::new();
        let mut expect = |tracker: &mut PageTracker, expected: &[Range<usize>]| {
            found.clear();
            tracker.written(pages.clone(), &mut found)?;
            let is_right = found == expected;
            is_right.then_some(()).ok_or_else(|| "this system reports other pages than the written ones".to_owned())
        };
        expect(self, std::slice::from_ref(&pages))?;
        expect(self, &[])?;
        probe.write();
        expect(self, std::slice::from_ref(&first))?;
        probe.drop_all();
        expect(self, std::slice::from_ref(&pages))?;
        self.unwatch(pages);
        Ok(())
    }

    /// Watches the pages that are wholly inside `range`, as addresses; the first `written` reports all of it. The same
    /// range again begins anew. An error says why changes cannot be seen: the memory is shared, a device's, another
    /// userfaultfd's, not mapped, or overlaps a watched range.
    pub(crate) fn watch(&mut self, range: Range<usize>) -> Result<(), String> {
        self.watch_in(range, &Mappings::now()?)
    }

    /// Watches the ranges that can be watched, and returns them.
    pub(crate) fn watch_all(&mut self, mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
        // Read once: the table has a line for each mapping, and thousands of ranges may have one each.
        let mappings = if ranges.is_empty() { Err(String::new()) } else { Mappings::now() };
        ranges.retain(|range| mappings.as_ref().is_ok_and(|mappings| self.watch_in(range.clone(), mappings).is_ok()));
        ranges
    }

    fn watch_in(&mut self, range: Range<usize>, mappings: &Mappings) -> Result<(), String> {
        self.check_process()?;
        if range.is_empty() {
            return Ok(());
        }
        if let Some(other) = self.overlapping(&range).filter(|other| *other != range) {
            return Err(format!("it overlaps {:#x} to {:#x}, which is watched already", other.start, other.end));
        }
        self.watched.remove(&range.start);
        let (kind, registered) = self.register(&range, mappings)?;
        debug_assert_eq!(self.overlapping(&range), None, "two watched ranges overlap");
        self.watched.insert(range.start, Watched { end: range.end, kind, registered, is_known: false });
        Ok(())
    }

    /// Stops watching `range`; no effect if it was not watched.
    pub(crate) fn unwatch(&mut self, range: Range<usize>) {
        if self.forks == forks() && self.watched_at(&range).is_some() {
            let watched = self.watched.remove(&range.start).expect("found above");
            // Memory that is no longer mapped, or belongs to another userfaultfd, stays as it is: before Linux 6.17 the
            // kernel would unregister that one too.
            let registered = self.protection.register(&watched.registered);
            if !registered.is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {
                let _ = self.protection.unregister(&watched.registered);
            }
        }
    }

    /// Appends to `out`, in order, the parts of `range` that were written since the last call, and those that share a
    /// page with other memory. Later writes are reported by the next call, so the caller must keep what it does not
    /// save now. After an error, which says why changes can no longer be seen, all of `range` was appended and is no
    /// longer watched.
    pub(crate) fn written(&mut self, range: Range<usize>, out: &mut Vec<Range<usize>>) -> Result<(), String> {
        let begun = out.len();
        let found = self.tell(&range, out);
        if found.is_err() {
            out.truncate(begun);
            add(out, begun, range.clone());
            self.unwatch(range);
        }
        found
    }

    /// The next `written` reports all of `range`.
    #[cfg(test)]
    pub(crate) fn forget(&mut self, range: Range<usize>) {
        if let Some(watched) = self.watched_at(&range) {
            watched.is_known = false;
        }
    }

    fn tell(&mut self, range: &Range<usize>, out: &mut Vec<Range<usize>>) -> Result<(), String> {
        self.check_process()?;
        if range.is_empty() {
            return Ok(());
        }
        let (begun, pages) = (out.len(), self.inside(range));
        let watched = self.watched_at(range).ok_or("it is not watched")?;
        // The range counts as known only once all of it is protected and reported.
        let was_known = std::mem::replace(&mut watched.is_known, false);
        let wanted = if watched.kind == Kind::OfFile { WantedPages::WrittenOrOfFile } else { WantedPages::Written };
        let found = if pages.is_empty() {
            add(out, begun, range.clone());
            Ok(())
        } else if let Err(e) = self.check_ours(&pages) {
            Err(e)
        } else if !was_known {
            add(out, begun, range.clone());
            self.pagemap.protect(&pages)
        } else {
            add(out, begun, range.start..pages.start);
            let found = self.scan(pages.clone(), wanted, out, begun);
            add(out, begun, pages.end..range.end);
            found
        };
        match found {
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => self.begin_anew(range, &pages, out, begun)?,
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Err(TAKEN.to_owned())?,
            found => found.map_err(|e| format!("finding its written pages: {e}"))?,
        }
        self.watched_at(range).expect("watched, as it was found above").is_known = true;
        Ok(())
    }

    /// An error if the memory is not registered with this tracker. Newly mapped memory is not registered, and another
    /// session of this process may register it first; to a scan its protection looks like ours. `ResourceBusy`: another
    /// session has it. `PermissionDenied`: some of it is not registered.
    fn check_ours(&self, pages: &Range<usize>) -> io::Result<()> {
        self.pagemap.check_registered(pages)?;
        // All is registered, so this has no effect on memory of ours.
        self.protection.register(pages)
    }

    /// `range` has a new mapping: all of it counts as written.
    fn begin_anew(
        &mut self,
        range: &Range<usize>,
        pages: &Range<usize>,
        out: &mut Vec<Range<usize>>,
        begun: usize,
    ) -> Result<(), String> {
        let (kind, registered) = self.register(range, &Mappings::now()?)?;
        let watched = self.watched_at(range).expect("the caller found it watched");
        (watched.kind, watched.registered) = (kind, registered);
        self.pagemap.protect(pages).map_err(|e| format!("protecting its pages: {e}"))?;
        out.truncate(begun);
        add(out, begun, range.clone());
        Ok(())
    }

    fn scan(
        &mut self,
        mut pages: Range<usize>,
        wanted: WantedPages,
        out: &mut Vec<Range<usize>>,
        begun: usize,
    ) -> io::Result<()> {
        while !pages.is_empty() {
            let (count, end) = self.pagemap.take_written(&pages, wanted, &mut self.found)?;
            for found in &self.found[..count] {
                let found = found.start as usize..found.end as usize;
                assert!(pages.start <= found.start && found.end <= end, "the kernel returned pages outside the range");
                add(out, begun, found);
            }
            if end <= pages.start {
                return Err(io::Error::other("the kernel looked at no page"));
            }
            pages.start = end;
        }
        Ok(())
    }

    /// The kind of memory in `range`, and the pages that the kernel has registered for it.
    fn register(&self, range: &Range<usize>, mappings: &Mappings) -> Result<(Kind, Range<usize>), String> {
        let pages = self.inside(range);
        if pages.is_empty() {
            return Ok((Kind::Anonymous, pages));
        }
        let kind = mappings.kind_of(&pages)?;
        // Registering splits a mapping, and mremap cannot move a mapping in two parts. Pages at the ends that the range
        // shares are therefore registered too, but never protected.
        let around = self.around(range);
        let registered = if mappings.kind_of(&around).is_ok() { around } else { pages.clone() };
        self.protection.register(&registered).map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY) => TAKEN.to_owned(),
            Some(libc::ENOMEM) => "the kernel cannot hold more mappings (vm.max_map_count)".to_owned(),
            _ => format!("userfaultfd cannot register it: {e}"),
        })?;
        // The kernel may have dropped a registration, as it does when a moved mapping merges with its neighbour. Its
        // pages then look protected but are not, and no scan would protect them.
        self.protection.lift(&pages).map_err(|e| format!("lifting the protection of its pages: {e}"))?;
        Ok((kind, registered))
    }

    /// The pages that contain bytes of `range`.
    fn around(&self, range: &Range<usize>) -> Range<usize> {
        let start = range.start / self.page_bytes * self.page_bytes;
        start..range.end.checked_next_multiple_of(self.page_bytes).unwrap_or(range.end)
    }

    /// The pages wholly inside `range`; an empty range at its start if there are none.
    fn inside(&self, range: &Range<usize>) -> Range<usize> {
        let start = range.start.checked_next_multiple_of(self.page_bytes).unwrap_or(range.start);
        let end = range.end / self.page_bytes * self.page_bytes;
        if start < end { start..end } else { range.start..range.start }
    }

    fn overlapping(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let (start, watched) = self.watched.range(..range.end).next_back()?;
        (watched.end > range.start).then_some(*start..watched.end)
    }

    fn watched_at(&mut self, range: &Range<usize>) -> Option<&mut Watched> {
        self.watched.get_mut(&range.start).filter(|watched| watched.end == range.end)
    }

    fn check_process(&self) -> Result<(), String> {
        let is_ours = self.forks == forks();
        is_ours.then_some(()).ok_or_else(|| "this process is a fork of the one that watches its memory".to_owned())
    }
}

impl Drop for PageTracker {
    fn drop(&mut self) {
        // A forked child may still have the descriptor, so closing ours could leave the memory registered.
        for (start, end) in self.watched.iter().map(|(start, watched)| (*start, watched.end)).collect::<Vec<_>>() {
            self.unwatch(start..end);
        }
    }
}

/// Appends `range`, or extends the last range if that ends there. Ranges before `begun` belong to the caller.
fn add(out: &mut Vec<Range<usize>>, begun: usize, range: Range<usize>) {
    match out[begun..].last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => out.push(range),
    }
}

/// Two huge pages of untouched memory, and somewhat more.
struct Probe {
    at: *mut u8,
}

#[allow(unsafe_code)]
impl Probe {
    const BYTES: usize = 3 * HUGE_PAGE;

    fn new() -> io::Result<Probe> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), Probe::BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Probe { at: at.cast() }) }
    }

    fn pages(&self) -> Range<usize> {
        self.at as usize..self.at as usize + Probe::BYTES
    }

    /// Writes to the first page.
    fn write(&self) {
        // SAFETY: in the mapping, which is ours alone.
        unsafe { self.at.write_volatile(1) };
    }

    /// Makes the kernel free all pages, and whole page tables with them.
    fn drop_all(&self) {
        // SAFETY: a mapping of our own.
        unsafe { libc::madvise(self.at.cast(), Probe::BYTES, libc::MADV_DONTNEED) };
    }
}

impl Drop for Probe {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it.
        unsafe { libc::munmap(self.at.cast(), Probe::BYTES) };
    }
}

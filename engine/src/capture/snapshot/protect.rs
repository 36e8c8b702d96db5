//! A snapshot by write protection: a writer to a granule that is not copied yet waits until it is. Huge pages stay
//! whole, and nothing is copied twice.
//!
//! Only for Mainstay's own memory that is written by the program's instructions: a system call that writes into it
//! before it is copied fails with EFAULT, and so does MPI.
//!
//! Invariant: no writer waits for ever, even if the snapshot fails: the copying thread lifts all protection before it
//! ends.

#[cfg(test)]
mod tests;

use super::{NotTaken, Transfer, pages, span, united};
use crate::{
    capture::{
        mappings::{Kind, Mappings},
        userfaultfd::{Event, Protection},
    },
    device::{HUGE_PAGE, forks},
    ground::{self, Thread},
};
use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// A snapshot that is being copied. Dropping it cancels it. Until then the program's memory stays in place.
#[derive(Debug)]
pub(crate) struct Protected {
    copier: Option<Thread<io::Result<()>>>,
    failed: Option<(io::ErrorKind, String)>,
    course: Arc<CopyProgress>,
    /// The thread belongs to this process, not to processes that it forks.
    forks: u32,
}

#[derive(Debug, Default)]
struct CopyProgress {
    is_given_up: AtomicBool,
    copied_bytes: AtomicU64,
}

/// For each granule that is not copied yet, its transfers.
type Pending = BTreeMap<usize, Vec<Transfer>>;

impl Protected {
    /// Takes a snapshot of the memory that `transfers` read.
    pub(crate) fn take(transfers: &[Transfer]) -> Result<Protected, NotTaken> {
        let spans = || transfers.iter().map(|transfer| pages(&span(transfer.from, transfer.bytes)));
        let united = united(spans().collect());
        let mappings = Mappings::now().map_err(io::Error::other)?;
        let mut each = spans().enumerate().filter(|(_, span)| !span.is_empty());
        if let Some((index, why)) = each.find_map(|(index, span)| Some((index, unsuited(&mappings, &span)?))) {
            return Err(NotTaken::Unsuited { indices: vec![index], why });
        }
        let shield = Shield::new(united)?;
        let (course, pending) = (Arc::new(CopyProgress::default()), pending(transfers));
        let copier = {
            let course = course.clone();
            let work = move || copy_all(shield, pending, &course);
            ground::spawn("mainstay-snap".to_owned(), work).map_err(|e| io::Error::other(e.to_string()))?
        };
        Ok(Protected { copier: Some(copier), failed: None, course, forks: forks() })
    }

    /// Whether the copy is complete; an error if it failed. `Some` once it has ended.
    pub(crate) fn poll(&mut self) -> Option<io::Result<()>> {
        let is_over = self.copier.as_ref().is_none_or(Thread::is_finished);
        is_over.then(|| self.wait())
    }

    /// Waits until the copy is complete; an error if it failed.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        if let Some(copier) = self.copier.take() {
            let ended = copier.join().unwrap_or_else(|_| Err(io::Error::other("the thread that copies panicked")));
            self.failed = ended.err().map(|error| (error.kind(), error.to_string()));
        }
        self.failed.clone().map_or(Ok(()), |(kind, why)| Err(io::Error::new(kind, why)))
    }

    /// The number of bytes copied so far, in no order.
    #[cfg(test)]
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.course.copied_bytes.load(Ordering::Acquire)
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        if self.forks == forks() {
            self.course.is_given_up.store(true, Ordering::Relaxed);
            let _ = self.wait();
        }
    }
}

/// Protects memory as long as it lives.
struct Shield {
    protection: Protection,
    /// The registered memory: before Linux 6.17 the kernel would end another session's protection with ours.
    ranges: Vec<Range<usize>>,
}

impl Shield {
    fn new(ranges: Vec<Range<usize>>) -> io::Result<Shield> {
        let mut shield = Shield { protection: Protection::lifted_by_us()?, ranges: Vec::new() };
        ranges.iter().try_for_each(keep_from_merging)?;
        for pages in ranges {
            shield.protection.register(&pages)?;
            shield.ranges.push(pages);
        }
        // Memory freed before all is protected was freed before the snapshot.
        shield.ranges.iter().try_for_each(|pages| shield.set(Protection::protect, pages, &mut Vec::new()))?;
        Ok(shield)
    }

    /// Protects `pages`, or lifts the protection. While another thread frees memory, the kernel does neither until the
    /// event was read; that event goes to `noted`.
    fn set(
        &self,
        how: fn(&Protection, &Range<usize>) -> io::Result<()>,
        pages: &Range<usize>,
        noted: &mut Vec<Event>,
    ) -> io::Result<()> {
        loop {
            match how(&self.protection, pages) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self.protection.next_event()? {
                    Some(event) => noted.push(event),
                    None => std::thread::yield_now(),
                },
                set => return set,
            }
        }
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        // A forked child may still have the descriptor; closing only ours would leave writers waiting.
        self.ranges.iter().for_each(|pages| drop(self.protection.unregister(pages)));
        while let Ok(Some(_)) = self.protection.next_event() {}
    }
}

/// Keeps the kernel from merging equal pages (KSM): a writer to a merged page does not wait.
#[allow(unsafe_code)]
fn keep_from_merging(pages: &Range<usize>) -> io::Result<()> {
    // SAFETY: no byte changes.
    let status = unsafe { libc::madvise(pages.start as *mut libc::c_void, pages.len(), libc::MADV_UNMERGEABLE) };
    match io::Error::last_os_error() {
        // A system without KSM does not know this advice.
        error if status != 0 && error.raw_os_error() != Some(libc::EINVAL) => Err(error),
        _ => Ok(()),
    }
}

/// The reason why these pages cannot be protected.
fn unsuited(mappings: &Mappings, pages: &Range<usize>) -> Option<String> {
    match mappings.kind_of(pages) {
        Ok(Kind::Anonymous) => None,
        Ok(Kind::OfFile) => Some("it is a file's".to_owned()),
        Err(why) => Some(why),
    }
}

fn pending(transfers: &[Transfer]) -> Pending {
    let mut pending = Pending::new();
    for transfer in transfers {
        let mut at = 0;
        while at < transfer.bytes {
            let (from, to) = (transfer.from.wrapping_add(at), transfer.to.wrapping_add(at));
            let granule = granule_of(from as usize);
            let bytes = (granule + HUGE_PAGE - from as usize).min(transfer.bytes - at);
            pending.entry(granule).or_default().push(Transfer { from, to, bytes });
            at += bytes;
        }
    }
    pending
}

/// An error if these pages, which are zeros from now on, have not been copied.
fn check_given_back(pending: &Pending, pages: &Range<usize>) -> io::Result<()> {
    let is_in = |transfer: &Transfer| {
        let from = transfer.from as usize;
        from < pages.end && pages.start < from + transfer.bytes
    };
    match pending.range(granule_of(pages.start)..pages.end).flat_map(|(_, all)| all).any(is_in) {
        true => {
            let why = "memory was freed (madvise) before the snapshot had copied it";
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
        false => Ok(()),
    }
}

fn granule_of(address: usize) -> usize {
    address / HUGE_PAGE * HUGE_PAGE
}

/// The next of the collected events. Freed memory comes first: it may read as zeros by now, even where a thread waits
/// to write beside it.
fn next_noted(noted: &mut Vec<Event>) -> Option<Event> {
    match noted.iter().position(|event| matches!(event, Event::GivenBack(_))) {
        Some(at) => Some(noted.swap_remove(at)),
        None => noted.pop(),
    }
}

fn copy_all(shield: Shield, mut pending: Pending, course: &CopyProgress) -> io::Result<()> {
    let mut noted = Vec::new();
    while !course.is_given_up.load(Ordering::Relaxed) {
        // Waiting writers come first.
        let event = next_noted(&mut noted).map_or_else(|| shield.protection.next_event(), |event| Ok(Some(event)))?;
        let next = match event {
            Some(Event::Fault(address)) => pending.remove_entry(&granule_of(address)),
            Some(Event::GivenBack(pages)) => {
                // The kernel waits only until the event was read.
                check_given_back(&pending, &pages)?;
                continue;
            }
            None if pending.is_empty() => return Ok(()),
            None => pending.pop_first(),
        };
        // A granule that is not pending was copied before its fault was read; its writer goes on.
        let Some((_, transfers)) = next else { continue };
        for transfer in &transfers {
            transfer.copy_now();
            course.copied_bytes.fetch_add(transfer.bytes as u64, Ordering::Release);
        }
        for transfer in &transfers {
            shield.set(Protection::lift, &pages(&span(transfer.from, transfer.bytes)), &mut noted)?;
        }
    }
    Err(io::Error::other("the snapshot was cancelled"))
}

//! Memory of the program that cannot be restored: read-only memory, and pointers into a program that is at another
//! address now. The restore refuses with the name of the region; it once ended the program.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::in_sessions;
use mainstay_engine::{Allocated, Config, ErrorKind, Region, Session, space::format::ElementType};
use std::{ptr, slice};
use tempfile::TempDir;

const PAGE: usize = 4096;

/// Three pages of the test's own memory. The test makes the middle one impossible to fill for a restore.
struct Pages(*mut u8);

// SAFETY: only one rank uses it.
unsafe impl Sync for Pages {}

impl Pages {
    fn new() -> Pages {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(ptr::null_mut(), 3 * PAGE, access, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Pages(at.cast())
    }

    fn allow(&self, access: libc::c_int) {
        // SAFETY: a page of this mapping, to which nothing else refers.
        assert_eq!(unsafe { libc::mprotect(self.0.add(PAGE).cast(), PAGE, access) }, 0);
    }

    fn unmap(&self) {
        // SAFETY: see above.
        assert_eq!(unsafe { libc::munmap(self.0.add(PAGE).cast(), PAGE) }, 0);
    }

    fn fill(&self, value: u8) {
        // SAFETY: mapped and writable at the time of the call.
        unsafe { slice::from_raw_parts_mut(self.0, 3 * PAGE) }.fill(value);
    }

    fn first(&self) -> u8 {
        // SAFETY: the first page stays.
        unsafe { *self.0 }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping of this test, with or without a hole.
        unsafe { libc::munmap(self.0.cast(), 3 * PAGE) };
    }
}

#[test]
fn memory_that_cannot_be_filled_is_refused_before_anything_is() {
    let folder = TempDir::new().unwrap();
    let pages = Pages::new();
    in_sessions(folder.path(), 1, &Config::default(), |_, session| {
        // SAFETY: the memory stays as long as the session.
        session.protect(unsafe { Region::new("x", pages.0, 3 * PAGE as u64) }.unwrap()).unwrap();
        pages.fill(3);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        pages.fill(4);
        for access in [libc::PROT_READ, libc::PROT_NONE] {
            pages.allow(access);
            let error = session.restore().unwrap_err();
            assert_eq!((error.kind(), pages.first()), (ErrorKind::InvalidArgument, 4), "{error}");
            assert!(error.to_string().contains("memory of \"x\": it is read-only at"), "{error}");
        }
        pages.allow(libc::PROT_READ | libc::PROT_WRITE);
        session.restore().unwrap().unwrap();
        assert_eq!(pages.first(), 3);
        pages.unmap();
        let error = session.restore().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("nothing is mapped there"), "{error}");
        session.unprotect("x").unwrap();
    });
}

/// The gaps of a region do not belong to the region.
#[test]
fn what_lies_between_the_rows_of_a_region_may_be_read_only() {
    let folder = TempDir::new().unwrap();
    let pages = Pages::new();
    pages.fill(5);
    in_sessions(folder.path(), 1, &Config::default(), |_, session| {
        // SAFETY: the memory stays as long as the session.
        let rows = unsafe {
            Region::array("rows", pages.0, ElementType::U8, &[2, 100]).unwrap().spread(&[2 * PAGE as u64, 1]).unwrap()
        };
        session.protect(rows).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        pages.fill(6);
        pages.allow(libc::PROT_READ);
        session.restore().unwrap().unwrap();
        assert_eq!(pages.first(), 5);
        session.unprotect("rows").unwrap();
    });
}

/// A position-independent program called a function at its address in the run before.
#[test]
fn pointers_into_a_program_that_lies_elsewhere_are_refused() {
    let how = Allocated { same_address: true, ..Allocated::default() };
    let tree = |session: &mut Session| {
        let memory = session.allocate("program_memory/tree", 8 * 100, how).unwrap();
        // SAFETY: the memory stays as long as the session.
        session.protect(unsafe { Region::new("program_memory/tree", memory.address(), 8 * 100) }.unwrap()).unwrap();
        // SAFETY: see above; nothing else refers to it.
        (memory.clone(), unsafe { slice::from_raw_parts_mut(memory.address().cast::<u64>(), 100) })
    };
    for (word, refused) in [(0x5666_7777_8888, true), (0x5666_7777_0000, false)] {
        let folder = TempDir::new().unwrap();
        in_sessions(folder.path(), 1, &Config::default(), |_, session| {
            let (_memory, words) = tree(session);
            words.fill(7);
            words[5] = word;
            // The note of a run with the program at another address.
            session.note("globals/loaded", "566677778000-566677789000").unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
        });
        in_sessions(folder.path(), 1, &Config::default(), |_, session| {
            let (_memory, words) = tree(session);
            let restored = session.restore();
            if refused {
                let error = restored.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                let text = error.to_string();
                assert!(
                    text.contains("memory of \"program_memory/tree\": 1 of its words, the first at byte 40"),
                    "{text}"
                );
            } else {
                assert_eq!(restored.unwrap().unwrap().notes.len(), 0, "a note for Mainstay alone");
                assert_eq!(words[5], word);
            }
        });
    }
}

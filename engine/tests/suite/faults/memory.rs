//! Memory that Mainstay allocates, and memory with unseen writes.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use super::job::{Rank, Scene, small};
use mainstay_engine::{
    Allocated, Capture, Config, Region, Session, SpaceSurvey, Track, group::Solo, space::format::FoundBy,
};
use std::{fs::File, io, os::fd::AsRawFd, ptr};

const FIXED: Allocated = Allocated { same_address: true, written_by_system: false };

fn saves_all_the_same(scene: &Scene, mut job: Rank) {
    job.save(1).unwrap();
    job.session.close().unwrap();
    scene.comes_back(1, 1);
}

pub fn memory_allocated_twice(scene: &Scene) {
    let mut job = scene.open(0, Box::new(Solo));
    job.session.allocate("m7", 5000, Allocated::default()).unwrap();
    scene.check(0, "protect", &job.session.allocate("m7", 5000, FIXED).unwrap_err());
    job.session.free("m7").unwrap();
    saves_all_the_same(scene, job);
}

pub fn memory_at_a_taken_address(scene: &Scene) {
    let mut job = scene.open(0, Box::new(Solo));
    // The two names have the same address.
    job.session.allocate("m947", 5000, FIXED).unwrap();
    scene.check(0, "protect", &job.session.allocate("m1655", 5000, FIXED).unwrap_err());
    job.session.free("m947").unwrap();
    job.session.allocate("m1655", 5000, FIXED).unwrap();
    job.session.free("m1655").unwrap();
    saves_all_the_same(scene, job);
}

pub fn memory_never_allocated(scene: &Scene) {
    let mut job = scene.open(0, Box::new(Solo));
    scene.check(0, "unprotect", &job.session.free("nothing").unwrap_err());
    // The session has not allocated this protected memory either.
    job.session.free("field").unwrap_err();
    saves_all_the_same(scene, job);
}

/// The size of whole pages, a tenth of a MiB.
const WIDE: usize = 25 * 4096;

/// Makes the system forget that pages of `memory` were written. A device that writes past the page tables has the same
/// effect.
fn forget_writes(memory: *const u8) {
    #[repr(C)]
    #[derive(Default)]
    struct ScanArguments {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walk_end: u64,
        vec: [u64; 3],
        category_inverted: u64,
        category_mask: u64,
        category_anyof_mask: u64,
        return_mask: u64,
    }
    const PROTECT: u64 = 1;
    const WRITTEN: u64 = 2;
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let start = memory.addr() as u64;
    let mut found = [[0_u64; 3]; 32];
    let mut scan = ScanArguments {
        size: size_of::<ScanArguments>() as u64,
        flags: PROTECT,
        start,
        end: start + WIDE as u64,
        vec: [found.as_mut_ptr().addr() as u64, found.len() as u64, 0],
        category_mask: WRITTEN,
        return_mask: WRITTEN,
        ..ScanArguments::default()
    };
    // SAFETY: the arguments, and the room for the result, outlive the call.
    let returned =
        unsafe { libc::ioctl(pagemap.as_raw_fd(), libc::_IOWR::<ScanArguments>(u32::from(b'f'), 16), &raw mut scan) };
    assert!(returned >= 0, "{}", io::Error::last_os_error());
}

/// A mapping of its own, unmapped at the end.
struct Wide(*mut u8);

impl Wide {
    fn new() -> Wide {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at an address of the system's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), WIDE, access, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: all of it is ours.
        unsafe { at.cast::<u8>().write_bytes(1, WIDE) };
        Wide(at.cast())
    }

    fn write(&self, byte: u8) {
        // SAFETY: inside the mapping.
        unsafe { self.0.add(7 * 4096).write_volatile(byte) };
    }
}

impl Drop for Wide {
    fn drop(&mut self) {
        // SAFETY: the session that knows it has ended.
        unsafe { libc::munmap(self.0.cast(), WIDE) };
    }
}

pub fn writes_untold(scene: &Scene) {
    let wide = Wide::new();
    let config = Config { capture: Capture::Incremental, track: Track::Pages, audit: 3, ..small() };
    let mut job = Rank::new(0, Session::open(Box::new(Solo), &scene.space(), config).unwrap());
    // SAFETY: it outlives the session.
    job.protect(unsafe { Region::new("wide", wide.0, WIDE as u64) }).unwrap();
    for step in [1, 2] {
        job.save(step).unwrap();
        job.session.wait().unwrap();
    }
    let survey = SpaceSurvey::open(&scene.space()).unwrap();
    let manifest = survey.newest().unwrap().shards[0].manifest().unwrap().unwrap();
    if manifest.annex.profile.unwrap().found_by != FoundBy::Pages {
        println!("this system tells no written pages: nothing can be untold");
        return;
    }
    wide.write(2);
    forget_writes(wide.0);
    scene.check(0, "checkpoint", &job.save(3).unwrap_err());
    // Mainstay compares hashes from now on, and the program goes on.
    job.save(3).unwrap();
    job.session.wait().unwrap();
    let mut saved = vec![0; WIDE];
    job.session.get(None, "wide", &mut saved).unwrap();
    assert_eq!((saved[7 * 4096], saved[7 * 4096 + 1]), (2, 1));
    job.session.close().unwrap();
}

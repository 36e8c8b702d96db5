//! The cost of a snapshot for the program.

use super::{Cloned, TestPages, destination, transfer};
use std::{ptr, time::Instant};

const PAGES: usize = 1 << 18;

/// For 1 GiB: the program's waiting time, beside a bare clone that ends at once and beside a copy; then the time to
/// write every page while the copy goes on.
#[test]
#[ignore = "a measurement"]
#[allow(unsafe_code)]
fn a_snapshot_of_a_gibibyte() {
    let to = destination(PAGES);
    to.write_each(0..PAGES);
    for (named, advice) in [("4 KiB", libc::MADV_NOHUGEPAGE), ("huge", libc::MADV_HUGEPAGE)] {
        let memory = TestPages::new(PAGES);
        memory.advise(0..PAGES, advice);
        memory.write_each(0..PAGES);
        for _ in 0..5 {
            let begun = Instant::now();
            // SAFETY: both have this length and are not used elsewhere.
            unsafe { ptr::copy_nonoverlapping(memory.at(0), to.at(0), memory.range().len()) };
            let copy = begun.elapsed();
            let begun = Instant::now();
            // SAFETY: the child ends at once, and is waited for.
            let bare = unsafe {
                let child = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0);
                if child == 0 {
                    libc::_exit(0);
                }
                let bare = begun.elapsed();
                libc::waitpid(child as i32, ptr::null_mut(), libc::__WALL);
                bare
            };
            let begun = Instant::now();
            let mut cloned = Cloned::take(&[transfer(memory.at(0), to.at(0), memory.range().len())]).unwrap();
            let perceived = begun.elapsed();
            memory.write_each(0..PAGES);
            let written = begun.elapsed() - perceived;
            cloned.wait().unwrap();
            println!(
                "{named} pages: copy {copy:?}, bare clone {bare:?}, taken in {perceived:?}, all written in {written:?}, \
                 copied after {:?}",
                begun.elapsed()
            );
        }
    }
}

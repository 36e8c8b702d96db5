//! Effects of a clone that a program could notice.

use super::{Cloned, PAGE, TestPages, await_progress, destination, endless, process_id, transfer};
use crate::capture::tests::memory::in_child;
use std::{
    io::{self, Read},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    process, ptr,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
};

/// Counts that a process and its children share.
struct Counts(TestPages);

impl Counts {
    fn new() -> Counts {
        Counts(TestPages::mapped(ptr::null_mut(), 1, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1))
    }

    #[allow(unsafe_code)]
    fn get(&self, which: usize) -> &AtomicU32 {
        // SAFETY: in the page, aligned, and used as an atomic alone.
        unsafe { &*self.0.at(0).cast::<AtomicU32>().add(which) }
    }
}

/// The number of signals that the program, and any other process with its handlers, have received.
static COUNTS: AtomicU32 = AtomicU32::new(0);

#[allow(unsafe_code)]
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handlers below only count.
    unsafe { libc::signal(signal, handler as libc::sighandler_t) };
}

#[test]
#[allow(unsafe_code)]
fn wait_does_not_find_the_clone_and_no_signal_tells_its_end() {
    extern "C" fn count(_: libc::c_int) {
        COUNTS.fetch_add(1, Ordering::SeqCst);
    }
    in_child(|| {
        handle(libc::SIGCHLD, count);
        // SAFETY: nothing is written.
        let wait_any = |options| unsafe { libc::waitpid(-1, ptr::null_mut(), options) };
        let (memory, to) = (TestPages::new(1024), destination(1024));
        let mut short = Cloned::take(&[transfer(memory.at(0), to.at(0), 1024 * PAGE)]).unwrap();
        let long = endless(&memory, &to);
        assert_eq!((wait_any(libc::WNOHANG), io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ECHILD)));
        // A child of the program's own, which the program waits for. SAFETY: the child ends at once.
        let own = unsafe { libc::fork() };
        if own == 0 {
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        assert_eq!(wait_any(0), own);
        assert_eq!(COUNTS.load(Ordering::SeqCst), 1);
        short.wait().unwrap();
        let ended = process_id(&long);
        drop(long);
        // SAFETY: no signal is sent.
        assert_eq!(unsafe { libc::kill(ended, 0) }, -1, "it was ended and waited for");
        assert_eq!(wait_any(0), -1);
        assert_eq!(COUNTS.load(Ordering::SeqCst), 1);
    });
}

#[test]
#[allow(unsafe_code)]
fn signals_to_the_whole_job_are_handled_by_the_program_alone() {
    static PROGRAM: AtomicU32 = AtomicU32::new(0);
    static AT: AtomicBool = AtomicBool::new(false);
    extern "C" fn count(_: libc::c_int) {
        if process::id() != PROGRAM.load(Ordering::SeqCst) {
            // SAFETY: ends the clone, which the test sees.
            unsafe { libc::_exit(9) };
        }
        AT.store(true, Ordering::SeqCst);
    }
    in_child(|| {
        PROGRAM.store(process::id(), Ordering::SeqCst);
        handle(libc::SIGTERM, count);
        handle(libc::SIGINT, count);
        // SAFETY: a process group of its own, so the signal goes no further.
        unsafe { libc::setpgid(0, 0) };
        let (memory, to) = (TestPages::new(1024), destination(1024));
        let mut cloned = endless(&memory, &to);
        for signal in [libc::SIGTERM, libc::SIGINT] {
            AT.store(false, Ordering::SeqCst);
            // SAFETY: the signal goes to this process and its clone.
            unsafe { libc::kill(0, signal) };
            while !AT.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            (0..3).for_each(|_| await_progress(&mut cloned));
        }
    });
}

#[test]
fn a_pipe_ends_though_a_clone_was_made_while_it_was_open() {
    in_child(|| {
        let (memory, to) = (TestPages::new(1024), destination(1024));
        let (mut reader, writer) = io::pipe().unwrap();
        let mut cloned = endless(&memory, &to);
        drop(writer);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert!(cloned.poll().is_none());
    });
}

#[test]
#[allow(unsafe_code)]
fn a_clone_ends_with_its_program() {
    for by_first_thread in [true, false] {
        let process = Counts::new();
        // SAFETY: the child makes the same calls as the tests of this file, and is killed below.
        let program = unsafe { libc::fork() };
        if program == 0 {
            // SAFETY: ends by itself if the test does not end it.
            unsafe { libc::alarm(60) };
            let (memory, to) = (TestPages::new(1024), destination(1024));
            let take = || endless(&memory, &to);
            let cloned =
                if by_first_thread { take() } else { thread::scope(|scope| scope.spawn(take).join().unwrap()) };
            process.get(0).store(process_id(&cloned) as u32, Ordering::SeqCst);
            loop {
                thread::park();
            }
        }
        while process.get(0).load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        // SAFETY: the clone lives as long as the program, which is a child of ours.
        unsafe {
            let clone = libc::syscall(libc::SYS_pidfd_open, process.get(0).load(Ordering::SeqCst), 0);
            assert!(clone >= 0);
            let clone = OwnedFd::from_raw_fd(clone as i32);
            let mut ended = libc::pollfd { fd: clone.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            assert_eq!(libc::poll(&mut ended, 1, 0), 0);
            // A clone that cannot check for itself whether the program is alive is ended by the kernel.
            libc::kill(process.get(0).load(Ordering::SeqCst) as i32, libc::SIGSTOP);
            libc::kill(program, libc::SIGKILL);
            libc::waitpid(program, ptr::null_mut(), 0);
            assert_eq!(libc::poll(&mut ended, 1, 20_000), 1);
        }
    }
}

#[test]
fn a_child_of_the_program_neither_ends_the_clone_nor_gets_its_memory() {
    let (memory, to) = (TestPages::new(1024), destination(1024));
    let mut cloned = Some(endless(&memory, &to));
    in_child(|| {
        drop(cloned.take());
        // Memory that is not mapped accepts no advice.
        #[allow(unsafe_code)]
        // SAFETY: changes no contents.
        let advised = unsafe { libc::madvise(to.at(0).cast(), PAGE, libc::MADV_NORMAL) };
        assert_eq!((advised, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ENOMEM)));
    });
    await_progress(cloned.as_mut().unwrap());
}

/// Each thread holds a lock of `malloc` now and then, also at the moment of a clone.
#[test]
fn programs_whose_threads_allocate_all_the_time_have_their_snapshots() {
    let (memory, to) = (TestPages::new(16), destination(16));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut held: Vec<Vec<u8>> = Vec::new();
                for bytes in (1..).map(|n: usize| n.wrapping_mul(2654435761) % 100_000) {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    held.push(Vec::with_capacity(bytes));
                    if held.len() > 100 {
                        held.clear();
                    }
                }
            });
        }
        let taken = (0..30).try_for_each(|_| {
            memory.write(3);
            let mut cloned =
                Cloned::take(&[transfer(memory.at(0), to.at(0), 16 * PAGE)]).map_err(|e| format!("{e:?}"))?;
            cloned.wait().map_err(|e| e.to_string())?;
            (to.read(3) == memory.read(3)).then_some(()).ok_or("another byte".to_owned())
        });
        stop.store(true, Ordering::Relaxed);
        taken.unwrap();
    });
}

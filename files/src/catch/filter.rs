//! The filter: it sends some system calls to the supervisor. All others run at full speed.
//!
//! It is written by hand, in BPF. The crate `seccompiler` cannot notify, and gives no listener.

use super::calls;
use libc::{c_int, sock_filter, sock_fprog};
use rustix::thread::set_no_new_privs;
use std::{
    io,
    mem::offset_of,
    os::fd::{FromRawFd, OwnedFd},
};

#[cfg(target_arch = "x86_64")]
const MACHINE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const MACHINE: u32 = 0xc000_00b7;

/// The filter lets calls of other architectures pass, such as those of 32-bit programs.
pub fn program() -> Vec<sock_filter> {
    let mut program = vec![
        load(offset_of!(libc::seccomp_data, arch)),
        jump(libc::BPF_JEQ, MACHINE, 1, 0),
        give(libc::SECCOMP_RET_ALLOW),
        load(offset_of!(libc::seccomp_data, nr)),
    ];
    for number in calls::ALWAYS {
        program.extend([jump(libc::BPF_JEQ, *number as u32, 0, 1), give(libc::SECCOMP_RET_USER_NOTIF)]);
    }
    for (number, argument, bits) in calls::WITHOUT {
        program.extend([
            jump(libc::BPF_JEQ, *number as u32, 0, 4),
            load(offset_of!(libc::seccomp_data, args) + 8 * argument),
            jump(libc::BPF_JSET, *bits, 0, 1),
            give(libc::SECCOMP_RET_ALLOW),
            give(libc::SECCOMP_RET_USER_NOTIF),
        ]);
    }
    program.push(give(libc::SECCOMP_RET_ALLOW));
    program
}

fn load(offset: usize) -> sock_filter {
    sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: offset as u32 }
}

fn jump(test: u32, with: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | test | libc::BPF_K) as u16, jt, jf, k: with }
}

fn give(action: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: action }
}

/// Installs the filter for this thread and all its children. Returns the listener. Allocates nothing: the caller is a
/// child of a process with threads.
pub fn install(program: &[sock_filter]) -> io::Result<OwnedFd> {
    set_no_new_privs(true)?;
    // Without the second flag a signal may interrupt a call that has its answer. Linux before 5.19 lacks the flag.
    let best = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    match set(program, best) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            set(program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)
        }
        other => other,
    }
}

#[allow(unsafe_code)]
fn set(program: &[sock_filter], flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let filter = sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: `filter` and the program that it names live during the call, and the kernel only reads them.
    let listener = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor for us, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as c_int) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel does, for the instructions in the filter.
    fn run(program: &[sock_filter], machine: u32, number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            match u32::from(step.code) {
                0x20 if step.k == 0 => value = number,
                0x20 if step.k == 4 => value = machine,
                0x20 => value = arguments[(step.k as usize - 16) / 8],
                0x15 => at += usize::from(if value == step.k { step.jt } else { step.jf }),
                0x45 => at += usize::from(if value & step.k != 0 { step.jt } else { step.jf }),
                0x06 => return step.k,
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    fn calls_with_names_are_notified_and_others_are_not() {
        let program = program();
        let ask = |number: libc::c_long, first: u32, fourth: u32| {
            run(&program, MACHINE, number as u32, [first, 0, 0, fourth, 0, 0]) == libc::SECCOMP_RET_USER_NOTIF
        };
        assert!(ask(libc::SYS_openat, 0, 0) && ask(libc::SYS_renameat2, 0, 0) && ask(libc::SYS_exit_group, 0, 0));
        assert!(!ask(libc::SYS_write, 0, 0) && !ask(libc::SYS_close, 0, 0) && !ask(libc::SYS_fstat, 0, 0));
        // The filter stops a new process, but no new thread, and no stat of a descriptor.
        assert!(ask(libc::SYS_clone, 17, 0) && !ask(libc::SYS_clone, libc::CLONE_THREAD as u32 | 0x100, 0));
        assert!(ask(libc::SYS_newfstatat, 0, 0) && !ask(libc::SYS_newfstatat, 0, libc::AT_EMPTY_PATH as u32));
        assert_eq!(run(&program, 0x4000_0003, libc::SYS_openat as u32, [0; 6]), libc::SECCOMP_RET_ALLOW);
    }
}

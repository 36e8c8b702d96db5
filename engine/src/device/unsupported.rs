//! Identifies errors by which a file system says that it does not support a request.

use std::io;

/// The kernel's internal number for this (`ENOTSUPP`), which programs should never see. Autofs, DVS and some NFS
/// servers return it, and the C library has no name for it.
const KERNEL_ENOTSUPP: i32 = 524;

/// Whether the file system lacks the requested feature.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS | KERNEL_ENOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::super::{LockOutcome, lock::ByteLocks};
    use std::{io, thread};

    /// Makes the locking calls of this thread fail with `error`.
    #[allow(unsafe_code)]
    fn refuse_locks(error: i32) {
        let code = |code: u32| code as u16;
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let (load, is_equal) = (code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), libc::BPF_JMP | libc::BPF_JEQ);
        let is_equal = code(is_equal | libc::BPF_K);
        let (answer, second_argument) = (code(libc::BPF_RET | libc::BPF_K), 24);
        let mut filter = [
            step(load, 0, 0, 0),
            step(is_equal, 0, 4, libc::SYS_fcntl as u32),
            step(load, 0, 0, second_argument),
            step(is_equal, 1, 0, libc::F_OFD_SETLK as u32),
            step(is_equal, 0, 1, libc::F_OFD_GETLK as u32),
            step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
            step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program outlives the calls, which confine only this thread.
        unsafe {
            assert_eq!(0, libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
            assert_eq!(0, libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program));
        }
    }

    /// Story: with 524 a start failed with "Success (os error 0)".
    #[test]
    fn a_file_system_without_locks_says_so_in_several_ways() {
        for error in [libc::ENOLCK, libc::EOPNOTSUPP, libc::ENOSYS, super::KERNEL_ENOTSUPP] {
            let asked = thread::spawn(move || {
                let locks = ByteLocks::of(tempfile::tempfile().unwrap());
                refuse_locks(error);
                assert_eq!(locks.try_lock(3).unwrap(), LockOutcome::Unsupported, "{error}");
                assert_eq!(locks.is_locked().unwrap_err().kind(), io::ErrorKind::Unsupported, "{error}");
            });
            asked.join().unwrap();
        }
    }
}

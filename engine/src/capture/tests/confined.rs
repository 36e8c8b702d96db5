//! A thread with system calls that the kernel refuses, as a container or an older kernel does.

/// Makes the kernel refuse a call of this thread if its second argument is `argument`.
#[allow(unsafe_code)]
pub(in crate::capture) fn confine(call: i64, argument: Option<u32>, errno: i32) {
    let code = |code: u32| code as u16;
    let load = |at| libc::sock_filter { code: code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), jt: 0, jf: 0, k: at };
    let unless = |value, skip| {
        let code = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
        libc::sock_filter { code, jt: 0, jf: skip, k: value }
    };
    let end = |k| libc::sock_filter { code: code(libc::BPF_RET | libc::BPF_K), jt: 0, jf: 0, k };
    let mut filter = vec![load(0), unless(call as u32, if argument.is_some() { 3 } else { 1 })];
    if let Some(argument) = argument {
        filter.extend([load(24), unless(argument, 1)]);
    }
    filter.extend([end(libc::SECCOMP_RET_ERRNO | errno as u32), end(libc::SECCOMP_RET_ALLOW)]);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program outlives the calls, which confine only this thread.
    unsafe {
        assert_eq!(0, libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        assert_eq!(0, libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program));
    }
}

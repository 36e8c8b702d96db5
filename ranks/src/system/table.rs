//! The table: how each system call of a rank is treated, and why.

use super::{Arguments, System};
use libc::{EAGAIN, EINVAL, ENODEV, ENOSYS, EPERM, c_long};
use std::io;

type Emulate = fn(&mut System, i64, Arguments) -> io::Result<i64>;

/// How a system call is treated.
#[derive(Clone, Copy)]
pub(super) enum Treatment {
    /// It concerns nothing but the rank's memory, or facts that are the same for all.
    Pass,
    /// It passes with the host's descriptors. These arguments are descriptors.
    Files(&'static [usize]),
    /// It passes with the rank's own directory. The first of these arguments is the descriptor of a directory.
    Path(&'static [usize]),
    /// It concerns memory, descriptors or facts that belong to the rank.
    Emulate(Emulate),
    ThreadPointer,
    Exit,
    /// A signal, which stays within the rank.
    Signal,
    /// It has no effect that a rank could notice.
    Answer(i64),
    /// It fails with this error, and the user reads why, once.
    Refuse(i32, &'static str),
}

const NO_EXEC: &str = "it tried to replace its program (exec), which a rank in a slot cannot";
const NO_SHARING: &str = "it tried to share memory with another process (System V), which a rank in a slot cannot";
const NO_TIMER: &str = "it set a timer that sends signals, which do not reach a rank in a slot";
const UNKNOWN: &str = "it made a system call that ranks in slots do not know";

/// How system call `number` is treated. Calls that no line names are refused as unknown to the kernel.
#[allow(clippy::too_many_lines, reason = "a table")]
pub(super) fn treatment(number: i64) -> Treatment {
    use Treatment::{Answer, Emulate, Exit, Files, Pass, Path, Refuse, Signal, ThreadPointer};
    match number as c_long {
        // Memory.
        libc::SYS_brk => Emulate(System::brk),
        libc::SYS_mmap => Emulate(System::mmap),
        libc::SYS_munmap => Emulate(System::munmap),
        libc::SYS_mprotect => Emulate(System::mprotect),
        libc::SYS_mremap => Emulate(System::mremap),
        libc::SYS_madvise => Emulate(System::madvise),
        libc::SYS_mincore | libc::SYS_msync | libc::SYS_mlock | libc::SYS_mlock2 | libc::SYS_munlock => Pass,
        libc::SYS_mlockall
        | libc::SYS_munlockall
        | libc::SYS_mbind
        | libc::SYS_set_mempolicy
        | libc::SYS_get_mempolicy => Answer(0),
        libc::SYS_process_vm_readv | libc::SYS_membarrier => Answer(-(ENOSYS as i64)),

        // Files that are open.
        libc::SYS_read | libc::SYS_readv => Emulate(System::read),
        libc::SYS_lseek => Emulate(System::seek),
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev => Emulate(System::write),
        libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_fstat
        | libc::SYS_fstatfs
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_fadvise64
        | libc::SYS_readahead
        | libc::SYS_sync_file_range
        | libc::SYS_getdents
        | libc::SYS_getdents64
        | libc::SYS_ioctl
        | libc::SYS_flock
        | libc::SYS_fchmod
        | libc::SYS_fchown
        | libc::SYS_fgetxattr
        | libc::SYS_fsetxattr
        | libc::SYS_flistxattr
        | libc::SYS_fremovexattr
        | libc::SYS_connect
        | libc::SYS_bind
        | libc::SYS_listen
        | libc::SYS_shutdown
        | libc::SYS_sendto
        | libc::SYS_recvfrom
        | libc::SYS_sendmsg
        | libc::SYS_recvmsg
        | libc::SYS_getsockname
        | libc::SYS_getpeername
        | libc::SYS_setsockopt
        | libc::SYS_getsockopt
        | libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_timerfd_settime
        | libc::SYS_inotify_add_watch => Files(&[0]),
        libc::SYS_sendfile => Files(&[0, 1]),
        libc::SYS_copy_file_range | libc::SYS_splice | libc::SYS_epoll_ctl => Files(&[0, 2]),
        libc::SYS_open | libc::SYS_creat | libc::SYS_openat => Emulate(System::open),
        libc::SYS_openat2 => Answer(-(ENOSYS as i64)),
        libc::SYS_close => Emulate(System::close),
        libc::SYS_close_range => Emulate(System::close_range),
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => Emulate(System::dup),
        libc::SYS_fcntl => Emulate(System::fcntl),
        libc::SYS_pipe | libc::SYS_pipe2 => Emulate(System::pipe),
        libc::SYS_socket
        | libc::SYS_eventfd2
        | libc::SYS_epoll_create1
        | libc::SYS_memfd_create
        | libc::SYS_timerfd_create
        | libc::SYS_inotify_init1 => Emulate(System::new_descriptor),
        libc::SYS_accept | libc::SYS_accept4 => Emulate(System::accept),
        libc::SYS_socketpair => Refuse(ENOSYS, "it opened a pair of sockets, which a rank in a slot cannot"),
        libc::SYS_poll | libc::SYS_ppoll => Emulate(System::poll),
        libc::SYS_select | libc::SYS_pselect6 => Emulate(System::select),

        // Files by name.
        libc::SYS_newfstatat
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_mkdirat
        | libc::SYS_mknodat
        | libc::SYS_fchmodat
        | libc::SYS_fchownat
        | libc::SYS_unlinkat
        | libc::SYS_statx
        | libc::SYS_utimensat
        | libc::SYS_futimesat => Path(&[0]),
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => Path(&[0, 2]),
        libc::SYS_symlinkat => Path(&[1]),
        libc::SYS_readlinkat | libc::SYS_readlink => Emulate(System::read_link),
        libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_access
        | libc::SYS_mkdir
        | libc::SYS_mknod
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_rename
        | libc::SYS_link
        | libc::SYS_symlink
        | libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_lchown => Emulate(System::by_name),
        libc::SYS_truncate
        | libc::SYS_statfs
        | libc::SYS_getxattr
        | libc::SYS_lgetxattr
        | libc::SYS_llistxattr
        | libc::SYS_utime
        | libc::SYS_utimes => Emulate(System::in_directory),
        libc::SYS_chdir | libc::SYS_fchdir => Emulate(System::change_directory),
        libc::SYS_getcwd => Emulate(System::current_directory),
        libc::SYS_umask => Emulate(System::set_umask),
        libc::SYS_sync => Pass,

        // The process.
        libc::SYS_exit | libc::SYS_exit_group => Exit,
        libc::SYS_arch_prctl => ThreadPointer,
        libc::SYS_getpid | libc::SYS_gettid | libc::SYS_set_tid_address => Emulate(System::process_number),
        libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill | libc::SYS_rt_sigqueueinfo => Signal,
        libc::SYS_rt_sigaction => Emulate(System::signal_action),
        libc::SYS_rt_sigprocmask => Emulate(System::signal_mask),
        libc::SYS_sigaltstack
        | libc::SYS_set_robust_list
        | libc::SYS_setpriority
        | libc::SYS_sched_setaffinity
        | libc::SYS_setrlimit => Answer(0),
        libc::SYS_rt_sigpending | libc::SYS_rt_sigtimedwait | libc::SYS_rt_sigsuspend | libc::SYS_pause => {
            Answer(-(EAGAIN as i64))
        }
        libc::SYS_alarm | libc::SYS_setitimer | libc::SYS_timer_create => Refuse(ENOSYS, NO_TIMER),
        libc::SYS_getitimer
        | libc::SYS_get_robust_list
        | libc::SYS_rseq
        | libc::SYS_io_uring_setup
        | libc::SYS_userfaultfd
        | libc::SYS_perf_event_open
        | libc::SYS_ptrace => Answer(-(ENOSYS as i64)),
        libc::SYS_prctl => Emulate(System::prctl),
        libc::SYS_prlimit64 => Emulate(System::prlimit),
        libc::SYS_wait4 | libc::SYS_waitid => Answer(-(libc::ECHILD as i64)),
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => Emulate(System::clone),
        libc::SYS_execve | libc::SYS_execveat => Refuse(EPERM, NO_EXEC),
        libc::SYS_shmget | libc::SYS_semget | libc::SYS_msgget => Refuse(ENODEV, NO_SHARING),
        libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_getgid
        | libc::SYS_getegid
        | libc::SYS_getgroups
        | libc::SYS_getresuid
        | libc::SYS_getresgid
        | libc::SYS_getppid
        | libc::SYS_getpgrp
        | libc::SYS_getpgid
        | libc::SYS_getsid
        | libc::SYS_getpriority
        | libc::SYS_getrlimit
        | libc::SYS_uname
        | libc::SYS_sysinfo
        | libc::SYS_getrandom
        | libc::SYS_getcpu
        | libc::SYS_sched_getaffinity
        | libc::SYS_sched_getparam
        | libc::SYS_sched_getscheduler
        | libc::SYS_sched_get_priority_max
        | libc::SYS_sched_get_priority_min
        | libc::SYS_futex => Pass,
        libc::SYS_personality => Answer(-(EINVAL as i64)),

        // Time.
        libc::SYS_clock_gettime => Emulate(System::clock_gettime),
        libc::SYS_gettimeofday
        | libc::SYS_time
        | libc::SYS_clock_getres
        | libc::SYS_times
        | libc::SYS_getrusage
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_sched_yield => Pass,
        _ => Refuse(ENOSYS, UNKNOWN),
    }
}

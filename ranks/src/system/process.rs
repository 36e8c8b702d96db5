//! What a rank knows of itself as a process: its number, its signals, its limits.

use super::{Arguments, Outcome, System};
use crate::memory;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io};

/// The bytes of a signal action, as the kernel has them.
const ACTION_BYTES: usize = 32;
/// No process number of Linux has more bits.
const NUMBER_BITS: u32 = 22;

const NO_PROCESS: &str = "it tried to start another process (fork, system, popen), which a rank in a slot cannot";
const NO_THREAD: &str = "it tried to start a thread, which a rank in a slot cannot; set OMP_NUM_THREADS=1, or run it with --virtual \
                         and more ranks";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// The process number, the same for as long as the job lives, and different for each rank of a process.
    number: i32,
    /// The handlers that the rank has set. No signal reaches them.
    actions: BTreeMap<u64, [u8; ACTION_BYTES]>,
    mask: u64,
    pub umask: Option<u32>,
}

impl Process {
    pub fn new(rank: usize) -> Process {
        let of_host = std::process::id() & ((1 << NUMBER_BITS) - 1);
        let number = (of_host | (rank as u32 & 0xff) << NUMBER_BITS) as i32;
        Process { number, actions: BTreeMap::new(), mask: 0, umask: None }
    }

    /// A rank sends a signal: to itself, or to others, which it cannot reach.
    pub fn signal(&self, number: i64, [first, second, third, ..]: Arguments) -> Outcome {
        let (to, signal) = if number == libc::SYS_tgkill { (second, third) } else { (first, second) };
        let (to, signal) = (to as i32, signal as i32);
        if to != self.number && to != 0 {
            return Outcome::Result(-i64::from(libc::ESRCH));
        }
        let ignored = [0, libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];
        let is_handled = self.actions.get(&(signal as u64)).is_some_and(|action| action[..8] != [0; 8]);
        if ignored.contains(&signal) || is_handled && signal != libc::SIGABRT {
            return Outcome::Result(0);
        }
        Outcome::Signal(signal)
    }
}

impl System {
    /// Refuses a thread or a process, by its own message.
    pub(super) fn clone(&mut self, number: i64, [first, ..]: Arguments) -> io::Result<i64> {
        let flags = match number {
            libc::SYS_clone => first,
            // The structure of the call begins with them.
            libc::SYS_clone3 => memory::get(self.slot, first as usize)?,
            _ => 0,
        };
        match flags & libc::CLONE_THREAD as u64 {
            0 => self.refuse(libc::SYS_fork, NO_PROCESS),
            _ => self.refuse(libc::SYS_clone, NO_THREAD),
        }
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }

    pub(super) fn process_number(&mut self, _: i64, _: Arguments) -> io::Result<i64> {
        Ok(self.process.number.into())
    }

    /// Keeps the handler, and returns the one before.
    pub(super) fn signal_action(&mut self, _: i64, [signal, new, old, ..]: Arguments) -> io::Result<i64> {
        if old != 0 {
            let before = self.process.actions.get(&signal).copied().unwrap_or([0; ACTION_BYTES]);
            memory::put(self.slot, old as usize, &before)?;
        }
        if new != 0 {
            let action: [u8; ACTION_BYTES] = memory::get(self.slot, new as usize)?;
            self.process.actions.insert(signal, action);
        }
        Ok(0)
    }

    pub(super) fn signal_mask(&mut self, _: i64, [how, new, old, ..]: Arguments) -> io::Result<i64> {
        let before = self.process.mask;
        if new != 0 {
            let set: u64 = memory::get(self.slot, new as usize)?;
            self.process.mask = match how as i32 {
                libc::SIG_BLOCK => before | set,
                libc::SIG_UNBLOCK => before & !set,
                _ => set,
            };
        }
        if old != 0 {
            memory::put(self.slot, old as usize, &before)?;
        }
        Ok(0)
    }

    /// Names for debuggers are ignored; all else is unknown.
    pub(super) fn prctl(&mut self, _: i64, [option, ..]: Arguments) -> io::Result<i64> {
        match option as i32 {
            libc::PR_SET_NAME | libc::PR_SET_DUMPABLE | libc::PR_SET_PDEATHSIG => Ok(0),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    /// Limits can be read. Setting one has no effect: it would be the host's. The stack has the size of its part of the
    /// slot.
    pub(super) fn prlimit(&mut self, number: i64, [_, resource, _, old, ..]: Arguments) -> io::Result<i64> {
        if old == 0 {
            return Ok(0);
        }
        if resource == u64::from(libc::RLIMIT_STACK) {
            let bytes = self.slot.stack().len() as u64;
            memory::put(self.slot, old as usize, &[bytes, bytes])?;
            return Ok(0);
        }
        super::kernel::result(super::kernel::call(number, [0, resource, 0, old, 0, 0]))
    }
}

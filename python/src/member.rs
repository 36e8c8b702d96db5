//! The processes of a world: which share processors, and which one is to be killed that is taken for dead.

use mainstay_engine::group::host_name;
use pyo3::{intern, prelude::*, types::PyByteArray};
use std::{collections::BTreeSet, fs, process};

/// A process as all others know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The number of the worker; `None`: a spare.
    pub(crate) place: Option<usize>,
    /// Ranks with the same one share processors.
    host: [u8; HOST_BYTES],
    /// The namespace in which `pid` means this process.
    space: u64,
    pid: u64,
    /// When it was started, in ticks since the host was: another process can get its number.
    start: u64,
}

/// Of the kernel's name for this start of the host.
const HOST_BYTES: usize = 40;
const BYTES: usize = HOST_BYTES + 3 * size_of::<u64>();

impl Member {
    fn this() -> Member {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| host_name());
        let mut host = [0; HOST_BYTES];
        host.iter_mut().zip(boot.trim().bytes()).for_each(|(to, byte)| *to = byte);
        let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let digits: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        let pid = u64::from(process::id());
        let start = start_of(pid).unwrap_or(0);
        Member { place: None, host, space: digits.parse().unwrap_or(0), pid, start }
    }

    /// One that introduces itself later.
    pub(crate) fn to_come(place: Option<usize>) -> Member {
        Member { place, host: [0; HOST_BYTES], space: 0, pid: 0, start: 0 }
    }

    /// The place as a number; below 0: a spare.
    pub(crate) fn number(&self) -> i64 {
        self.place.map_or(-1, |place| place as i64)
    }

    fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..HOST_BYTES].copy_from_slice(&self.host);
        let numbers = [self.space, self.pid, self.start];
        let chunks = bytes[HOST_BYTES..].chunks_exact_mut(size_of::<u64>());
        chunks.zip(numbers).for_each(|(to, number)| to.copy_from_slice(&number.to_ne_bytes()));
        bytes
    }

    fn from_bytes(bytes: &[u8], place: i64) -> Member {
        let (host, numbers) = bytes.split_at(HOST_BYTES);
        let mut numbers =
            numbers.chunks_exact(size_of::<u64>()).map(|b| u64::from_ne_bytes(b.try_into().unwrap_or_default()));
        let mut next = || numbers.next().unwrap_or(0);
        let host = host.try_into().unwrap_or([0; HOST_BYTES]);
        Member { place: place.try_into().ok(), host, space: next(), pid: next(), start: next() }
    }

    pub(crate) fn shares_processors_with(&self, other: &Member) -> bool {
        self.host == other.host
    }

    fn can_kill(&self, other: &Member) -> bool {
        self.host == other.host && self.space == other.space && other.start != 0
    }

    /// Kills the process, if it is still the same one.
    fn kill(&self, py: Python<'_>) -> PyResult<()> {
        let (os, signal) = (py.import(intern!(py, "os"))?, py.import(intern!(py, "signal"))?);
        let process = os.call_method1(intern!(py, "pidfd_open"), (self.pid,))?;
        // What was opened stays the same process.
        let killed = if start_of(self.pid) == Some(self.start) {
            signal
                .call_method1(intern!(py, "pidfd_send_signal"), (&process, signal.getattr(intern!(py, "SIGKILL"))?))
                .map(drop)
        } else {
            Ok(())
        };
        os.call_method1(intern!(py, "close"), (process,))?;
        killed
    }
}

/// The processes of a communicator, by rank, each with its place as a number. Collective.
pub(crate) fn introduce(mpi: &Bound<'_, PyAny>, comm: &Bound<'_, PyAny>, places: &[i64]) -> PyResult<Vec<Member>> {
    let py = comm.py();
    let byte = mpi.getattr(intern!(py, "BYTE"))?;
    let all = PyByteArray::new_with(py, places.len() * BYTES, |_| Ok(()))?;
    let mine = PyByteArray::new(py, &Member::this().to_bytes());
    comm.call_method1(intern!(py, "Allgather"), ([mine.as_any(), &byte], [all.as_any(), &byte]))?;
    Ok(all.to_vec().chunks_exact(BYTES).zip(places).map(|(bytes, place)| Member::from_bytes(bytes, *place)).collect())
}

/// Kills the processes that are taken for dead, which may be stopped only, and would hold up what started the job. The
/// lowest of `living` on a host does it for those of its host.
pub(crate) fn kill_dead(py: Python<'_>, members: &[Member], living: &BTreeSet<usize>, mine: usize) {
    for (_, dead) in members.iter().enumerate().filter(|(rank, _)| !living.contains(rank)) {
        let mut near = living.iter().filter(|living| members.get(**living).is_some_and(|member| member.can_kill(dead)));
        if near.next() == Some(&mine) {
            // Most are gone already.
            drop(dead.kill(py));
        }
    }
}

fn start_of(pid: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have spaces; behind it the state is field 3, the start 22.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

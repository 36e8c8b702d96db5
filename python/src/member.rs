//! The processes of a world: the ones that share processors, and the ones to end because they count as dead.

use mainstay_engine::{
    group::{Process, host_name},
    kernel_text,
};
use pyo3::{intern, prelude::*, types::PyByteArray};
use std::collections::BTreeSet;

/// A process as all others know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The number of the worker; `None`: a spare.
    pub(crate) place: Option<usize>,
    /// Ranks with the same value share processors.
    host: [u8; HOST_BYTES],
    process: Process,
}

/// The kernel's name for this start of the host.
const HOST_BYTES: usize = 40;
const BYTES: usize = HOST_BYTES + 3 * size_of::<u64>();

impl Member {
    fn this() -> Member {
        let boot = kernel_text("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| host_name());
        let mut host = [0; HOST_BYTES];
        host.iter_mut().zip(boot.trim().bytes()).for_each(|(to, byte)| *to = byte);
        Member { place: None, host, process: Process::here() }
    }

    /// A process that introduces itself later.
    pub(crate) fn to_come(place: Option<usize>) -> Member {
        Member { place, host: [0; HOST_BYTES], process: Process::default() }
    }

    /// The place as a number; below 0: a spare.
    pub(crate) fn number(&self) -> i64 {
        self.place.map_or(-1, |place| place as i64)
    }

    fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..HOST_BYTES].copy_from_slice(&self.host);
        let numbers = [self.process.host, self.process.pid, self.process.start];
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
        let process = Process { host: next(), pid: next(), start: next() };
        Member { place: place.try_into().ok(), host, process }
    }

    pub(crate) fn shares_processors_with(&self, other: &Member) -> bool {
        self.host == other.host
    }

    /// Whether this one can end the other.
    pub(crate) fn is_beside(&self, other: &Member) -> bool {
        self.process.host == other.process.host
    }

    pub(crate) fn pid(&self) -> u64 {
        self.process.pid
    }

    /// Ends it, if it is on this machine.
    pub(crate) fn end(&self) {
        self.process.end();
    }

    /// A name that no other process has.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.process.pid, self.process.start)
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

/// Ends processes that count as dead. They may only be stopped, and would hold up the program that started the job.
/// On each host the lowest of `living` does it.
pub(crate) fn end_dead(py: Python<'_>, members: &[Member], living: &BTreeSet<usize>, mine: usize) {
    for (_, dead) in members.iter().enumerate().filter(|(rank, _)| !living.contains(rank)) {
        let mut near =
            living.iter().filter(|living| members.get(**living).is_some_and(|member| member.is_beside(dead)));
        if near.next() == Some(&mine) {
            py.detach(|| dead.end());
        }
    }
}

/// Ends processes with `mark`, which were started for this job, unless they are among `members`: they came too late.
/// On each host its first member does it.
pub(crate) fn end_late(py: Python<'_>, members: &[Member], mark: &str) {
    let this = Member::this();
    if members.iter().find(|member| member.is_beside(&this)).is_some_and(|first| first.process == this.process) {
        let kept: Vec<Process> = members.iter().map(|member| member.process).collect();
        py.detach(|| Process::end_siblings(mark, &kept));
    }
}

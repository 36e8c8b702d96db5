//! Finds the ranks that see the same files of a space: each rank leaves a probe there for the others to see.

use crate::{
    device::{Access, Device, Naming, NewFile},
    error::{Error, Result},
    group::{Group, Neighbours, Place},
    space::{LOCK_FILE, Probes},
};
use std::io;

#[derive(Debug, Clone)]
pub(super) struct Domain {
    seen: Neighbours,
}

impl Domain {
    /// `id`: drawn for this search, the same on all ranks. Collective.
    pub(super) fn find(group: &dyn Group, device: &dyn Device, id: [u8; 16]) -> Result<Domain> {
        Ok(Domain { seen: Neighbours::find(group, &Marked { device, probes: Probes::new(id) })? })
    }

    /// The lowest rank of the domain. It makes and removes files for all of it.
    pub(super) fn leader(&self) -> usize {
        self.seen.leader()
    }

    pub(super) fn contains(&self, rank: usize) -> bool {
        self.seen.contains(rank)
    }

    /// Whether all ranks of `group` see the same files.
    pub(super) fn has_all_of(&self, group: &dyn Group) -> bool {
        self.seen.ranks().len() == group.size()
    }

    /// Whether `rank` looks after the portion of `owner`: the owner itself if it is in this domain, otherwise one of
    /// the domain's ranks.
    pub(super) fn looks_after(&self, rank: usize, owner: usize) -> bool {
        if self.contains(owner) {
            return rank == owner;
        }
        let ranks = self.seen.ranks();
        ranks[owner % ranks.len()] == rank
    }
}

/// A space in which ranks leave probes.
struct Marked<'a> {
    device: &'a dyn Device,
    probes: Probes,
}

impl Marked<'_> {
    fn failed(&self, doing: &'static str, probe: &str, error: io::Error) -> Error {
        Error::io(doing, format!("{}/{probe}", self.device.path()), error)
    }
}

impl Place for Marked<'_> {
    type Mark = String;

    /// The probe is an empty file: a job can then restore from a full disk. If no more files can be made, the probe is
    /// another name of the lock file.
    fn mark(&self, rank: usize) -> Result<String> {
        let probe = self.probes.name(rank);
        let made = self.device.open(&probe, Access::Write, Some(&NewFile::of(0))).map(drop);
        let link = Naming::Link { of: LOCK_FILE, name: &probe };
        match made.or_else(|error| self.device.name(link).map_err(|_| error)) {
            Ok(()) => Ok(probe),
            Err(e) => {
                Err(self.failed("making", &probe, e).for_want_of(0, || self.device.directory().available_bytes()))
            }
        }
    }

    fn sees(&self, rank: usize) -> Result<bool> {
        let probe = self.probes.name(rank);
        match self.device.open(&probe, Access::Read, None) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(self.failed("opening", &probe, e)),
        }
    }

    fn list(&self) -> Result<Vec<usize>> {
        let names = self.device.list().map_err(|e| Error::io("listing", self.device.path(), e))?;
        Ok(names.iter().filter_map(|name| self.probes.rank(name)).collect())
    }

    /// A missing probe is not an error. A job that opened the space meanwhile may have removed it, and soon refuses
    /// this job.
    fn remove(&self, probe: String) -> Result<()> {
        match self.device.name(Naming::Remove(&probe)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|e| self.failed("removing", &probe, e)),
        }
    }

    /// The error for a missing probe: only a job that opens the space removes the probes of others.
    fn gone(&self, _rank: usize) -> Error {
        Error::InUse { path: self.device.path(), holder: " that opened it meanwhile".to_owned() }
    }
}

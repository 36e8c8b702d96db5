//! The ranks that see the same files. Found by looking, not by comparing host names: a directory may
//! be local to each node, or shared by all.

use crate::{
    device::{Access, Device, Room},
    error::{Error, Result},
    group::{Group, agree, gather},
    space::probe_name,
};
use std::io;

#[derive(Debug, Clone)]
pub(super) struct Domain {
    /// Lowest rank of the domain; makes and removes files for all of it.
    pub(super) leader: usize,
    /// Ascending.
    pub(super) ranks: Vec<usize>,
}

impl Domain {
    pub(super) fn find(group: &dyn Group, device: &dyn Device) -> Result<Domain> {
        let (rank, size) = (group.rank(), group.size());
        let mut leader = None;
        loop {
            // The lowest rank without a domain leads the next one.
            let mut lowest = [if leader.is_none() { (size - rank) as u64 } else { 0 }];
            group.all_max(&mut lowest)?;
            if lowest[0] == 0 {
                break;
            }
            let next = size - lowest[0] as usize;
            let mut probe = agree(group, probe_name())?.into_bytes();
            group.broadcast(next, &mut probe)?;
            let probe = String::from_utf8_lossy(&probe).into_owned();
            let failed = |e| Error::io("making", format!("{}/{probe}", device.path()), e);
            // Without a byte in it: a disk that is full can still be restored from.
            agree(
                group,
                if rank == next { device.create(&probe, &Room::of(0)).map(drop).map_err(failed) } else { Ok(()) },
            )?;
            // Everyone has looked before it goes. One that cannot be opened is not out of sight.
            if agree(group, sees(device, &probe))? || rank == next {
                leader = leader.or(Some(next));
            }
            agree(group, if rank == next { remove(device, &probe) } else { Ok(()) })?;
        }
        let leader = leader.unwrap_or(rank);
        let leaders = gather(group, &leader)?;
        let ranks = (0..size).filter(|other| leaders[*other] == leader).collect();
        Ok(Domain { leader, ranks })
    }

    /// Whether `rank` looks after the portion of `owner`: the owner itself if it is here, else one of
    /// the domain's ranks.
    pub(super) fn looks_after(&self, rank: usize, owner: usize) -> bool {
        if self.ranks.contains(&owner) {
            return rank == owner;
        }
        self.ranks[owner % self.ranks.len()] == rank
    }
}

fn sees(device: &dyn Device, probe: &str) -> Result<bool> {
    match device.open(probe, Access::Read) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("opening", format!("{}/{probe}", device.path()), e)),
    }
}

fn remove(device: &dyn Device, probe: &str) -> Result<()> {
    match device.remove(probe) {
        // By a job that opened the space meanwhile, and refuses this one soon.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|e| Error::io("removing", format!("{}/{probe}", device.path()), e)),
    }
}

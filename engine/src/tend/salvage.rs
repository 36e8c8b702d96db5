//! Completing by hand what killed jobs had staged, as the next start of theirs would.

use super::opening::lock;
use crate::{
    commit::RevisionKey,
    device::{Device, Disk},
    error::{Error, Result},
    pool::{self, Dead, Pool, Sealed},
    salvage::{Outcome, complete, is_gone, is_here, is_ours},
    space::Locks,
};
use std::{collections::BTreeMap, path::Path};

/// What was found in memory, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    pub shards: Vec<SalvagedShard>,
    /// Pools that were removed, and their records with them.
    pub removed: usize,
    /// Dead pools that are left: another space's, not completed yet, or good for nothing, which `clean` removes.
    pub left: usize,
}

/// A shard that was staged whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvagedShard {
    /// The directory that it was to be saved in.
    pub space: String,
    pub key: RevisionKey,
    pub shard: u32,
    pub fate: SalvageFate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SalvageFate {
    Completed,
    /// It had been published before.
    WasComplete,
    /// It can never be completed: why.
    Lost(String),
    /// Its space is not there: it may come back.
    SpaceGone,
    /// A job has its space open.
    InUse,
    /// It can be tried again.
    Failed(String),
}

impl SalvageFate {
    fn is_final(&self) -> bool {
        matches!(self, SalvageFate::Completed | SalvageFate::WasComplete | SalvageFate::Lost(_))
    }
}

/// Completes what dead pools in `directory` hold, of the space in `space` or of all spaces, and removes those
/// that hold no more. `clean`: also those that nobody can claim. Errors: `directory` cannot be listed; what
/// went wrong with one shard is its fate.
pub fn salvage(directory: &Path, space: Option<&Path>, clean: bool) -> Result<Salvaged> {
    let only = space.map(|space| Disk::existing(&space.canonicalize().unwrap_or_else(|_| space.to_owned())));
    let mut visit = Visit { only, locks: BTreeMap::new(), shards: Vec::new() };
    let (mut removed, mut left) = (0, 0);
    for found in pool::list(directory)? {
        let goes = match Pool::open_dead(directory, found.id) {
            // In use.
            Ok(None) if found.has_pool => continue,
            Ok(Some(dead)) => visit.completes(&dead, clean)?,
            Ok(None) | Err(_) => clean,
        };
        // What is refused at removing is left too, and keeps nobody from the others.
        if goes && pool::remove(directory, found.id).is_ok_and(|is_removed| is_removed) {
            removed += 1;
        } else {
            left += 1;
        }
    }
    Ok(Salvaged { shards: visit.shards, removed, left })
}

struct Visit {
    only: Option<Disk>,
    /// By space, once for all of its pools.
    locks: BTreeMap<String, Result<Locks>>,
    shards: Vec<SalvagedShard>,
}

impl Visit {
    /// Whether the pool may go.
    fn completes(&mut self, dead: &Dead, clean: bool) -> Result<bool> {
        let sealed = dead.sealed()?;
        let mut goes = clean || !sealed.is_empty();
        for sealed in &sealed {
            let Some(fate) = self.fate(sealed, dead) else {
                goes = false;
                continue;
            };
            goes &= fate.is_final() || (clean && fate == SalvageFate::SpaceGone);
            let shard = SalvagedShard {
                space: sealed.plan.space.clone(),
                key: sealed.plan.key,
                shard: sealed.plan.portion,
                fate,
            };
            self.shards.push(shard);
        }
        Ok(goes)
    }

    /// `None`: it is of no space that was asked for.
    fn fate(&mut self, sealed: &Sealed, dead: &Dead) -> Option<SalvageFate> {
        let its_own = Disk::existing(Path::new(&sealed.plan.space));
        let device = match &self.only {
            Some(only) if is_ours(only, sealed) => only,
            Some(_) => return None,
            None if is_here(&its_own, sealed) => &its_own,
            None => return Some(SalvageFate::SpaceGone),
        };
        let locks = self.locks.entry(device.path()).or_insert_with(|| lock(device));
        Some(match locks {
            Err(Error::InUse { .. }) => SalvageFate::InUse,
            Err(error) if is_gone(error) => SalvageFate::SpaceGone,
            Err(error) => SalvageFate::Failed(error.to_string()),
            Ok(_) => match complete(device, sealed, dead.contents()) {
                Ok(Outcome::Completed) => SalvageFate::Completed,
                Ok(Outcome::WasComplete) => SalvageFate::WasComplete,
                Ok(Outcome::Lost(why)) => SalvageFate::Lost(why),
                Ok(Outcome::Elsewhere) => SalvageFate::SpaceGone,
                Err(error) => SalvageFate::Failed(error.to_string()),
            },
        })
    }
}

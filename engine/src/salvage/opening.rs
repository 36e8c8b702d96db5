//! What the opening of a space does with the pools of jobs that were killed.

use super::{
    Outcome,
    claim::{Standing, examine, is_gone},
    complete,
    waiting::{IN_POOL, open_dead},
};
use crate::{
    device::{Access, Device, Disk},
    error::{Error, Result},
    pool::{self, Dead, Sealed},
    space::names_layout,
};
use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

/// Completes in the space on `device`, whose locks the job holds, what dead pools in `directory` hold for it;
/// removes them, and those that nobody will claim. Where the space has no locks nothing is completed:
/// `locked` is false. Returns what could not be completed, and why. Several ranks may do it at a time.
pub(crate) fn at_opening(device: &dyn Device, directory: &Path, locked: bool) -> Vec<String> {
    let mut failures = Vec::new();
    for found in pool::list(directory).unwrap_or_default() {
        // What this opening does not complete it ends.
        let has_ours = || pool::sealed_of(directory, found.id).is_ok_and(|all| any_is_ours(device, &all));
        match open_dead(directory, found.id, || locked && has_ours()) {
            Ok(Some(dead)) => {
                if settle(device, &dead, locked, &mut failures).is_ok_and(|is_settled| is_settled) {
                    let _ = dead.remove();
                }
            }
            // A member is in it, or another rank is at it.
            Ok(None) if found.has_pool => {
                if locked && has_ours() {
                    failures.push(IN_POOL.to_owned());
                }
            }
            // Records without their pool, and a pool that is damaged, can be claimed by nobody.
            Ok(None) | Err(Error::PoolRefused { .. }) => {
                let _ = pool::remove(directory, found.id);
            }
            // It may be another time.
            Err(_) => {}
        }
    }
    failures
}

/// Whether nobody wants the pool any more.
fn settle(device: &dyn Device, dead: &Dead, locked: bool, failures: &mut Vec<String>) -> Result<bool> {
    let mut is_settled = true;
    for sealed in dead.sealed()? {
        let (number, rank) = (sealed.plan.key.number, sealed.rank);
        let mut failed = |why: String| failures.push(format!("revision {number}, shard {rank}: {why}"));
        if !is_ours(device, &sealed) {
            is_settled &= !is_wanted(&sealed);
        } else if !locked {
            failed("it was staged and is lost: this file system has no locks".to_owned());
        } else {
            match complete(device, &sealed, dead.contents()) {
                Ok(Outcome::Lost(why)) => failed(why),
                Ok(_) => {}
                Err(error) => {
                    is_settled = false;
                    failed(format!("what was staged could not be completed: {error}"));
                }
            }
        }
    }
    Ok(is_settled)
}

/// Whether any of them is. Of the shards of one space one tells: its job may be alive, and looking costs requests.
fn any_is_ours(device: &dyn Device, all: &[Sealed]) -> bool {
    let mut looked_at = BTreeSet::new();
    all.iter().any(|one| looked_at.insert((one.plan.space(), one.plan.layout_id)) && is_ours(device, one))
}

/// Whether the shard belongs to the space on `device`: by its directory, or, if that was moved, by what is in it.
pub(crate) fn is_ours(device: &dyn Device, sealed: &Sealed) -> bool {
    is_same(&device.directory(), sealed.plan.space()) || (has_layout_of(device, sealed) && !its_own_space_has(sealed))
}

/// Whether both are paths of one directory: it may be mounted twice.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Whether the layout that `sealed` belongs to is in the space on `device`. In doubt it is.
pub(crate) fn has_layout_of(device: &dyn Device, sealed: &Sealed) -> bool {
    let looked = names_layout(device, sealed.plan.layout_id).and_then(|is_named| {
        let has = || examine(device, sealed, Access::Read).map(|standing| !matches!(standing, Standing::Elsewhere));
        if is_named { has() } else { Ok(false) }
    });
    looked.unwrap_or_else(|error| !is_gone(&error))
}

/// Whether the shard of `sealed` can be completed in the space on `device` as things are.
pub(crate) fn is_open(device: &dyn Device, sealed: &Sealed) -> bool {
    matches!(examine(device, sealed, Access::Read), Ok(Standing::Open(_)))
}

fn its_own_space_has(sealed: &Sealed) -> bool {
    has_layout_of(&Disk::existing(sealed.plan.space()), sealed)
}

/// Whether the space that a record names can take it, now or when its file system is mounted again. In doubt
/// it can.
pub(super) fn is_wanted(sealed: &Sealed) -> bool {
    match examine(&Disk::existing(sealed.plan.space()), sealed, Access::Read) {
        Ok(Standing::Open(_)) => true,
        Ok(Standing::Published | Standing::Over(_)) => false,
        Ok(Standing::Elsewhere) => !is_mounted(sealed),
        Err(error) => !is_gone(&error) || !is_mounted(sealed),
    }
}

/// Whether the file system is there that the space was on: by the nearest folder on the way to it.
fn is_mounted(sealed: &Sealed) -> bool {
    let mut folders = sealed.plan.space().ancestors();
    let nearest = folders.find_map(|folder| fs::metadata(folder).ok());
    nearest.is_some_and(|found| found.dev() == sealed.plan.file_system)
}

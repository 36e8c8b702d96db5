//! What the opening of a space does with the pools of jobs that were killed.

use super::{
    Outcome,
    claim::{Standing, examine, is_gone},
    complete,
    waiting::{IN_POOL, open_dead},
};
use crate::{
    device::{Access, Device, Disk},
    error::{Error, ErrorKind, Result},
    pool::{self, Dead, Sealed},
    printable::printable_path,
    space::names_layout,
};
use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

/// What an opening did not complete.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// What can never be completed, and why.
    lost: Vec<String>,
    /// Pools that somebody else was at: another rank of this job, if all is well.
    taken: Vec<[u8; 16]>,
}

/// Completes in the space on `device`, whose locks the job holds, what dead pools in `directory` hold for it;
/// removes them, and those that nobody will claim. Where the space has no locks nothing is completed:
/// `locked` is false. An error: something could be completed another time, and a job that goes on would end the
/// claim. Several ranks may do it at a time.
pub(crate) fn at_opening(device: &dyn Device, directory: &Path, locked: bool) -> Result<Left> {
    let (mut left, mut done) = (Left::default(), Ok(()));
    let unlisted = |error: Error| if error.is_of_process() { Err(error) } else { Ok(Vec::new()) };
    for found in pool::list(directory).or_else(unlisted)? {
        // What this opening does not complete it ends.
        let has_ours = || locked && pool::sealed_of(directory, found.id).is_ok_and(|all| any_is_ours(device, &all));
        match open_dead(directory, found.id, has_ours) {
            Ok(Some(dead)) => match settle(device, &dead, locked, &mut left.lost) {
                Ok(true) => drop(dead.remove()),
                Ok(false) => {}
                Err(error) => done = done.and(Err(error)),
            },
            Ok(None) if found.has_pool => {
                if has_ours() {
                    left.taken.push(found.id);
                }
            }
            // Records without their pool, and a pool that is damaged, can be claimed by nobody.
            Ok(None) => drop(pool::remove(directory, found.id)),
            Err(error @ Error::PoolRefused { .. }) => {
                if has_ours() {
                    left.lost.push(format!("what was staged is lost: {error}"));
                }
                let _ = pool::remove(directory, found.id);
            }
            Err(error) if error.is_of_process() || has_ours() => done = done.and(Err(error)),
            Err(_) => {}
        }
    }
    done.map(|()| left)
}

impl Left {
    /// What is lost, once every rank has come so far: what another rank was at is complete by now. An error as of
    /// `at_opening`.
    pub(crate) fn lost(self, device: &dyn Device, directory: &Path) -> Result<Vec<String>> {
        for id in self.taken {
            let sealed = pool::sealed_of(directory, id)?;
            if let Some(sealed) = sealed.iter().find(|sealed| is_ours(device, sealed) && is_open(device, sealed)) {
                return Err(not_completed(device, sealed, ErrorKind::InUse, IN_POOL));
            }
        }
        Ok(self.lost)
    }
}

/// Whether nobody wants the pool any more.
fn settle(device: &dyn Device, dead: &Dead, locked: bool, lost: &mut Vec<String>) -> Result<bool> {
    let (mut is_settled, mut bytes, mut first) = (true, 0, None);
    let all = dead.sealed()?;
    for sealed in &all {
        let mut is_lost = |why: &str| {
            lost.push(format!("revision {}, shard {}: {why}", sealed.plan.key.number, sealed.plan.portion));
        };
        if !is_ours(device, sealed) {
            is_settled &= !is_wanted(sealed);
        } else if !locked {
            is_lost("it was staged and is lost: this file system has no locks");
        } else {
            match complete(device, sealed, dead.contents()) {
                Ok(Outcome::Lost(why)) => is_lost(&why),
                Ok(_) => {}
                Err(error) => {
                    bytes = u64::saturating_add(bytes, sealed.left_bytes());
                    first.get_or_insert((sealed, error));
                }
            }
        }
    }
    match first {
        None => Ok(is_settled),
        Some((sealed, error)) => {
            // Whoever frees some space frees enough for all of them.
            let error = error.for_want_of(bytes, || device.available_bytes());
            Err(not_completed(device, sealed, error.kind(), error))
        }
    }
}

fn not_completed(device: &dyn Device, sealed: &Sealed, kind: ErrorKind, cause: impl ToString) -> Error {
    Error::NotCompleted {
        path: device.path(),
        revision: sealed.plan.key.number,
        shard: sealed.plan.portion,
        pool: printable_path(&sealed.pool()),
        kind,
        cause: cause.to_string(),
    }
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

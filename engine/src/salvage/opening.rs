//! The treatment of killed jobs' pools when a space is opened.

use super::{
    SalvageOutcome,
    claim::{Standing, examine, is_gone},
    complete,
    gone_over::GoneOver,
    waiting::{IN_POOL, open_dead},
};
use crate::{
    device::{Access, Device, Disk},
    error::{Error, ErrorKind, Failure, Result},
    pool::{self, Dead, LostRecord, Owed, Sealed, SpaceNote},
    printable::printable_path,
    space::names_layout,
    survey::SpaceSurvey,
};
use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

/// Data that an opening did not complete.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// The shards that can never be completed, with the reasons.
    lost: Vec<String>,
    /// Those of them with an output file that was cut, and the revision of each.
    cut: Vec<String>,
    /// The pools of lost shards that hold nothing else that any job could claim.
    over: Vec<[u8; 16]>,
    /// Pools that another process was in: normally another rank of this job.
    taken: Vec<[u8; 16]>,
}

/// The fate of a pool.
enum RecordFate {
    /// All shards in the pool are complete, or belong to no job.
    Done,
    /// Some shards in the pool are lost, and the rest belongs to no job.
    Over,
    /// The pool waits for another space, or for a later attempt.
    Stays,
}

/// Completes the shards that dead pools in `directory` hold for the space on `device`, which the job has locked.
/// Removes pools that hold no more and that no job will claim. If the space has no locks, `locked` is false and nothing
/// is completed. Fails if a shard could be completed later, because a job that goes on would end the claim. Several
/// ranks may call this at the same time.
pub(crate) fn at_opening(device: &dyn Device, directory: &Path, locked: bool) -> Result<Left> {
    let (mut left, mut done) = (Left::default(), Ok(()));
    let unlisted = |error: Error| if error.is_of_process() { Err(error) } else { Ok(Vec::new()) };
    for found in pool::list(directory).or_else(unlisted)? {
        // Shards that this opening does not complete can never be completed.
        let has_ours = || locked && pool::sealed_of(directory, found.id).is_ok_and(|all| any_is_ours(device, &all));
        let fate = match open_dead(directory, found.id, has_ours) {
            Ok(Some(dead)) => settle(device, &dead, locked, &mut left).inspect(|fate| {
                if let RecordFate::Done = fate {
                    note_removal(device, &dead, &found.records);
                    let _ = dead.remove();
                }
            }),
            Ok(None) if found.has_pool => {
                if has_ours() {
                    left.taken.push(found.id);
                }
                Ok(RecordFate::Stays)
            }
            // Records without their pool, and the records of a damaged pool, can never be completed.
            Ok(None) => Ok(unusable(device, directory, found.id, "its pool is gone", &mut left.lost)),
            Err(error @ Error::PoolRefused { .. }) if may_be_mended(directory, found.id) => match locked {
                true => left_to_mend(device, directory, found.id, error, &mut left.lost),
                false => Ok(RecordFate::Stays),
            },
            Err(error @ Error::PoolRefused { .. }) => {
                Ok(unusable(device, directory, found.id, &error.to_string(), &mut left.lost))
            }
            Err(error) if error.is_of_process() || has_ours() => Err(error),
            Err(_) => Ok(RecordFate::Stays),
        };
        match fate {
            Ok(RecordFate::Over) => left.over.push(found.id),
            Ok(RecordFate::Done | RecordFate::Stays) => {}
            Err(error) => done = done.and(Err(error)),
        }
    }
    done.map(|()| left)
}

impl Left {
    /// The pools that this rank has finished with, and that contain lost shards.
    pub(crate) fn over(&self) -> &[[u8; 16]] {
        &self.over
    }

    /// Forgets the pools that another rank has `settled`: no process is in them.
    pub(crate) fn forget_taken(&mut self, settled: &[[u8; 16]]) {
        self.taken.retain(|id| !settled.contains(id));
    }

    /// Checks, after all ranks have reached this point, that the shards in pools that another rank was in are complete
    /// by now. Fails as `at_opening` does.
    pub(crate) fn check_taken(&self, device: &dyn Device, directory: &Path) -> Result<()> {
        for id in &self.taken {
            let sealed = pool::sealed_of(directory, *id)?;
            let mut owed = sealed.iter().flat_map(Sealed::owed);
            if let Some(owed) = owed.find(|owed| is_ours(device, *owed) && is_open(device, *owed)) {
                return Err(not_completed(device, owed, ErrorKind::InUse, IN_POOL));
            }
        }
        Ok(())
    }

    pub(crate) fn cut(&self) -> &[String] {
        &self.cut
    }

    pub(crate) fn lost(&self) -> &[String] {
        &self.lost
    }

    /// Removes the pools of lost shards, once nothing left over refuses the start that reports the loss.
    pub(crate) fn give_up(self, directory: &Path) {
        self.over.into_iter().for_each(|id| drop(pool::remove(directory, id)));
    }
}

/// Whether a refused pool may become usable: after its mode is corrected, or with the build that made it.
fn may_be_mended(directory: &Path, id: [u8; 16]) -> bool {
    pool::is_refused(&pool::path(directory, id)) || pool::is_of_another_version(directory, id)
}

/// Leaves a pool that may become usable. Fails if data of this space waits in the pool, or may.
fn left_to_mend(
    device: &dyn Device,
    directory: &Path,
    id: [u8; 16],
    error: Error,
    lost: &mut Vec<String>,
) -> Result<RecordFate> {
    let Error::PoolRefused { why, .. } = &error else { return Err(error) };
    let sealed = pool::sealed_of(directory, id)?;
    if let Some(ours) =
        sealed.iter().flat_map(Sealed::owed).find(|owed| is_ours(device, *owed) && may_be_open(device, *owed))
    {
        let why = to_mend(&pool::path(directory, id), why).unwrap_or_else(|| why.clone());
        return Err(not_completed(device, ours, error.kind(), format!("its pool: {why}")));
    }
    // If this build cannot read a record, only the pool's note names its space.
    if pool::has_unreadable(directory, id) {
        let is_noted =
            pool::spaces_of(directory, id).is_some_and(|note| note.is_of(|space| is_same(device.directory(), space)));
        return if is_noted { Err(error) } else { Ok(RecordFate::Stays) };
    }
    Ok(unusable(device, directory, id, &error.to_string(), lost))
}

/// The remedy for a pool or a record at `path` that is refused for `why` and becomes usable after correction; `None` if
/// it is damaged.
pub(crate) fn to_mend(path: &Path, why: &str) -> Option<String> {
    let mend = "so another user may have changed it; if none has, correct that (a mode by chmod 600)";
    pool::is_refused(path).then(|| format!("{why}, {mend}"))
}

/// The fate of a pool that cannot be used, for `why`. Removes the pool if there is no loss to report.
fn unusable(device: &dyn Device, directory: &Path, id: [u8; 16], why: &str, lost: &mut Vec<String>) -> RecordFate {
    let sealed = pool::sealed_of(directory, id).unwrap_or_default();
    if any_is_ours(device, &sealed) {
        lost.push(format!("its staged data is lost: {why}"));
        RecordFate::Over
    } else if sealed.iter().flat_map(Sealed::owed).any(is_wanted) {
        RecordFate::Stays
    } else {
        let _ = pool::remove(directory, id);
        RecordFate::Done
    }
}

/// Completes the shards in a pool.
fn settle(device: &dyn Device, dead: &Dead, locked: bool, left: &mut Left) -> Result<RecordFate> {
    let (mut stays, mut bytes, mut first) = (false, 0, None);
    let staged = dead.staged()?;
    let lost_before = left.lost.len();
    for owed in staged.sealed.iter().flat_map(Sealed::owed) {
        let plan = &owed.shard.plan;
        let mut is_lost = |why: &str| {
            left.lost.push(format!("revision {}, shard {}: {why}", plan.key.number, plan.shard));
        };
        if !is_ours(device, owed) {
            stays |= is_wanted(owed);
        } else if !locked {
            is_lost("it was staged and is lost: this file system has no locks");
        } else {
            match complete(device, owed, dead.contents()) {
                Ok(SalvageOutcome::Lost(why)) => is_lost(&why),
                Ok(SalvageOutcome::Cut(why)) => {
                    is_lost(&why);
                    left.cut.push(format!("revision {} was staged, and is given up: {why}", plan.key.number));
                }
                Ok(SalvageOutcome::Elsewhere) if is_wanted(owed) => stays = true,
                Ok(SalvageOutcome::Elsewhere) => {
                    is_lost("it was staged and is lost: this space does not have its layout any more")
                }
                Ok(SalvageOutcome::Completed | SalvageOutcome::WasComplete) => {}
                Err(error) => {
                    bytes = u64::saturating_add(bytes, owed.left_bytes());
                    first.get_or_insert((owed, error));
                }
            }
        }
    }
    if !staged.lost.is_empty() {
        // Another shard in the pool, or the pool's note of its space, shows the space of the lost records.
        let is_its = |note: &SpaceNote| note.is_of(|space| is_same(device.directory(), space));
        if dead.spaces().as_ref().is_some_and(is_its) || any_is_ours(device, &staged.sealed) {
            if let Some(waits) =
                staged.lost.iter().filter(|_| locked).find_map(|lost| record_to_mend(device, dead, lost))
            {
                return Err(waits);
            }
            left.lost.extend(staged.lost.iter().map(LostRecord::to_string));
        } else {
            let may_be = |(space, file_system): (&Path, u64)| space.exists() || !is_mounted(space, file_system);
            stays |= dead.spaces().is_some_and(|note| note.spaces().any(may_be));
        }
    }
    match first {
        None if stays => Ok(RecordFate::Stays),
        None if left.lost.len() > lost_before => Ok(RecordFate::Over),
        None => Ok(RecordFate::Done),
        Some((owed, error)) => {
            // Name the bytes for all shards, so that the user frees enough at once.
            let error = error.for_want_of(bytes, || device.directory().available_bytes());
            Err(not_completed(device, owed, error.kind(), error))
        }
    }
}

/// The error that stops the start, if the lost record becomes readable once its mode is corrected.
fn record_to_mend(device: &dyn Device, dead: &Dead, lost: &LostRecord) -> Option<Error> {
    let cause = format!("its record {}: {}", printable_path(&lost.path), to_mend(&lost.path, &lost.why)?);
    Some(Error::NotCompleted {
        path: device.path(),
        revision: lost.number,
        shard: lost.rank?,
        pool: printable_path(&dead.path()),
        failure: Failure { kind: ErrorKind::Damaged, message: cause },
    })
}

fn not_completed(device: &dyn Device, owed: Owed<'_>, kind: ErrorKind, cause: impl ToString) -> Error {
    Error::NotCompleted {
        path: device.path(),
        revision: owed.shard.plan.key.number,
        shard: owed.shard.plan.shard,
        pool: printable_path(&owed.shard.pool()),
        failure: Failure { kind, message: cause.to_string() },
    }
}

/// Notes in the spaces of a dead pool, before its removal, that no data of `ranks` waits there any more: a later
/// command could not find that out. A space that cannot be noted keeps asking for a salvage. The space on `device`
/// needs no note, because its job begins a lineage.
fn note_removal(device: &dyn Device, dead: &Dead, ranks: &[u32]) {
    let Some(note) = dead.spaces().filter(|note| !note.is_of(|space| is_same(device.directory(), space))) else {
        return;
    };
    for (directory, _) in note.spaces().filter(|(directory, _)| SpaceSurvey::open(directory).is_ok()) {
        let _ = GoneOver::note_ranks(directory, note.lineage, ranks);
    }
}

/// Whether any of the shards belongs to the space on `device`. One shard of each layout in one space is checked: its
/// job may be alive, and looking costs requests.
fn any_is_ours(device: &dyn Device, all: &[Sealed]) -> bool {
    let mut looked_at = BTreeSet::new();
    let mut owed = all.iter().flat_map(Sealed::owed);
    owed.any(|owed| looked_at.insert((owed.target.space(), owed.target.layout_id)) && is_ours(device, owed))
}

/// Whether a shard belongs to the space on `device`: by the directory, or, if the space was moved, by its contents.
pub(crate) fn is_ours(device: &dyn Device, owed: Owed<'_>) -> bool {
    is_same(device.directory(), owed.target.space()) || (has_layout_of(device, owed) && !its_own_space_has(owed))
}

/// Whether both paths lead to one directory, which may be mounted twice.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Whether the layout of `owed` is in the space on `device`. If in doubt, it is.
pub(crate) fn has_layout_of(device: &dyn Device, owed: Owed<'_>) -> bool {
    let looked = names_layout(device, owed.target.layout_id).and_then(|is_named| {
        let has = || examine(device, owed, Access::Read).map(|standing| !matches!(standing, Standing::Elsewhere));
        if is_named { has() } else { Ok(false) }
    });
    looked.unwrap_or_else(|error| !is_gone(&error))
}

/// Whether the shard of `owed` can be completed in the space on `device` now.
pub(crate) fn is_open(device: &dyn Device, owed: Owed<'_>) -> bool {
    matches!(examine(device, owed, Access::Read), Ok(Standing::Open(_)))
}

/// Whether a shard may wait to be completed in the space on `device`. If in doubt, it does.
fn may_be_open(device: &dyn Device, owed: Owed<'_>) -> bool {
    !matches!(examine(device, owed, Access::Read), Ok(Standing::Published | Standing::Over(_) | Standing::Elsewhere))
}

fn its_own_space_has(owed: Owed<'_>) -> bool {
    has_layout_of(&Disk::existing(owed.target.space()), owed)
}

/// Whether the space named in a record can take the shard, now or after its file system is mounted again. If in doubt,
/// it can.
pub(super) fn is_wanted(owed: Owed<'_>) -> bool {
    let space = owed.target.space();
    match examine(&Disk::existing(space), owed, Access::Read) {
        Ok(Standing::Open(_) | Standing::OutOfSight) => true,
        Ok(Standing::Published | Standing::Over(_)) => false,
        Ok(Standing::Elsewhere) => !is_mounted(space, owed.target.file_system),
        Err(error) => !is_gone(&error) || !is_mounted(space, owed.target.file_system),
    }
}

/// Whether the file system of a space is mounted, judged by the nearest existing folder above the space.
fn is_mounted(space: &Path, file_system: u64) -> bool {
    let nearest = space.ancestors().find_map(|folder| fs::metadata(folder).ok());
    nearest.is_some_and(|found| found.dev() == file_system)
}

//! What the opening of a space does with the pools of jobs that were killed.

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

/// What an opening did not complete.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// The shards that can never be completed, and why.
    lost: Vec<String>,
    /// Those of them whose output file was cut, and the revision that goes with it.
    cut: Vec<String>,
    /// The pools of lost shards, which hold nothing else that anybody could claim.
    over: Vec<[u8; 16]>,
    /// Pools that somebody else was in: another rank of this job, if all is well.
    taken: Vec<[u8; 16]>,
}

/// What is to become of a pool.
enum RecordFate {
    /// All shards in the pool are complete, or nobody's.
    Done,
    /// Some shards in the pool are lost, and the rest is nobody's.
    Over,
    /// The pool waits for another space, or for another day.
    Stays,
}

/// Completes in the space on `device`, whose locks the job holds, the shards that dead pools in `directory` hold for
/// it. Removes pools that hold no more and that nobody will claim. If the space has no locks, `locked` is false and
/// nothing is completed. An error: a shard could be completed another time, and a job that goes on would end the claim.
/// Several ranks may call this at a time.
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
            // Records without their pool, and a pool that is damaged, can be completed by nobody.
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
    /// The pools that this rank is through with, and in which shards are lost.
    pub(crate) fn over(&self) -> &[[u8; 16]] {
        &self.over
    }

    /// Forgets the pools that another rank has `settled`: nobody is in them.
    pub(crate) fn forget_taken(&mut self, settled: &[[u8; 16]]) {
        self.taken.retain(|id| !settled.contains(id));
    }

    /// Checks, once every rank has come so far, that the shards in pools that another rank was in are complete by now.
    /// An error as of `at_opening`.
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

    /// Removes the pools of lost shards, once nothing that was left refuses the start that tells of the loss.
    pub(crate) fn give_up(self, directory: &Path) {
        self.over.into_iter().for_each(|id| drop(pool::remove(directory, id)));
    }
}

/// Whether a pool that is refused could be used another time: once its mode is mended, or by the build that made it.
fn may_be_mended(directory: &Path, id: [u8; 16]) -> bool {
    pool::is_refused(&pool::path(directory, id)) || pool::is_of_another_version(directory, id)
}

/// Leaves a pool that may be mended. An error if something of this space waits in the pool, or may.
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
    // If this build cannot read a record, only the pool tells whose it is.
    if pool::has_unreadable(directory, id) {
        let is_noted =
            pool::spaces_of(directory, id).is_some_and(|note| note.is_of(|space| is_same(&device.directory(), space)));
        return if is_noted { Err(error) } else { Ok(RecordFate::Stays) };
    }
    Ok(unusable(device, directory, id, &error.to_string(), lost))
}

/// What is to be done about a pool or a record at `path` that is refused for `why`, and can be used once that is
/// mended; `None` if it is damaged.
pub(crate) fn to_mend(path: &Path, why: &str) -> Option<String> {
    let mend = "so that another user may have changed it; mend that (a mode by chmod 600) if nobody has";
    pool::is_refused(path).then(|| format!("{why}, {mend}"))
}

/// What becomes of a pool that cannot be used, for `why`. The pool is removed if nobody need be told.
fn unusable(device: &dyn Device, directory: &Path, id: [u8; 16], why: &str, lost: &mut Vec<String>) -> RecordFate {
    let sealed = pool::sealed_of(directory, id).unwrap_or_default();
    if any_is_ours(device, &sealed) {
        lost.push(format!("what was staged is lost: {why}"));
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
    let told = left.lost.len();
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
                    is_lost("it was staged and is lost: its layout is in this space no longer")
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
        // Another shard in the pool, or the pool's note of its space, tells whose the lost records were.
        let is_its = |note: &SpaceNote| note.is_of(|space| is_same(&device.directory(), space));
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
        None if left.lost.len() > told => Ok(RecordFate::Over),
        None => Ok(RecordFate::Done),
        Some((owed, error)) => {
            // Whoever frees some space frees enough for all shards.
            let error = error.for_want_of(bytes, || device.available_bytes());
            Err(not_completed(device, owed, error.kind(), error))
        }
    }
}

/// The error that the start waits for, if the lost record can be read once its mode is mended.
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

/// Notes in the spaces of a dead pool, which goes, that nothing of `ranks` waits there any more: a later command could not
/// tell. A space that does not take the note asks for a salvage, as before. The space on `device` needs none, as its job
/// begins a lineage.
fn note_removal(device: &dyn Device, dead: &Dead, ranks: &[u32]) {
    let Some(note) = dead.spaces().filter(|note| !note.is_of(|space| is_same(&device.directory(), space))) else {
        return;
    };
    for (directory, _) in note.spaces().filter(|(directory, _)| SpaceSurvey::open(directory).is_ok()) {
        let mut gone_over = GoneOver::of_space(directory);
        gone_over.add(note.lineage, ranks);
        let _ = gone_over.note(directory);
    }
}

/// Whether any of the shards is owed to the space on `device`. One shard speaks for all of its layout in one space: its
/// job may be alive, and looking costs requests.
fn any_is_ours(device: &dyn Device, all: &[Sealed]) -> bool {
    let mut looked_at = BTreeSet::new();
    let mut owed = all.iter().flat_map(Sealed::owed);
    owed.any(|owed| looked_at.insert((owed.target.space(), owed.target.layout_id)) && is_ours(device, owed))
}

/// Whether a shard is owed to the space on `device`: by the directory, or, if the space was moved, by what is in it.
pub(crate) fn is_ours(device: &dyn Device, owed: Owed<'_>) -> bool {
    is_same(&device.directory(), owed.target.space()) || (has_layout_of(device, owed) && !its_own_space_has(owed))
}

/// Whether both are paths of one directory, which may be mounted twice.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Whether the layout that `owed` belongs to is in the space on `device`. In doubt it is.
pub(crate) fn has_layout_of(device: &dyn Device, owed: Owed<'_>) -> bool {
    let looked = names_layout(device, owed.target.layout_id).and_then(|is_named| {
        let has = || examine(device, owed, Access::Read).map(|standing| !matches!(standing, Standing::Elsewhere));
        if is_named { has() } else { Ok(false) }
    });
    looked.unwrap_or_else(|error| !is_gone(&error))
}

/// Whether what is `owed` can be completed in the space on `device` as things are.
pub(crate) fn is_open(device: &dyn Device, owed: Owed<'_>) -> bool {
    matches!(examine(device, owed, Access::Read), Ok(Standing::Open(_)))
}

/// Whether a shard may wait to be completed in the space on `device`. In doubt it does.
fn may_be_open(device: &dyn Device, owed: Owed<'_>) -> bool {
    !matches!(examine(device, owed, Access::Read), Ok(Standing::Published | Standing::Over(_) | Standing::Elsewhere))
}

fn its_own_space_has(owed: Owed<'_>) -> bool {
    has_layout_of(&Disk::existing(owed.target.space()), owed)
}

/// Whether the space that a record names can take the shard, now or when its file system is mounted again. In doubt it
/// can.
pub(super) fn is_wanted(owed: Owed<'_>) -> bool {
    let space = owed.target.space();
    match examine(&Disk::existing(space), owed, Access::Read) {
        Ok(Standing::Open(_) | Standing::OutOfSight) => true,
        Ok(Standing::Published | Standing::Over(_)) => false,
        Ok(Standing::Elsewhere) => !is_mounted(space, owed.target.file_system),
        Err(error) => !is_gone(&error) || !is_mounted(space, owed.target.file_system),
    }
}

/// Whether the file system that a space was on is there, as seen at the nearest folder on the way to the space.
fn is_mounted(space: &Path, file_system: u64) -> bool {
    let nearest = space.ancestors().find_map(|folder| fs::metadata(folder).ok());
    nearest.is_some_and(|found| found.dev() == file_system)
}

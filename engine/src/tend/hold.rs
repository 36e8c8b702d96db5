//! Holding a revision, and releasing it.
//!
//! This module writes a hold before it checks for a running job; a job reads the holds after it has locked the space.
//! So either the job reads the hold, or the check here finds the job.

use super::{GoneOver, Unseen, future_room, opening};
use crate::{
    commit::RevisionKey,
    device::{Access, Device, Disk, LockOutcome, RANK_BYTES},
    error::{Error, Result},
    ground::{Instant, sleep, unix_ns},
    space::{
        LayoutFile, Locks, draw_id,
        format::{Hold, HoldBlock, is_note},
        is_layout, layouts, list,
    },
    status::was_closed,
    survey::{HoldState, SpaceSurvey},
};
use std::{path::Path, time::Duration};

/// Locked while a block for a hold is chosen and written. Far from the bytes of ranks.
const HOLDS_BYTE: u64 = RANK_BYTES;
/// Maximum time for other processes to choose and write a block.
const LOCK_GRACE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// Result of a request to hold a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holding {
    /// The hold counts: the revision stays.
    Counts(Hold),
    /// The hold is written. The running job reads it at its next checkpoint, and may let the revision go before that.
    Pending(Hold),
    /// The revision does not exist, or was let go before the hold counted; nothing is held.
    Gone,
    /// The next revision would find no room beside the held one; nothing is held.
    NoRoom,
    /// All blocks for holds are taken.
    NoPlace,
}

/// Holds the complete revision `key` of the space in `directory`, until `expires_unix_ns` (0: until it is released).
/// Waits up to `wait` for a running job to acknowledge it.
pub fn hold(directory: &Path, key: RevisionKey, note: &str, expires_unix_ns: u64, wait: Duration) -> Result<Holding> {
    hold_on(&Disk::existing(directory), key, note, expires_unix_ns, wait)
}

/// Whether the next checkpoint would still have room if the revision `key` of the space in `directory` were held; also
/// `false` if the revision does not exist. Changes nothing.
pub fn has_room_for(directory: &Path, key: RevisionKey) -> Result<bool> {
    let survey = SpaceSurvey::open(directory)?;
    Ok(survey.complete(key).is_some() && leaves_room(&survey, key))
}

fn leaves_room(survey: &SpaceSurvey, key: RevisionKey) -> bool {
    let counted = survey.holds.iter().filter(|held| matches!(held.state, HoldState::Counts | HoldState::Pending));
    let held: Vec<RevisionKey> = counted.map(|held| held.key()).chain([key]).collect();
    future_room::is_left(survey, &held)
}

/// Like `hold`, on `device`.
pub fn hold_on(
    device: &dyn Device,
    key: RevisionKey,
    note: &str,
    expires_unix_ns: u64,
    wait: Duration,
) -> Result<Holding> {
    if !is_note(note) {
        return Err(Error::argument("the note of a hold", "it is longer than 512 bytes or has control characters"));
    }
    if !list(device)?.iter().any(|name| is_layout(name)) {
        // Locking would make a file in the directory.
        return Err(Error::NotASpace { path: device.path(), why: "there is no layout in it".to_owned() });
    }
    let (locks, locks_work) = lock(device)?;
    let survey = SpaceSurvey::open_on(device)?;
    let Some(revision) = survey.complete(key) else { return Ok(Holding::Gone) };
    if !leaves_room(&survey, key) {
        return Ok(Holding::NoRoom);
    }
    // The hold goes into a file of the revision's layout, one with room for holds if there is any: then revision and
    // hold stay together.
    let files = layouts(device, Access::Write)?;
    let of_revision = |file: &LayoutFile| file.header.layout_id == revision.layout;
    let (with_room, without): (Vec<_>, Vec<_>) =
        files.into_iter().filter(of_revision).partition(LayoutFile::takes_holds);
    let Some(file) = with_room.into_iter().chain(without).next() else {
        return Ok(Holding::Gone);
    };
    let now = unix_ns();
    let (lineage, number, note) = (key.lineage, key.number, note.to_owned());
    let hold = Hold { id: draw_id()?, lineage, number, created_unix_ns: now, expires_unix_ns, note };
    let blocks = file.read_holds()?.blocks;
    let is_free = |block: &HoldBlock| match block {
        HoldBlock::Free => true,
        HoldBlock::Hold(other) => other.has_expired(now),
        HoldBlock::Newer => false,
    };
    let Some(index) = blocks.iter().position(is_free) else { return Ok(Holding::NoPlace) };
    file.write_hold(index, Some(&hold))?;
    drop(locks);

    let holding = settle(device, &hold, wait, locks_work)?;
    if matches!(holding, Holding::Gone | Holding::NoRoom) {
        release_where(device, |other| other.id == hold.id)?;
    }
    Ok(holding)
}

/// Releases all holds of the revision `number`, or of every revision, in the space in `directory`. Returns the released
/// holds. A running job notices at its next checkpoint.
pub fn release(directory: &Path, number: Option<u64>) -> Result<Vec<Hold>> {
    release_on(&Disk::existing(directory), number)
}

/// Like `release`, on `device`.
pub fn release_on(device: &dyn Device, number: Option<u64>) -> Result<Vec<Hold>> {
    release_where(device, |hold| number.is_none_or(|number| hold.number == number))
}

/// Releases `hold` alone; returns whether it still existed.
pub fn release_one(directory: &Path, hold: &Hold) -> Result<bool> {
    release_one_on(&Disk::existing(directory), hold)
}

/// Like `release_one`, on `device`.
pub fn release_one_on(device: &dyn Device, hold: &Hold) -> Result<bool> {
    Ok(!release_where(device, |other| other.id == hold.id)?.is_empty())
}

fn release_where(device: &dyn Device, wanted: impl Fn(&Hold) -> bool) -> Result<Vec<Hold>> {
    // Survey before anything is opened for writing: a directory that is no space is refused with the error that `ls`
    // gives.
    let survey = SpaceSurvey::open_on(device)?;
    if !survey.holds.iter().any(|held| wanted(&held.hold)) {
        return Ok(Vec::new());
    }
    let (_locks, _) = lock(device)?;
    let mut released = Vec::new();
    for file in layouts(device, Access::Write)?.iter().filter(|file: &&LayoutFile| file.takes_holds()) {
        for (index, hold) in file.read_holds()?.holds().filter(|(_, hold)| wanted(hold)) {
            file.write_hold(index, None)?;
            released.push(hold.clone());
        }
    }
    Ok(released)
}

/// Waits until it is known whether `hold` counts.
fn settle(device: &dyn Device, hold: &Hold, wait: Duration, locks_work: bool) -> Result<Holding> {
    let deadline = Instant::now() + wait;
    loop {
        let survey = SpaceSurvey::open_on(device)?;
        let state = survey.holds.iter().find(|other| other.hold.id == hold.id).map(|other| other.state);
        let at_work = survey.is_at_work() || (!locks_work && !was_closed(device.directory(), &survey));
        match state {
            // The survey checked the locks before it looked for the revision: a job that opens the space after that
            // reads the hold.
            Some(HoldState::Counts) if !at_work || locks_work => return Ok(Holding::Counts(hold.clone())),
            Some(HoldState::NoRoom) => return Ok(Holding::NoRoom),
            Some(HoldState::Gone) | None => return Ok(Holding::Gone),
            // Only older roots refer to the revision, and the next job's first root would overwrite them.
            Some(HoldState::Pending) if !at_work => match root_again(device) {
                Ok(true) => {}
                // New roots would end the claim to data that the last job may have staged; its next start reads the
                // hold first.
                Err(Error::StagedOutOfSight { .. }) => return Ok(Holding::Pending(hold.clone())),
                other => drop(other?),
            },
            _ if Instant::now() >= deadline => return Ok(Holding::Pending(hold.clone())),
            _ => sleep(POLL),
        }
    }
}

/// Writes roots that refer to all held revisions; `false` if a job opens the space meanwhile, because it does the same.
fn root_again(device: &dyn Device) -> Result<bool> {
    let _locks = match opening::lock(device) {
        Ok(locks) => locks,
        Err(Error::InUse { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let survey = SpaceSurvey::open_on(device)?;
    Unseen::Waits(&GoneOver::of_space(device.directory())).check(&survey)?;
    let wanted = survey.holds.iter().filter(|held| held.state != HoldState::Expired);
    let wanted: Vec<RevisionKey> = wanted.map(|held| held.key()).collect();
    let (mut ledgers, lineage) = opening::open_usable(&layouts(device, Access::Write)?, &[], &wanted)?;
    opening::begin_all(&mut ledgers, lineage)?;
    Ok(true)
}

/// Takes the lock for choosing a block; also returns whether the file system has locks at all.
fn lock(device: &dyn Device) -> Result<(Locks, bool)> {
    let locks = Locks::open(device)?;
    let deadline = Instant::now() + LOCK_GRACE;
    loop {
        match locks.try_lock(HOLDS_BYTE)? {
            LockOutcome::Done => return Ok((locks, true)),
            LockOutcome::Unsupported => return Ok((locks, false)),
            LockOutcome::Busy | LockOutcome::Read(_) if Instant::now() >= deadline => {
                return Err(Error::InUse { path: device.path(), holder: " that takes a hold".to_owned() });
            }
            LockOutcome::Busy | LockOutcome::Read(_) => sleep(POLL),
        }
    }
}

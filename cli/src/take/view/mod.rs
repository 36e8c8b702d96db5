//! `mainstay view`: a revision as an HDF5 file, which points into the space or is a copy.
//!
//! Invariants: `view` writes nothing to the space but a hold. The data was verified before the file got its name, and
//! is held from then on.

mod chunks;
mod contents;
mod copy;
mod element;
mod file;
mod global;
mod link;
mod pieces;
mod report;
mod shard;

use super::unfinished::{Unfinished, refuse_existing};
use crate::{
    arguments,
    exit::{Exit, Failure, say},
    progress,
    space::{
        completing,
        holds::{self, expiry},
        revision,
    },
};
use contents::{Contents, contents};
use file::File;
use mainstay_engine::{
    LevelKind, Place, RevisionSurvey, SpaceSurvey, Verified, printable_path,
    space::format::{Hold, NOTE_BYTES_MAX},
    tend::{self, Holding},
};
use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf, absolute},
    time::Duration,
};

/// How long to wait until a job at work accepts the hold.
const WAIT: Duration = Duration::from_secs(10);

/// Note of a hold if the path of the file is too long for one.
const NOTE_SHORT: &str = "mainstay view";

/// The file to write.
struct ViewFile {
    directory: PathBuf,
    name: PathBuf,
    /// A file exists and may be replaced.
    replaces: bool,
}

pub fn view(wanted: &arguments::View) -> Result<Exit, Failure> {
    let target = ViewFile::of(&wanted.hdf5, wanted.force)?;
    refuse_existing(&target.directory, std::slice::from_ref(&target.name), wanted.force)?;
    match revision::place_to_show(&wanted.space.path, wanted.revision.number())? {
        None => view_in(wanted, &target),
        Some(Place { level, directory, .. }) => {
            if level == LevelKind::Memory && !wanted.copy {
                say(
                    "the revision is only in memory, and is lost at the end of the job; --copy keeps its data in the file",
                );
            }
            let space = arguments::Space { path: directory, ..wanted.space.clone() };
            view_in(&arguments::View { space, ..wanted.clone() }, &target)
        }
    }
}

/// The survey of the place that the file names as the space.
fn view_in(wanted: &arguments::View, target: &ViewFile) -> Result<Exit, Failure> {
    if wanted.dry_run {
        return would_view(wanted, target);
    }
    // The reader holds the revision while it copies.
    let holds = !wanted.copy && !wanted.no_hold;
    if holds {
        completing::first(&wanted.space.path).map_err(or_without_hold)?;
    }
    revision::read_in(&wanted.space.path, wanted.revision.number(), |survey, revision| {
        let hold = match holds {
            false => None,
            true => match take(wanted, target, survey, revision)? {
                Some(taken) => Some(taken),
                None => return Ok(None),
            },
        };
        let written = write(wanted, target, survey, revision);
        match (&written, &hold) {
            (Ok(Some(contents)), hold) => {
                let _ = release_replaced(wanted, target, survey, hold.as_ref());
                report::tell(wanted, &target.path(), survey, revision, contents, hold.as_ref())?;
            }
            // The hold would protect nothing.
            (_, Some((hold, _))) => drop(tend::release_one(&wanted.space.path, hold)),
            (_, None) => {}
        }
        Ok(written?.map(|_| Exit::Good))
    })
}

/// The plan of a dry run. It checks if the revision could be held, but does not read blocks.
fn would_view(wanted: &arguments::View, target: &ViewFile) -> Result<Exit, Failure> {
    revision::read_in(&wanted.space.path, wanted.revision.number(), |survey, revision| {
        let Some(contents) = contents(&wanted.space.path, survey, revision, !wanted.copy)? else { return Ok(None) };
        let holds = !wanted.copy && !wanted.no_hold;
        if holds && !tend::has_room_for(&wanted.space.path, revision.key)? {
            return Err(or_without_hold(Failure::refused(holds::no_room(survey, None, revision.key))));
        }
        report::tell(wanted, &target.path(), survey, revision, &contents, None)?;
        Ok(Some(Exit::Good))
    })
}

impl ViewFile {
    fn of(path: &Path, may_replace: bool) -> Result<ViewFile, Failure> {
        let failed = |error: io::Error| Failure::refused(format!("{}: {error}", printable_path(path)));
        let whole = absolute(path).map_err(failed)?;
        match (whole.parent(), whole.file_name()) {
            (Some(directory), Some(name)) => {
                let replaces = may_replace && whole.symlink_metadata().is_ok();
                Ok(ViewFile { directory: directory.to_owned(), name: name.into(), replaces })
            }
            _ => Err(Failure::refused(format!("{} is no name for a file", printable_path(path)))),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// The note of its hold.
    fn note(&self) -> String {
        let note = format!("mainstay view {}", printable_path(&self.path()));
        if note.len() <= NOTE_BYTES_MAX { note } else { NOTE_SHORT.to_owned() }
    }
}

/// Holds the revision for the file; `None` if the job removed it before.
fn take(
    wanted: &arguments::View,
    target: &ViewFile,
    survey: &SpaceSurvey,
    revision: &RevisionSurvey,
) -> Result<Option<(Hold, bool)>, Failure> {
    let (note, expires) = (target.note(), wanted.time.map_or(0, expiry));
    let hold = || {
        let held = tend::hold(&wanted.space.path, revision.key, &note, expires, WAIT);
        held.map_err(|error| or_without_hold(error.into()))
    };
    let mut holding = hold()?;
    // The room may be taken by the hold of the very file that this one replaces.
    if matches!(holding, Holding::NoRoom) && release_replaced(wanted, target, survey, None) {
        holding = hold()?;
    }
    holds::taken(survey, None, revision.key, holding).map_err(or_without_hold)
}

fn or_without_hold(failure: Failure) -> Failure {
    let message = format!(
        "{}; with --copy the file needs no hold once it is written, and with --no-hold a job may overwrite its data",
        failure.message
    );
    Failure { message, ..failure }
}

/// Releases the hold of the replaced file; returns true if there was one. If no file is replaced, the file of that name
/// may be elsewhere by now.
fn release_replaced(
    wanted: &arguments::View,
    target: &ViewFile,
    survey: &SpaceSurvey,
    hold: Option<&(Hold, bool)>,
) -> bool {
    if !target.replaces {
        return false;
    }
    let note = target.note();
    let is_old = |old: &&Hold| old.note == note && note != NOTE_SHORT && hold.is_none_or(|(hold, _)| hold.id != old.id);
    // If the release fails, the user can release by hand.
    let release = |old: &Hold| tend::release_one(&wanted.space.path, old).is_ok();
    survey.holds.iter().map(|held| &held.hold).filter(is_old).filter(|old| release(old)).count() > 0
}

/// The contents of the file; `None` if the job removed the revision meanwhile.
fn write<'a>(
    wanted: &arguments::View,
    target: &ViewFile,
    survey: &SpaceSurvey,
    revision: &'a RevisionSurvey,
) -> Result<Option<Contents<'a>>, Failure> {
    let in_place = !wanted.copy;
    let Some(contents) = contents(&wanted.space.path, survey, revision, in_place)? else { return Ok(None) };
    if in_place && !wanted.no_verify && !verify(revision)? {
        return Ok(None);
    }
    let unfinished = Unfinished::begin(&target.directory)?;
    let path = unfinished.path(&target.name);
    let mut file = File::create(&path, &contents.space.to_string_lossy(), revision)?;
    if in_place {
        file.show(&contents.shards, &names(wanted, target, &contents)?)?;
    } else if !copy::copy(&wanted.space.path, revision, &contents, &mut file)? {
        return Ok(None);
    }
    file.join(&contents.arrays)?;
    file.close()?;
    if in_place {
        // A tool that opened it for writing would write into the checkpoint.
        let mode = fs::metadata(&path).map(|found| found.permissions().mode() & 0o444);
        let sealed = mode.and_then(|mode| fs::set_permissions(&path, Permissions::from_mode(mode)));
        sealed
            .map_err(|error| Failure::refused(format!("making {} read-only failed: {error}", printable_path(&path))))?;
    }
    unfinished.finish(std::slice::from_ref(&target.name), wanted.force)?;
    Ok(Some(contents))
}

/// The file's name for each layout file.
fn names(
    wanted: &arguments::View,
    target: &ViewFile,
    contents: &Contents<'_>,
) -> Result<HashMap<PathBuf, String>, Failure> {
    let failed = |error| Failure::refused(format!("{}: {error}", printable_path(&target.directory)));
    let from = if wanted.relative { Some(fs::canonicalize(&target.directory).map_err(failed)?) } else { None };
    let files = contents.shards.iter().map(|shard| &shard.file).collect::<BTreeSet<_>>();
    files.into_iter().map(|file| Ok((file.clone(), link::name(file, from.as_deref())?))).collect()
}

/// Returns true if all of it was readable; otherwise the job removed it.
fn verify(revision: &RevisionSurvey) -> Result<bool, Failure> {
    let bar = progress::of_bytes(revision.block_bytes());
    bar.set_message("verifying");
    let verified = revision.verify(&|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    match verified? {
        Verified::Whole => Ok(true),
        Verified::LetGo => Ok(false),
        Verified::Damaged { what } => Err(Failure::lost(format!("{}; nothing was written", what.join("; ")))),
    }
}

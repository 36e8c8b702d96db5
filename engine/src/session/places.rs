//! The places of a session's levels, from the settings.
//!
//! The space that is opened is the farthest level. A file in it holds the name by which the other levels belong to it.
//! So a space that was removed and made anew does not get the old levels.

use super::{agreement::LEVELS_MAX, level::LevelKind, level_plan::LevelPlan};
use crate::{
    config::{Config, LevelPlace, check_alike},
    device::{Device, Disk, Naming},
    error::{Error, Result},
    ground::{files, variable},
    group::{Group, agree, broadcast, gather_unequal},
    printable::printable_path,
    remark::{Remark, remark},
    space::{
        GoneBack, LEVELS_COPY, LEVELS_FILE, LevelsNote, draw_id, format::hash, is_layout, is_of_space, level_directory,
        node_in, without_copy,
    },
    status::Status,
    survey::{Place, Places},
};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, DirBuilder},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

static UNUSED: Remark = Remark::new();

/// The note in the space. It names the levels of the space, and has the highest lineage of all of them.
#[derive(Debug)]
pub(super) struct NoteFile {
    space: PathBuf,
    said: LevelsNote,
}

/// The levels that `config` asks for, nearest first, with the space in `path` last. Also the note, if there are several
/// levels. Collective.
pub(super) fn plans(group: &dyn Group, path: &Path, config: &Config) -> Result<(Vec<LevelPlan>, Option<NoteFile>)> {
    agree(group, config.check())?;
    check_levels_alike(group, config)?;
    // Includes the numbers of copies, by which directories are made.
    check_alike(group, config)?;
    let space = agree(group, Disk::make(path))?;
    let mut plans = Vec::new();
    let several = config.memory != LevelPlace::Off || config.disk != LevelPlace::Off;
    // A job without levels goes on from the revisions and the numbers that earlier jobs with levels left in the space.
    let has_note = has_note(group, path)?;
    if group.rank() == 0 {
        if has_note { remark_unused(path, config) } else { remark_lost(path) }
    }
    let note = if several || has_note { Some(NoteFile::of(group, path)?) } else { None };
    if let Some(note) = &note {
        let place = |kind, place: &LevelPlace, every, keep, copies: u32| -> Result<Option<LevelPlan>> {
            let within = match place {
                LevelPlace::Off => return Ok(None),
                LevelPlace::Auto => config.pool_directory.clone(),
                LevelPlace::At(directory) => directory.clone(),
            };
            let directory = |copy: u32| within.join(level_directory(&note.said.id, copy, label()));
            let device = |copy: u32| -> Result<Arc<dyn Device>> {
                let directory = directory(copy);
                let made = make_own(&directory).and_then(|()| Disk::make(&directory));
                agree(group, made).map(|made| Arc::new(made) as Arc<dyn Device>)
            };
            // No more copies than there are other ranks to hold them.
            let copies = copies.min(group.size() as u32);
            let own = device(0)?;
            let mut before = [(copies..LEVELS_MAX as u32).rfind(|copy| directory(*copy).exists()).map_or(0, u64::from)];
            group.all_max(&mut before)?;
            let mut former: Vec<_> = (copies.max(1)..=before[0] as u32).map(device).collect::<Result<_>>()?;
            if kind == LevelKind::Disk {
                former.extend(of_other_nodes(group, &within, &note.said.id)?);
            }
            let copies = (1..copies).map(device).collect::<Result<_>>()?;
            Ok(Some(LevelPlan { kind, device: own, every, keep, copies, former }))
        };
        plans.extend(place(LevelKind::Memory, &config.memory, 1, config.memory_keep, config.memory_copies)?);
        plans.extend(place(LevelKind::Disk, &config.disk, config.disk_every, config.disk_keep, config.disk_copies)?);
    }
    let every = if plans.is_empty() { 1 } else { config.pfs_every };
    plans.push(LevelPlan {
        kind: LevelKind::Pfs,
        device: Arc::new(space),
        every,
        keep: config.keep,
        copies: Vec::new(),
        former: Vec::new(),
    });
    // Directories that the settings ask for come before former ones.
    let asked: usize = plans.iter().map(|plan| 1 + plan.copies.len()).sum();
    let mut room = LEVELS_MAX.saturating_sub(asked);
    for plan in &mut plans {
        plan.former.truncate(room);
        room -= plan.former.len();
    }
    Ok((plans, note))
}

/// Whether the space has a note: earlier jobs had several levels. Collective.
fn has_note(group: &dyn Group, path: &Path) -> Result<bool> {
    let is_there = group.rank() == 0 && [LEVELS_FILE, LEVELS_COPY].iter().any(|name| path.join(name).is_file());
    let mut present = [u64::from(is_there)];
    group.all_max(&mut present)?;
    Ok(present == [1])
}

/// Remarks on levels of this node that hold revisions but are not in the settings. The job may restore an older
/// revision than there is.
fn remark_unused(path: &Path, config: &Config) {
    let is_out = |level| match level {
        LevelKind::Memory => config.memory == LevelPlace::Off,
        LevelKind::Disk => config.disk == LevelPlace::Off,
        LevelKind::Pfs => false,
    };
    if !LevelKind::ALL.into_iter().any(is_out) {
        return;
    }
    let holds_any = |place: &Place| entries(&place.directory).any(|path| name_of(&path).is_some_and(is_layout));
    let unused = Places::of(path).all.into_iter().filter(|place| is_out(place.level)).find(holds_any);
    if let Some(Place { level, directory, .. }) = unused {
        let (name, directory) = (level.name(), printable_path(&directory));
        let why = "Give it to go on from there, or remove the directory";
        let text =
            format!("{directory} holds revisions of this space, and is not looked at: the setting {name} is not given");
        UNUSED.make(0, || Some(format!("{text}. {why}")));
    }
}

/// Remarks that the note is gone, so the levels of the last job cannot be found.
fn remark_lost(path: &Path) {
    let status = Status::read(path).ok().flatten();
    let directories = status.into_iter().flat_map(|status| status.job.places).flat_map(|place| place.directories);
    let is_level = |directory: &PathBuf| directory != path && directory.is_dir();
    if let Some(lost) = directories.map(PathBuf::from).find(is_level) {
        let (space, lost) = (printable_path(path), printable_path(&lost));
        remark(
            0,
            &format!(
                "{LEVELS_FILE} and {LEVELS_COPY} are gone from {space}, so revisions in {lost} are not found. To go on from \
             them, end the job before it saves and bring one of the two files back; else remove that directory"
            ),
        );
    }
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name().and_then(OsStr::to_str)
}

impl NoteFile {
    /// Reads the note of the space in `path`. Rank 0 makes one if there is none. Collective.
    fn of(group: &dyn Group, path: &Path) -> Result<NoteFile> {
        let read = agree(group, (group.rank() == 0).then(|| read_or_make(path)).transpose())?;
        let mine = read.as_ref().map(|note| (note.id.clone(), note.lineage, note.back.clone())).unwrap_or_default();
        let (id, lineage, back) = broadcast(group, 0, &mine)?;
        // Only rank 0 needs the directories of levels that this job lacks.
        let within = read.map(|note| note.within).unwrap_or_default();
        Ok(NoteFile { space: path.to_owned(), said: LevelsNote { id, lineage, within, back } })
    }

    /// The highest lineage with which any of the levels was opened.
    pub(super) fn lineage(&self) -> u64 {
        self.said.lineage
    }

    /// The revisions that rollbacks discarded, on any level.
    pub(super) fn back(&self) -> &[GoneBack] {
        &self.said.back
    }

    /// Records the parent directories of `level`.
    pub(super) fn lies_within(&mut self, level: LevelKind, directories: Vec<PathBuf>) {
        self.said.within.insert(level, directories);
    }

    /// Notes that a job begins `lineage`, before the job saves anything. A level that is out of sight now is thereby
    /// known to be older. `InUse` if a rollback has ended since the note was read. Collective.
    pub(super) fn begin(&mut self, group: &dyn Group, lineage: u64) -> Result<()> {
        self.said.lineage = lineage;
        let written = if group.rank() == 0 { self.write() } else { Ok(()) };
        agree(group, written)
    }

    fn write(&self) -> Result<()> {
        // The levels are locked now, but were not when the note was read.
        if LevelsNote::of_space(&self.space)?.is_some_and(|now| now.back != self.said.back) {
            let holder = ", a rollback that has ended meanwhile; start it again".to_owned();
            return Err(Error::InUse { path: printable_path(&self.space), holder });
        }
        self.said.replace(&self.space)
    }
}

/// Refuses ranks with different levels. The directories of a level may differ. Collective.
fn check_levels_alike(group: &dyn Group, config: &Config) -> Result<()> {
    let mine =
        [("memory", &config.memory), ("disk", &config.disk)].map(|(key, place)| (key, *place != LevelPlace::Off));
    let flags = mine.map(|(_, there)| [u64::from(there), u64::from(!there)]);
    let mut all = flags.concat();
    group.all_max(&mut all)?;
    let differs = mine.iter().zip(all.chunks(2)).find(|(_, flags)| flags == &[1, 1]);
    differs.map_or(Ok(()), |((key, _), _)| {
        let why = "some ranks have this level and some have not; give all of them the same mainstay.toml, variables and options";
        Err(Error::argument(*key, why))
    })
}

/// The end of the directory's name. Ranks that `MAINSTAY_NODE` declares separate nodes have separate memory.
fn label() -> Option<u32> {
    let label = variable("MAINSTAY_NODE").filter(|label| !label.is_empty())?;
    let hash = hash(label.as_bytes());
    Some(u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
}

fn read_or_make(space: &Path) -> Result<LevelsNote> {
    if let Some(note) = LevelsNote::of_space(space)? {
        return Ok(note);
    }
    let failed = |e| Error::io("making", printable_path(&space.join(LEVELS_FILE)), e);
    let note = LevelsNote { id: hex(&draw_id()?), lineage: 0, within: BTreeMap::new(), back: Vec::new() };
    note.make(space).map_err(failed)?;
    LevelsNote::of_space(space)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

/// Directories of this level that belong to nodes outside this job. Empty unless all ranks see the same directories in
/// `within`. Collective.
fn of_other_nodes(group: &dyn Group, within: &Path, id: &str) -> Result<Vec<Arc<dyn Device>>> {
    let nodes = gather_unequal(group, &label())?;
    let is_other = |path: &PathBuf| {
        let node = name_of(path).and_then(|name| node_in(name, id));
        let holds_any = || entries(path).any(|path| name_of(&path).is_some_and(is_layout));
        node.is_some_and(|node| !nodes.contains(&node)) && holds_any() && check_own(path).is_ok()
    };
    let mut found: Vec<PathBuf> = entries(within).filter(is_other).collect();
    found.sort();
    let names: Vec<&str> = found.iter().filter_map(|path| name_of(path)).collect();
    let own = hash(names.join("/").as_bytes());
    // Ranks that see different directories have separate disks.
    let is_shared = gather_unequal(group, &own)?.iter().all(|other| *other == own);
    let device = |path: PathBuf| Arc::new(Disk::existing(&path)) as Arc<dyn Device>;
    Ok(if is_shared { found.into_iter().map(device).collect() } else { Vec::new() })
}

/// Makes a directory for this user alone, or checks that the existing one is such.
fn make_own(directory: &Path) -> Result<()> {
    let failed = |doing, e| Error::io(doing, directory.display().to_string(), e);
    if let Some(within) = directory.parent() {
        DirBuilder::new().mode(0o700).recursive(true).create(within).map_err(|e| failed("making", e))?;
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed("making", e)),
        _ => {}
    }
    check_own(directory)
}

/// Checks that the directory belongs to this user alone.
fn check_own(directory: &Path) -> Result<()> {
    let failed = |doing, e| Error::io(doing, directory.display().to_string(), e);
    let found = fs::symlink_metadata(directory).map_err(|e| failed("looking at", e))?;
    let own = nix::unistd::geteuid().as_raw();
    if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
        let why = format!("{} is not a directory of this user alone (mode 700)", directory.display());
        return Err(Error::argument("levels", why));
    }
    Ok(())
}

/// Removes the files of a level or copy, and its directory if that is empty then. Files that cannot be removed stay,
/// and do no harm.
pub(super) fn remove(device: &dyn Device) {
    let names = device.list().unwrap_or_default();
    names.iter().filter(|name| is_of_space(name)).for_each(|name| drop(device.name(Naming::Remove(name))));
    let _ = fs::remove_dir::<&Path>(device.directory());
}

/// Removes a level in memory and all copies beside it, of this job or an earlier one. A job that ends in order leaves
/// none of them.
pub(super) fn remove_with_copies(device: &dyn Device) {
    remove(device);
    let own = device.directory();
    let level_of = |path: &Path| without_copy(name_of(path)?);
    let Some((level, parent)) = level_of(own).zip(own.parent()) else { return };
    let beside = entries(parent).filter(|path| level_of(path).as_ref() == Some(&level));
    for copy in beside {
        let of_space = |path: &PathBuf| name_of(path).is_some_and(is_of_space);
        entries(&copy).filter(of_space).for_each(|file| drop(fs::remove_file(file)));
        let _ = fs::remove_dir(copy);
    }
}

/// The paths in the directory that can be read.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    files::entries(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Solo;

    /// The job went on from revisions that the rollback had discarded, and overwrote its note.
    #[test]
    fn a_rollback_that_ends_while_a_job_opens_is_not_forgotten() {
        let space = tempfile::TempDir::new().unwrap();
        let mut note = NoteFile::of(&Solo, space.path()).unwrap();
        note.begin(&Solo, 1).unwrap();
        let mut rolled_back = LevelsNote::of_space(space.path()).unwrap().unwrap();
        rolled_back.go_back((1, 5));
        rolled_back.replace(space.path()).unwrap();
        let error = note.begin(&Solo, 2).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        let mut next = NoteFile::of(&Solo, space.path()).unwrap();
        assert_eq!(next.back(), rolled_back.back);
        next.begin(&Solo, 2).unwrap();
    }
}

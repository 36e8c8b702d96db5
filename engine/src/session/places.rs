//! Where the levels of a session lie, as the settings say. The space that is opened is the farthest; a file in it says by
//! which name the other levels belong to it, so that a space that was removed and made anew gets none of the old.

use super::{agreement::LEVELS_MAX, level::LevelKind, plan::LevelPlan};
use crate::{
    config::{Config, LevelPlace, check_alike},
    device::{Device, Disk},
    error::{Error, Result},
    ground::files,
    group::{Group, agree, gather},
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

/// What the file in the space says: which levels belong to it, and how far the lineages have come on all of them.
#[derive(Debug)]
pub(super) struct NoteFile {
    space: PathBuf,
    said: LevelsNote,
}

/// The levels that `config` asks for, nearest first, before the space in `path`; and its note, where there are several.
/// Collective.
pub(super) fn plans(group: &dyn Group, path: &Path, config: &Config) -> Result<(Vec<LevelPlan>, Option<NoteFile>)> {
    agree(group, config.check())?;
    check_levels_alike(group, config)?;
    // The numbers of copies, by which directories are made, among them.
    check_alike(group, config)?;
    let space = agree(group, Disk::make(path))?;
    let mut plans = Vec::new();
    let several = config.memory != LevelPlace::Off || config.disk != LevelPlace::Off;
    // A job without levels goes on from what those with levels have left in the space, and counts on from there.
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
            // As many as there can be: others hold this rank's shard.
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
    // What is asked for goes before what was.
    let asked: usize = plans.iter().map(|plan| 1 + plan.copies.len()).sum();
    let mut room = LEVELS_MAX.saturating_sub(asked);
    for plan in &mut plans {
        plan.former.truncate(room);
        room -= plan.former.len();
    }
    Ok((plans, note))
}

/// Whether there is a note in the space: jobs before this one had several levels. Collective.
fn has_note(group: &dyn Group, path: &Path) -> Result<bool> {
    let is_there = group.rank() == 0 && [LEVELS_FILE, LEVELS_COPY].iter().any(|name| path.join(name).is_file());
    let mut told = [u64::from(is_there)];
    group.all_max(&mut told)?;
    Ok(told == [1])
}

/// Remarks to the user what levels hold on this node that the settings leave out: a job may come back with less than is there.
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
        let told =
            format!("{directory} holds revisions of this space, and is not looked at: the setting {name} is not given");
        UNUSED.make(0, || Some(format!("{told}. {why}")));
    }
}

/// Remarks to the user that the note is gone, by which the levels of the last job would be found.
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
    /// Of the space in `path`; made by rank 0 if there is none. Collective.
    fn of(group: &dyn Group, path: &Path) -> Result<NoteFile> {
        let read = agree(group, (group.rank() == 0).then(|| read_or_make(path)).transpose())?;
        let mine = read.as_ref().map(|note| (note.id.clone(), note.lineage, note.back.clone())).unwrap_or_default();
        let (id, lineage, back) = gather(group, &mine)?.swap_remove(0);
        // Where levels lie that this job has not, rank 0 alone has to know.
        let within = read.map(|note| note.within).unwrap_or_default();
        Ok(NoteFile { space: path.to_owned(), said: LevelsNote { id, lineage, within, back } })
    }

    /// The highest lineage that any of the levels was opened with.
    pub(super) fn lineage(&self) -> u64 {
        self.said.lineage
    }

    /// What rollbacks have left out, wherever it lies.
    pub(super) fn back(&self) -> &[GoneBack] {
        &self.said.back
    }

    /// Says of `level` that its directories lie in these.
    pub(super) fn lies_within(&mut self, level: LevelKind, directories: Vec<PathBuf>) {
        self.said.within.insert(level, directories);
    }

    /// Notes that a job begins `lineage`, before it saves anything: a level that is out of sight then is known by it to be
    /// older. `InUse` if a rollback has come to its end since the note was read. Collective.
    pub(super) fn begin(&mut self, group: &dyn Group, lineage: u64) -> Result<()> {
        self.said.lineage = lineage;
        let written = if group.rank() == 0 { self.write() } else { Ok(()) };
        agree(group, written)
    }

    fn write(&self) -> Result<()> {
        // The levels are locked by now, and were not when the note was read.
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
    let told = mine.map(|(_, there)| [u64::from(there), u64::from(!there)]);
    let mut all = told.concat();
    group.all_max(&mut all)?;
    let differs = mine.iter().zip(all.chunks(2)).find(|(_, told)| told == &[1, 1]);
    differs.map_or(Ok(()), |((key, _), _)| {
        let why = "some ranks have this level and some have not; give all of them the same mainstay.toml, variables and options";
        Err(Error::argument(*key, why))
    })
}

/// The end of the directory's name: ranks that are told to be nodes of their own have memory of their own.
fn label() -> Option<u32> {
    let label = std::env::var_os("MAINSTAY_NODE").filter(|label| !label.is_empty())?;
    let hash = hash(label.as_bytes());
    Some(u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
}

/// The note of `space`; one is made if there is none.
fn read_or_make(space: &Path) -> Result<LevelsNote> {
    if let Some(note) = LevelsNote::of_space(space)? {
        return Ok(note);
    }
    let failed = |e| Error::io("making", printable_path(&space.join(LEVELS_FILE)), e);
    let note = LevelsNote { id: hex(&draw_id()?), lineage: 0, within: BTreeMap::new(), back: Vec::new() };
    note.make(space).map_err(failed)?;
    LevelsNote::of_space(space)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

/// Where this level lies of nodes of which the job has none, in a directory `within` that all ranks see. Collective.
fn of_other_nodes(group: &dyn Group, within: &Path, id: &str) -> Result<Vec<Arc<dyn Device>>> {
    let nodes = gather(group, &label())?;
    let is_other = |path: &PathBuf| {
        let node = name_of(path).and_then(|name| node_in(name, id));
        let holds_any = || entries(path).any(|path| name_of(&path).is_some_and(is_layout));
        node.is_some_and(|node| !nodes.contains(&node)) && holds_any() && check_own(path).is_ok()
    };
    let mut found: Vec<PathBuf> = entries(within).filter(is_other).collect();
    found.sort();
    let names: Vec<&str> = found.iter().filter_map(|path| name_of(path)).collect();
    let told = hash(names.join("/").as_bytes());
    // Ranks that see other directories there have disks of their own.
    let is_shared = gather(group, &told)?.iter().all(|other| *other == told);
    let device = |path: PathBuf| Arc::new(Disk::existing(&path)) as Arc<dyn Device>;
    Ok(if is_shared { found.into_iter().map(device).collect() } else { Vec::new() })
}

/// Makes a directory of this user alone, or checks that the one that is there is such.
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

/// Checks that the directory is one of this user alone.
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

/// Removes the files of a level, or of a copy of it, and its directory if nothing else lies there. Files that cannot be
/// removed stay, and are in nobody's way.
pub(super) fn remove(device: &dyn Device) {
    let names = device.list().unwrap_or_default();
    names.iter().filter(|name| is_of_space(name)).for_each(|name| drop(device.remove(name)));
    let _ = fs::remove_dir(device.directory());
}

/// The same of a level in memory, with the copies beside it, whichever job has made them: a job that ends in order leaves
/// nothing of them.
pub(super) fn remove_with_copies(device: &dyn Device) {
    remove(device);
    let own = device.directory();
    let level_of = |path: &Path| without_copy(name_of(path)?);
    let Some((level, parent)) = level_of(&own).zip(own.parent()) else { return };
    let beside = entries(parent).filter(|path| level_of(path).as_ref() == Some(&level));
    for copy in beside {
        let of_space = |path: &PathBuf| name_of(path).is_some_and(is_of_space);
        entries(&copy).filter(of_space).for_each(|file| drop(fs::remove_file(file)));
        let _ = fs::remove_dir(copy);
    }
}

/// What lies in the directory, as far as that can be seen.
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

    /// The job went on from what the rollback had left out, and its note was written over.
    #[test]
    fn a_rollback_that_ends_while_a_job_opens_is_not_forgotten() {
        let space = tempfile::TempDir::new().unwrap();
        let mut note = NoteFile::of(&Solo, space.path()).unwrap();
        note.begin(&Solo, 1).unwrap();
        let mut rolled_back = LevelsNote::of_space(space.path()).unwrap().unwrap();
        rolled_back.go_back((1, 5));
        rolled_back.replace(space.path()).unwrap();
        let told = note.begin(&Solo, 2).unwrap_err();
        assert!(matches!(told, Error::InUse { .. }), "{told}");
        let mut next = NoteFile::of(&Solo, space.path()).unwrap();
        assert_eq!(next.back(), rolled_back.back);
        next.begin(&Solo, 2).unwrap();
    }
}

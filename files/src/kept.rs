//! The generations of a file, `.mainstay/kept/NAME.g7`, each with its manifest beside it.
//!
//! Invariants:
//! - The name is a hard link of its generation, so the inode shows the number. A file with another inode was written without
//!   Mainstay: it has no hashes, and programs read it unverified.
//! - A manifest has the modification time of its generation. If a hash differs, the time shows the cause: another time, and
//!   a program has changed the file in place; the same time, and the medium has damaged it.
//! - A long name has a short form (`file::short`), and its whole text is in `.mainstay/names`.

use crate::{
    file::{BESIDE, check_beside, is_short, open_plain, short},
    manifest::Manifest,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The suffix of a manifest's name.
const HASHES: &str = ".hashes";
/// No generation has this number.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// The path of a folder in `.mainstay` of `folder`. Makes it if it is missing.
pub fn beside(folder: &Path, part: &str) -> io::Result<PathBuf> {
    check_beside(folder)?;
    let path = folder.join(BESIDE).join(part);
    if !path.exists() {
        // One by one: a program may have removed `folder`, and it must stay removed.
        for new in [&folder.join(BESIDE), &path] {
            match DirBuilder::new().mode(0o775).create(new) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        // All users of the folder share this one, whatever the mask of the first user.
        let mode = fs::metadata(folder)?.mode() & 0o2775 | 0o700;
        for made in [&folder.join(BESIDE), &path] {
            let _ = fs::set_permissions(made, fs::Permissions::from_mode(mode));
        }
    }
    Ok(path)
}

/// Syncs the names in a folder.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

pub fn data_path(folder: &Path, name: &OsStr, generation: u64) -> PathBuf {
    let mut file = short(name).into_owned();
    file.push(format!(".g{generation}"));
    folder.join(BESIDE).join("kept").join(file)
}

pub fn manifest_path(folder: &Path, name: &OsStr, generation: u64) -> PathBuf {
    let mut path = data_path(folder, name, generation).into_os_string();
    path.push(HASHES);
    path.into()
}

/// The form of the name and the generation's number in the name of a kept file.
fn parse(file: &OsStr) -> Option<(&OsStr, u64)> {
    let bytes = file.as_bytes();
    let at = bytes.windows(2).rposition(|pair| pair == b".g")?;
    let number = std::str::from_utf8(&bytes[at + 2..]).ok()?;
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    let number = number.parse().ok().filter(|number| is_plain && *number < NUMBER_MAX)?;
    Some((OsStr::from_bytes(&bytes[..at]), number))
}

/// The kept generations of `name`, newest first.
pub fn generations(folder: &Path, name: &OsStr) -> io::Result<Vec<u64>> {
    let form = short(name);
    let mut found: Vec<u64> =
        all(folder)?.into_iter().filter(|(one, _)| *one == *form).map(|(_, number)| number).collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}

/// The newest generation of each name in a folder.
pub fn newest(folder: &Path) -> io::Result<BTreeMap<OsString, u64>> {
    let mut newest = BTreeMap::new();
    for (name, number) in all(folder)? {
        let last = newest.entry(name).or_insert(number);
        *last = number.max(*last);
    }
    Ok(newest)
}

/// All kept generations in a folder, by the forms of their names.
fn all(folder: &Path) -> io::Result<Vec<(OsString, u64)>> {
    check_beside(folder)?;
    let entries = match fs::read_dir(folder.join(BESIDE).join("kept")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let file = entry?.file_name();
        found.extend(parse(&file).map(|(name, number)| (name.to_owned(), number)));
    }
    Ok(found)
}

fn name_path(folder: &Path, form: &OsStr) -> PathBuf {
    folder.join(BESIDE).join("names").join(form)
}

/// Writes down the whole name of a file with a short form, durably.
pub fn note_name(folder: &Path, name: &OsStr) -> io::Result<()> {
    let form = short(name);
    if !is_short(&form) || whole_name(folder, &form) == name {
        return Ok(());
    }
    let names = beside(folder, "names")?;
    let mut new = form.clone().into_owned();
    new.push(format!(".{}", std::process::id()));
    let new = names.join(new);
    let mut file = File::create(&new)?;
    file.write_all(name.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, names.join(&*form))?;
    sync_folder(&names)
}

/// The name with this form. If its note is missing or damaged, the form itself is the name.
fn whole_name(folder: &Path, form: &OsStr) -> OsString {
    let noted = || {
        let mut name = Vec::new();
        open_plain(&name_path(folder, form)).ok()?.take(libc::NAME_MAX as u64 + 1).read_to_end(&mut name).ok()?;
        Some(OsString::from_vec(name)).filter(|name| short(name) == form && !name.as_bytes().contains(&b'/'))
    };
    is_short(form).then(noted).flatten().unwrap_or_else(|| form.to_owned())
}

pub fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    found.is_file().then(|| (found.dev(), found.ino()))
}

/// The number of the generation under the name. `None`: there is no file, or another program wrote it.
pub fn current(folder: &Path, name: &OsStr) -> io::Result<Option<u64>> {
    let Some(here) = identity(&folder.join(name)) else { return Ok(None) };
    let generations = generations(folder, name)?;
    Ok(generations.into_iter().find(|number| identity(&data_path(folder, name, *number)) == Some(here)))
}

/// The file that a program gets for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// The file under the name, unverified: it was written without Mainstay, and has no hashes.
    Unknown,
    Good {
        generation: u64,
    },
    /// Another program has changed the file in place.
    Changed {
        generation: u64,
    },
    /// The file is damaged; this older generation is good.
    Instead {
        generation: u64,
        older: u64,
    },
    /// The file and all older generations are damaged.
    Lost {
        generation: u64,
    },
}

/// Reads and verifies the file under the name; if it is damaged, the older generations, newest first.
pub fn judge(folder: &Path, name: &OsStr) -> io::Result<Judged> {
    let Some(generation) = current(folder, name)? else { return Ok(Judged::Unknown) };
    match verify(folder, name, generation) {
        Verdict::Good => return Ok(Judged::Good { generation }),
        Verdict::Changed => return Ok(Judged::Changed { generation }),
        Verdict::Damaged => {}
    }
    let older = generations(folder, name)?.into_iter().filter(|number| *number < generation);
    Ok(match older.into_iter().find(|number| is_good(folder, name, *number)) {
        Some(older) => Judged::Instead { generation, older },
        None => Judged::Lost { generation },
    })
}

/// The state of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// The medium has changed its bytes, or cannot read them.
    Damaged,
    /// A program without Mainstay has changed it in place.
    Changed,
}

/// Compares each block of the generation with its hash.
pub fn verify(folder: &Path, name: &OsStr, generation: u64) -> Verdict {
    let look = || -> io::Result<Verdict> {
        let manifest = Manifest::open(&manifest_path(folder, name, generation))?;
        let data = open_plain(&data_path(folder, name, generation))?;
        let modified = data.metadata()?.modified()?;
        let is_as_published = manifest.modified()? == modified;
        Ok(match manifest.fits(&data)? {
            true => {
                if !is_as_published {
                    // A program has changed the time alone. The call fails for another user's manifest.
                    let _ = manifest.set_modified(modified);
                }
                Verdict::Good
            }
            false if is_as_published => Verdict::Damaged,
            false => Verdict::Changed,
        })
    };
    look().unwrap_or(Verdict::Damaged)
}

pub fn is_good(folder: &Path, name: &OsStr, generation: u64) -> bool {
    verify(folder, name, generation) == Verdict::Good
}

/// Whether another program has changed the generation in place. Reads the file only if its time differs.
pub fn is_changed(folder: &Path, name: &OsStr, generation: u64) -> bool {
    let modified = |path: &Path| fs::symlink_metadata(path).and_then(|found| found.modified()).ok();
    modified(&data_path(folder, name, generation)) != modified(&manifest_path(folder, name, generation))
        && verify(folder, name, generation) == Verdict::Changed
}

/// Removes manifests of `name` without a generation. A kill between two steps leaves them.
fn remove_orphans(folder: &Path, name: &OsStr, is_orphan: impl Fn(u64) -> bool) -> io::Result<()> {
    for file in fs::read_dir(folder.join(BESIDE).join("kept"))? {
        let file = file?.file_name();
        let data = file.as_bytes().strip_suffix(HASHES.as_bytes()).map(OsStr::from_bytes);
        let Some((_, number)) = data.and_then(parse) else { continue };
        let path = manifest_path(folder, name, number);
        if is_orphan(number) && path.file_name() == Some(&file) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// Removes all generations but the newest `keep` and the one under the name, and manifests that a kill has left.
pub fn prune(folder: &Path, name: &OsStr, keep: u32) -> io::Result<()> {
    let current = current(folder, name)?;
    let all = generations(folder, name)?;
    for number in all.iter().copied().skip(keep.max(1) as usize) {
        if Some(number) != current {
            remove(folder, name, number);
        }
    }
    // Another node may have renamed the manifest of a newer generation, and not the generation yet.
    let Some(newest) = all.first() else { return Ok(()) };
    remove_orphans(folder, name, |number| number < *newest && !all.contains(&number))
}

fn remove(folder: &Path, name: &OsStr, generation: u64) {
    let _ = fs::remove_file(data_path(folder, name, generation));
    let _ = fs::remove_file(manifest_path(folder, name, generation));
}

/// Removes the generation under the name from `kept`, and leaves the name: a program changes the file in place.
pub fn release(folder: &Path, name: &OsStr) -> io::Result<()> {
    let is_here = |number: &u64| identity(&data_path(folder, name, *number)) == identity(&folder.join(name));
    let released = generations(folder, name)?.into_iter().filter(is_here);
    released.for_each(|number| remove(folder, name, number));
    forget_name(folder, name);
    Ok(())
}

/// Removes all generations: the program has removed the file.
pub fn remove_all(folder: &Path, name: &OsStr) -> io::Result<()> {
    generations(folder, name)?.into_iter().for_each(|number| remove(folder, name, number));
    match remove_orphans(folder, name, |_| true) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    forget_name(folder, name);
    Ok(())
}

/// Removes the note of a name without generations.
fn forget_name(folder: &Path, name: &OsStr) {
    let form = short(name);
    if is_short(&form) && generations(folder, name).is_ok_and(|left| left.is_empty()) {
        let _ = fs::remove_file(name_path(folder, &form));
    }
}

/// Renames a file with its newest generation, which becomes the next generation of the new name. Two files that are
/// exchanged keep their older generations.
pub fn rename(from: (&Path, &OsStr), to: (&Path, &OsStr), flags: RenameFlags) -> io::Result<()> {
    let is_exchange = flags.contains(RenameFlags::EXCHANGE);
    let generation = current(from.0, from.1)?;
    let other = if is_exchange { current(to.0, to.1)? } else { None };
    renameat_with(CWD, from.0.join(from.1), CWD, to.0.join(to.1), flags)?;
    let (next, next_other) = (next(to)?, next(from)?);
    if let Some(generation) = generation {
        move_generation(from, generation, to, next)?;
    }
    if let Some(other) = other {
        move_generation(to, other, from, next_other)?;
    }
    if is_exchange { Ok(()) } else { remove_all(from.0, from.1) }
}

fn next(file: (&Path, &OsStr)) -> io::Result<u64> {
    Ok(generations(file.0, file.1)?.first().map_or(1, |newest| newest + 1))
}

fn move_generation(from: (&Path, &OsStr), number: u64, to: (&Path, &OsStr), next: u64) -> io::Result<()> {
    beside(to.0, "kept")?;
    note_name(to.0, to.1)?;
    // Without links, or on another file system, the file has no hashes.
    let _ = fs::rename(manifest_path(from.0, from.1, number), manifest_path(to.0, to.1, next))
        .and_then(|()| fs::rename(data_path(from.0, from.1, number), data_path(to.0, to.1, next)));
    Ok(())
}

/// A file with its generations, for tables.
#[derive(Debug, Clone)]
pub struct NamedFile {
    pub name: OsString,
    /// Newest first.
    pub generations: Vec<Generation>,
    /// The file under the name was written without Mainstay.
    pub is_foreign: bool,
    pub is_missing: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Generation {
    pub number: u64,
    pub bytes: u64,
    pub modified: SystemTime,
    /// The name stands for this generation.
    pub is_current: bool,
}

/// The files in `folder` that have generations, by name.
pub fn list(folder: &Path) -> io::Result<Vec<NamedFile>> {
    let mut files: Vec<NamedFile> = Vec::new();
    let mut kept = all(folder)?;
    kept.iter_mut().for_each(|(name, _)| *name = whole_name(folder, name));
    kept.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    for (name, number) in kept {
        let Ok(found) = fs::symlink_metadata(data_path(folder, &name, number)) else { continue };
        if files.last().is_none_or(|file| file.name != name) {
            let is_missing = fs::symlink_metadata(folder.join(&name)).is_err();
            let is_foreign = !is_missing && current(folder, &name)?.is_none();
            files.push(NamedFile { name: name.clone(), generations: Vec::new(), is_foreign, is_missing });
        }
        let is_current = identity(&folder.join(&name)) == Some((found.dev(), found.ino()));
        let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let file = files.last_mut().unwrap_or_else(|| unreachable!("one was added above"));
        file.generations.push(Generation { number, bytes: found.len(), modified, is_current });
    }
    Ok(files)
}

/// Puts a kept generation under the name, if it is undamaged.
pub fn restore(folder: &Path, name: &OsStr, generation: u64) -> io::Result<()> {
    if !data_path(folder, name, generation).exists() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such generation"));
    }
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    match verify(folder, name, generation) {
        Verdict::Good => {}
        Verdict::Damaged => return refused("it is damaged"),
        Verdict::Changed => return refused("another program has changed it"),
    }
    if current(folder, name)? == Some(generation) {
        return Ok(());
    }
    let mut link = OsString::from("restored-");
    link.push(short(name));
    let link = beside(folder, "writing")?.join(OsString::from_vec(link.into_vec()));
    let _ = fs::remove_file(&link);
    fs::hard_link(data_path(folder, name, generation), &link)?;
    fs::rename(&link, folder.join(name))?;
    sync_folder(folder)
}

/// Keeps the bytes of a torn file in `.mainstay/torn`, where the user can look at them.
pub fn keep_torn(folder: &Path, name: &OsStr, staged: &Path) -> io::Result<()> {
    let torn = beside(folder, "torn")?.join(short(name));
    fs::copy(staged, torn).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_another_user_can_change_is_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join(BESIDE);
        assert!(beside(folder.path(), "kept").is_ok() && list(folder.path()).is_ok());
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(beside(folder.path(), "kept").is_err() && list(folder.path()).is_err());
        fs::remove_dir_all(&own).unwrap();
        symlink("/tmp", &own).unwrap();
        assert!(beside(folder.path(), "kept").is_err() && list(folder.path()).is_err());
    }

    #[test]
    fn a_kept_name_is_parsed_and_a_strange_one_is_not() {
        assert_eq!(parse(OsStr::new("restart.g1.g12")), Some((OsStr::new("restart.g1"), 12)));
        for strange in
            ["restart", "restart.g", "restart.g01", "restart.gx", "restart.g1.hashes", "restart.g99999999999999999999"]
        {
            assert_eq!(parse(OsStr::new(strange)), None, "{strange}");
        }
    }
}

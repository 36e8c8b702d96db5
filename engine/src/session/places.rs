//! Where the levels of a session lie, by the settings. The space that is opened is the farthest level. A file in it
//! holds the id by which the memory level is named, so that a space that was removed and made anew gets nothing of the
//! old one.

use super::level::{LevelKind, LevelPlan};
use crate::{
    config::{Config, LevelPlace},
    device::{Device, Disk},
    error::{Error, Result},
    group::{Group, agree},
    space::{LEVELS_FILE, draw_id, format::hash, is_of_space},
};
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::Path,
    sync::Arc,
};

const NOTE_BEGINS: &str = "id = \"";
const NOTE_BYTES_MAX: u64 = 4 << 10;
/// How the name of a memory level's directory begins, in the directory of the pools.
const IN_MEMORY: &str = "mainstay-level-";

/// The levels that `config` asks for, nearest first; the last one is the space in `path`. Collective.
pub(super) fn plans(group: &dyn Group, path: &Path, config: &Config) -> Result<Vec<LevelPlan>> {
    agree(group, config.check())?;
    check_levels_alike(group, config)?;
    let space = agree(group, Disk::make(path))?;
    let mut plans = Vec::new();
    if config.memory != LevelPlace::Off {
        let directory = match &config.memory {
            LevelPlace::At(directory) => directory.clone(),
            _ => config.pool_directory.join(format!("{IN_MEMORY}{}{}", noted_id(group, path)?, label())),
        };
        let memory = agree(group, make_own(&directory).and_then(|()| Disk::make(&directory)))?;
        plans.push(LevelPlan { kind: LevelKind::Memory, device: Arc::new(memory), every: 1, keep: config.memory_keep });
    }
    if let LevelPlace::At(directory) = &config.disk {
        let disk = agree(group, Disk::make(directory))?;
        let (every, keep) = (config.disk_every, config.disk_keep);
        plans.push(LevelPlan { kind: LevelKind::Disk, device: Arc::new(disk), every, keep });
    }
    let every = if plans.is_empty() { 1 } else { config.pfs_every };
    plans.push(LevelPlan { kind: LevelKind::Pfs, device: Arc::new(space), every, keep: config.keep });
    Ok(plans)
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
fn label() -> String {
    let label = std::env::var_os("MAINSTAY_NODE").unwrap_or_default();
    if label.is_empty() { String::new() } else { format!("-{}", hex(&hash(label.as_bytes())[..4])) }
}

/// The id by which the memory level of the space in `path` is known; rank 0 makes one if there is none. Collective.
fn noted_id(group: &dyn Group, path: &Path) -> Result<String> {
    let noted = if group.rank() == 0 { note(&path.join(LEVELS_FILE)).map(String::into_bytes) } else { Ok(Vec::new()) };
    let mut id = agree(group, noted)?;
    id.resize(32, 0);
    group.broadcast(0, &mut id)?;
    String::from_utf8(id).map_err(|_| Error::GroupFailed { what: "an id that is no text".to_owned() })
}

fn note(path: &Path) -> Result<String> {
    let id = hex(&draw_id()?);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path);
    match made {
        Ok(mut file) => {
            let written = file.write_all(format!("{NOTE_BEGINS}{id}\"\n").as_bytes()).and_then(|()| file.sync_all());
            written.map_err(|e| Error::io("writing", path.display().to_string(), e))?;
            Ok(id)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read_note(path),
        Err(error) => Err(Error::io("making", path.display().to_string(), error)),
    }
}

fn read_note(path: &Path) -> Result<String> {
    let mut text = String::new();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let read = file.and_then(|file| file.take(NOTE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|e| Error::io("reading", path.display().to_string(), e))?;
    let id = text.strip_prefix(NOTE_BEGINS).and_then(|rest| rest.get(..32));
    let id = id.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));
    id.map(str::to_owned).ok_or_else(|| {
        let what = format!(
            "{}: it does not begin with an id; remove it, and the job begins with an empty level in memory",
            path.display()
        );
        Error::Damaged { what: vec![what] }
    })
}

/// Makes a directory of this user alone, or checks that the one that is there is such.
fn make_own(directory: &Path) -> Result<()> {
    let failed = |doing, e| Error::io(doing, directory.display().to_string(), e);
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed("making", e)),
        _ => {}
    }
    let found = fs::symlink_metadata(directory).map_err(|e| failed("looking at", e))?;
    let own = nix::unistd::geteuid().as_raw();
    if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
        let why = format!("{} is not a directory of this user alone (mode 700)", directory.display());
        return Err(Error::argument("memory", why));
    }
    Ok(())
}

/// Removes the files of a level in memory, and its directory if nothing else lies there: a job that ends in order
/// leaves nothing of it. Files that cannot be removed stay, and are in nobody's way.
pub(super) fn remove(device: &dyn Device) {
    let names = device.list().unwrap_or_default();
    names.iter().filter(|name| is_of_space(name)).for_each(|name| drop(device.remove(name)));
    let _ = fs::remove_dir(device.directory());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! The visible places of a space's revisions on this node: the space itself, and the directories of the levels before
//! it and of their copies.
//!
//! Invariant: only directories that belong to the space's owner, and that no other user can write, count.

use crate::{
    error::Error,
    ground::files,
    printable::printable_path,
    space::{LevelKind, LevelsNote, copy_in},
};
use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A directory with revisions of a space.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub level: LevelKind,
    /// 0: the level itself; from 1 on its copies, which are with ranks on other nodes.
    pub copy: u32,
    pub directory: PathBuf,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.copy {
            0 => f.write_str(self.level.name()),
            copy => write!(f, "{}, copy {copy}", self.level.name()),
        }
    }
}

/// All visible places of a space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The nearest level first, the space itself last.
    pub all: Vec<Place>,
    /// The places that could not be read.
    pub unseen: Vec<String>,
}

impl Places {
    /// The places of the space in the directory `space`, which need not exist.
    pub fn of(space: &Path) -> Places {
        let mut places = Places { all: Vec::new(), unseen: Vec::new() };
        match LevelsNote::of_space(space) {
            Ok(Some(note)) => places.find(space, &note),
            Ok(None) => {}
            Err(Error::Damaged { what }) => places.unseen.extend(what),
            Err(error) => places.unseen.push(error.to_string()),
        }
        places.all.sort();
        places.all.push(Place { level: LevelKind::Pfs, copy: 0, directory: space.to_owned() });
        places
    }

    fn find(&mut self, space: &Path, note: &LevelsNote) {
        let Ok(owner) = fs::metadata(space).map(|found| found.uid()) else { return };
        for (level, within) in note.within.iter().flat_map(|(level, all)| all.iter().map(move |within| (level, within)))
        {
            let names = match files::entries(within) {
                Ok(entries) => entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()),
                // It may be on another node.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => {
                    self.unseen.push(format!("{}: {e}", printable_path(within)));
                    continue;
                }
            };
            for (name, copy) in names.filter_map(|name| copy_in(&name, &note.id).map(|copy| (name, copy))) {
                let directory = within.join(name);
                match fs::symlink_metadata(&directory) {
                    Ok(found) if found.is_dir() && found.uid() == owner && found.mode() & 0o022 == 0 => {
                        self.all.push(Place { level: *level, copy, directory });
                    }
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    _ => {
                        let why = "it does not belong to the space's owner alone";
                        self.unseen.push(format!("{}: {why}", printable_path(&directory)));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{LEVELS_FILE, level_directory};
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt};

    #[test]
    fn directories_of_the_owner_alone_are_in_sight() {
        let folder = tempfile::tempdir().unwrap();
        let (space, shm) = (folder.path().join("space"), folder.path().join("shm"));
        let (id, other) = ("0".repeat(32), "1".repeat(32));
        let names = [
            (level_directory(&id, 0, None), 0o700),
            (level_directory(&id, 1, Some(5)), 0o700),
            (level_directory(&id, 0, Some(6)), 0o777),
            (level_directory(&other, 0, None), 0o700),
        ];
        for (name, mode) in &names {
            fs::create_dir_all(shm.join(name)).unwrap();
            fs::set_permissions(shm.join(name), fs::Permissions::from_mode(*mode)).unwrap();
        }
        std::os::unix::fs::symlink("/", shm.join(level_directory(&id, 2, None))).unwrap();
        let alone = vec![Place { level: LevelKind::Pfs, copy: 0, directory: space.clone() }];
        assert_eq!(Places::of(&space), Places { all: alone.clone(), unseen: Vec::new() });
        fs::create_dir(&space).unwrap();
        let gone = folder.path().join("gone");
        let within = BTreeMap::from([(LevelKind::Memory, vec![gone, shm.clone()])]);
        fs::write(space.join(LEVELS_FILE), LevelsNote { id, lineage: 3, within, back: Vec::new() }.text()).unwrap();
        let found = Places::of(&space);
        let of = |index: usize, copy| Place { level: LevelKind::Memory, copy, directory: shm.join(&names[index].0) };
        assert_eq!(found.all[..2], [of(0, 0), of(1, 1)]);
        assert_eq!((&found.all[2..], found.unseen.len()), (&alone[..], 2), "{found:?}");
        fs::write(space.join(LEVELS_FILE), "id = ").unwrap();
        assert_eq!((Places::of(&space).all, Places::of(&space).unseen.len()), (alone, 1));
    }
}

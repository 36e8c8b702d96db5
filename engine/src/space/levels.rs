//! The file `levels` in a space describes the levels before it: the id in the names of their directories, the highest
//! lineage on all of them, and the paths of the directories.
//!
//! Invariant: a job uses the first two lines and the rollbacks; the directories are for outside readers. All of it
//! is checked before use.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};
use toml::de::{DeArray, DeTable, DeValue};

/// Bytes of the file that are read, at most.
pub(crate) const NOTE_BYTES_MAX: u64 = 256 << 10;
const ID: &str = "id = \"";
const LINEAGE: &str = "lineage = ";
/// Start of the name of a level's directory, in the directory that the user gives for it.
pub(crate) const OF_A_SPACE: &str = "mainstay-level-";
const COPY: &str = "copy";
/// Hexadecimal digits of an id, and of a node's label.
const ID_DIGITS: usize = 32;
const LABEL_DIGITS: usize = 8;
/// The key of the rollbacks.
const BACK: &str = "back";
/// Maximum number of noted rollbacks: the newest of them.
const BACK_MAX: usize = 64;
/// Maximum number of noted directories.
const DIRECTORIES_MAX: usize = 64;
const PATH_BYTES_MAX: usize = 4096;
/// A higher lineage is refused: far above any real one, and far below the overflow of numbers.
const NUMBER_MAX: u64 = 1 << 62;

/// The kind of place of a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LevelKind {
    /// The memory of the nodes: files below /dev/shm.
    Memory,
    /// The disks of the nodes.
    Disk,
    /// The space that was opened: on the file system that all nodes share, or the only level. Messages call it `space`.
    #[default]
    Pfs,
}

impl LevelKind {
    /// All kinds, nearest first.
    pub const ALL: [LevelKind; 3] = [LevelKind::Memory, LevelKind::Disk, LevelKind::Pfs];

    /// The kind called `name`: memory, disk or space; pfs is an older name of the last. Otherwise `InvalidArgument`.
    pub fn named(name: &str) -> Result<LevelKind> {
        let found = Self::ALL.into_iter().find(|kind| [kind.name(), kind.key()].contains(&name));
        found.ok_or_else(|| Error::argument("level", format!("{name:?} is no level; give memory, disk or space")))
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            LevelKind::Pfs => "space",
            _ => self.key(),
        }
    }

    /// The name in files and in keys of settings.
    fn key(self) -> &'static str {
        match self {
            LevelKind::Memory => "memory",
            LevelKind::Disk => "disk",
            LevelKind::Pfs => "pfs",
        }
    }
}

/// A rollback. It also leaves out revisions that it cannot see: in the memory of nodes on which it was not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GoneBack {
    /// Lineage and number of the revision that became the newest.
    pub(crate) to: (u64, u64),
    /// The highest lineage at that time; later jobs have higher ones.
    pub(crate) until: u64,
}

impl GoneBack {
    /// Whether the rollback leaves out the revision, on any level.
    pub(crate) fn leaves_out(&self, lineage: u64, number: u64) -> bool {
        lineage <= self.until && (lineage, number) > self.to
    }
}

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LevelsNote {
    pub(crate) id: String,
    /// The highest lineage with which any of the levels was opened.
    pub(crate) lineage: u64,
    /// The directories of the levels: absolute paths, as the last job had them on all of its nodes.
    pub(crate) within: BTreeMap<LevelKind, Vec<PathBuf>>,
    /// The rollbacks, newest last.
    pub(crate) back: Vec<GoneBack>,
}

impl LevelsNote {
    /// Returns `None` if `text` does not say which levels belong to the space.
    pub(crate) fn parse(text: &str) -> Option<LevelsNote> {
        let mut lines = text.splitn(3, '\n');
        let id = lines.next()?.strip_prefix(ID)?.strip_suffix('"')?;
        let lineage = lines.next()?.strip_prefix(LINEAGE)?.parse().ok()?;
        let is_good = is_hex(id, ID_DIGITS) && lineage < NUMBER_MAX;
        let rest = lines.next().filter(|_| is_good).unwrap_or_default();
        let table = DeTable::parse(rest).map(|table| table.into_inner()).unwrap_or_default();
        let (within, back) = (directories(&table), rollbacks(&table));
        is_good.then(|| LevelsNote { id: id.to_owned(), lineage, within, back })
    }

    /// Notes a rollback to the revision with this lineage and number.
    pub(crate) fn go_back(&mut self, to: (u64, u64)) {
        let new = GoneBack { to, until: self.lineage };
        // The new rollback covers these as well.
        self.back.retain(|old| old.to < new.to);
        self.back.push(new);
        let more = self.back.len().saturating_sub(BACK_MAX);
        self.back.drain(..more);
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{ID}{}\"\n{LINEAGE}{}\n", self.id, self.lineage);
        for (level, directories) in &self.within {
            let mut line = String::new();
            for quoted in directories.iter().filter_map(|path| quoted(path)).take(DIRECTORIES_MAX) {
                let _ = write!(line, "{}{quoted}", if line.is_empty() { "" } else { ", " });
            }
            if text.len() + line.len() < NOTE_BYTES_MAX as usize / 2 {
                let _ = writeln!(text, "{} = [{line}]", level.key());
            }
        }
        if !self.back.is_empty() {
            let one = |GoneBack { to: (lineage, number), until }: &GoneBack| format!("[{lineage}, {number}, {until}]");
            let all: Vec<String> = self.back.iter().map(one).collect();
            let _ = writeln!(text, "{BACK} = [{}]", all.join(", "));
        }
        text
    }
}

/// The name of the directory of a level, or of a copy of it (from 1 on), that belongs to the space with this `id`.
/// `label`: for ranks that are configured as nodes of their own.
pub(crate) fn level_directory(id: &str, copy: u32, label: Option<u32>) -> String {
    let copy = if copy == 0 { String::new() } else { format!("-{COPY}{copy}") };
    let label = label.map(|label| format!("-{label:08x}")).unwrap_or_default();
    format!("{OF_A_SPACE}{id}{copy}{label}")
}

/// The id of the space that the level in `directory` belongs to; `None` if it is no level's directory.
pub(crate) fn space_of_level(directory: &Path) -> Option<[u8; ID_DIGITS / 2]> {
    let name = directory.file_name()?.to_str()?;
    let id = name.strip_prefix(OF_A_SPACE)?.get(..ID_DIGITS).filter(|id| is_hex(id, ID_DIGITS))?;
    copy_in(name, id)?;
    u128::from_str_radix(id, 16).ok().map(u128::to_be_bytes)
}

/// The name `name` of a level's directory without the copy's number; `None` if it is no level's directory.
pub(crate) fn without_copy(name: &str) -> Option<String> {
    let id = name.strip_prefix(OF_A_SPACE)?.get(..ID_DIGITS)?;
    Some(name.replacen(&format!("-{COPY}{}", copy_in(name, id)?), "", 1))
}

/// The number of the copy in the directory `name`, 0 for the level itself; `None` if it does not belong to the space
/// with this `id`.
pub(crate) fn copy_in(name: &str, id: &str) -> Option<u32> {
    parts_of(name, id).map(|(copy, _)| copy)
}

/// The label, if any, of the node that made the directory `name`; outer `None` as for `copy_in`.
pub(crate) fn node_in(name: &str, id: &str) -> Option<Option<u32>> {
    parts_of(name, id).map(|(_, label)| label)
}

/// The copy and the label in a name made by `level_directory`.
fn parts_of(name: &str, id: &str) -> Option<(u32, Option<u32>)> {
    let mut parts = name.strip_prefix(OF_A_SPACE)?.strip_prefix(id)?.split('-');
    if parts.next() != Some("") {
        return None;
    }
    let mut rest: Vec<&str> = parts.collect();
    let of_copy = |part: &&str| part.strip_prefix(COPY)?.parse::<u32>().ok().filter(|copy| *copy > 0);
    let copy = rest.first().and_then(of_copy);
    if copy.is_some() {
        rest.remove(0);
    }
    match &rest[..] {
        [] => Some((copy.unwrap_or(0), None)),
        [label] if is_hex(label, LABEL_DIGITS) => Some((copy.unwrap_or(0), u32::from_str_radix(label, 16).ok())),
        _ => None,
    }
}

/// The directories named below the first two lines; unreadable lines name none.
fn directories(table: &DeTable<'_>) -> BTreeMap<LevelKind, Vec<PathBuf>> {
    let of_level = |level: LevelKind| {
        let DeValue::Array(named) = table.get(level.name())?.get_ref() else { return None };
        let path = |value: &DeValue<'_>| match value {
            DeValue::String(text) if is_usable(Path::new(&**text)) => Some(PathBuf::from(&**text)),
            _ => None,
        };
        let paths = named.iter().take(DIRECTORIES_MAX).filter_map(|value| path(value.get_ref()));
        Some((level, paths.collect()))
    };
    [LevelKind::Memory, LevelKind::Disk].into_iter().filter_map(of_level).collect()
}

/// The rollbacks named below the first two lines; unreadable ones are skipped.
fn rollbacks(table: &DeTable<'_>) -> Vec<GoneBack> {
    let Some(all) = table.get(BACK).and_then(|value| value.get_ref().as_array()) else { return Vec::new() };
    let numbers = |one: &DeArray<'_>| -> Option<Vec<u64>> {
        let number = |value: &DeValue<'_>| {
            let number = value.as_integer()?;
            u64::from_str_radix(number.as_str(), number.radix()).ok().filter(|number| *number < NUMBER_MAX)
        };
        one.iter().map(|value| number(value.get_ref())).collect()
    };
    let gone_back = |value: &DeValue<'_>| match numbers(value.as_array()?)?[..] {
        [lineage, number, until] => Some(GoneBack { to: (lineage, number), until }),
        _ => None,
    };
    all.iter().take(BACK_MAX).filter_map(|value| gone_back(value.get_ref())).collect()
}

fn is_usable(path: &Path) -> bool {
    path.is_absolute() && path.as_os_str().len() <= PATH_BYTES_MAX
}

/// The path as a TOML string; `None` if it cannot be noted.
fn quoted(path: &Path) -> Option<String> {
    let mut quoted = String::from("\"");
    for c in path.to_str().filter(|_| is_usable(path))?.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => drop(write!(quoted, "\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    Some(quoted + "\"")
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn what_was_noted_is_read() {
        let odd = PathBuf::from("/dev/shm/a \"b\\c\n\u{7f}ö");
        let within = BTreeMap::from([
            (LevelKind::Memory, vec!["/dev/shm".into(), odd]),
            (LevelKind::Disk, vec!["/local/run".into()]),
        ]);
        let back = vec![GoneBack { to: (1, 4), until: 3 }, GoneBack { to: (4, 6), until: 5 }];
        let note = LevelsNote { id: ID.to_owned(), lineage: 7, within, back };
        assert_eq!(LevelsNote::parse(&note.text()), Some(note.clone()));
        // As written by builds that noted no directories.
        let old = format!("id = \"{ID}\"\nlineage = 7\n");
        assert_eq!(LevelsNote::parse(&old), Some(LevelsNote { within: BTreeMap::new(), back: Vec::new(), ..note }));
    }

    #[test]
    fn a_rollback_leaves_out_what_was_newer_and_nothing_that_is_saved_later() {
        let mut note = LevelsNote { id: ID.to_owned(), lineage: 3, within: BTreeMap::new(), back: Vec::new() };
        note.go_back((1, 4));
        let out = |note: &LevelsNote, lineage, number| note.back.iter().any(|back| back.leaves_out(lineage, number));
        assert!(out(&note, 1, 5) && out(&note, 2, 1) && out(&note, 3, 9));
        assert!(!out(&note, 1, 4) && !out(&note, 1, 3) && !out(&note, 4, 1));
        // After later rollbacks, revisions that were left out before still are.
        note.lineage = 5;
        note.go_back((4, 6));
        assert!(out(&note, 4, 7) && out(&note, 3, 9) && !out(&note, 4, 6) && !out(&note, 6, 1));
        note.go_back((1, 2));
        assert_eq!(note.back, [GoneBack { to: (1, 2), until: 5 }]);
        note.lineage = 1000;
        (0..500).for_each(|number| note.go_back((900, number)));
        assert!(LevelsNote::parse(&note.text()).unwrap().back.len() == BACK_MAX && out(&note, 900, 500));
    }

    #[test]
    fn nothing_that_was_read_is_believed() {
        for text in
            ["", "id = \"x\"\nlineage = 1\n", &format!("id = \"{ID}\"\n"), &format!("id = \"{ID}\"\nlineage = -1")]
        {
            assert_eq!(LevelsNote::parse(text), None, "{text}");
        }
        let many = format!("memory = [{}]", "\"/x\", ".repeat(1000));
        let cases = [
            ("memory = [\"relative\", 7, \"/dev/shm\"]", 1),
            ("memory = \"/dev/shm\"", 0),
            ("memory = [\"/dev/shm", 0),
            ("pfs = [\"/dev/shm\"]", 0),
            (&many, DIRECTORIES_MAX),
        ];
        for (text, count) in cases {
            let note = LevelsNote::parse(&format!("id = \"{ID}\"\nlineage = 1\n{text}\n")).unwrap();
            assert_eq!(note.within.values().flatten().count(), count, "{text}");
        }
        for text in ["back = 7", "back = [7]", "back = [[1, 2]]", "back = [[1, 2, -3]]", "back = [[1, 2, \"3\"]]"] {
            let note = LevelsNote::parse(&format!("id = \"{ID}\"\nlineage = 1\n{text}\n")).unwrap();
            assert_eq!(note.back, [], "{text}");
        }
        let long = LevelsNote {
            id: ID.to_owned(),
            lineage: 1,
            back: Vec::new(),
            within: [(LevelKind::Disk, vec![PathBuf::from(format!("/{}", "x".repeat(5000))); 500])].into(),
        };
        assert!(long.text().len() < 200);
    }

    #[test]
    fn directories_tell_which_copy_they_hold() {
        for (copy, label) in [(0, None), (0, Some(7)), (1, None), (3, Some(u32::MAX))] {
            let name = level_directory(ID, copy, label);
            assert_eq!((copy_in(&name, ID), node_in(&name, ID)), (Some(copy), Some(label)));
            let id = space_of_level(&Path::new("/dev/shm").join(&name)).unwrap();
            assert_eq!((id[0], id[7], id[8], id[15]), (0x01, 0xef, 0x01, 0xef));
            assert_eq!(without_copy(&name), Some(level_directory(ID, 0, label)));
        }
        let begin = format!("mainstay-level-{ID}");
        for other in ["x", "-", "-0", "-copy0", "-copyx", "-copy1-copy2", "-copy1-0123456G", "-01234567-copy1"] {
            assert_eq!(copy_in(&format!("{begin}{other}"), ID), None, "{other}");
            assert_eq!(space_of_level(Path::new(&format!("{begin}{other}"))), None, "{other}");
        }
        assert_eq!(copy_in(&begin, &ID.replace('0', "1")), None);
        assert_eq!(without_copy("mainstay-pool-0"), None);
    }
}

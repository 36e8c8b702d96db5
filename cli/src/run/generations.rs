//! The newest generations of a job's restart files (`mainstay run --files`).

use crate::text;
use mainstay_engine::printable_path;
use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Newest {
    /// 0: the file system keeps no generations.
    generation: u64,
    /// Number of reports on the file. A generation may have the number of an older one that was removed.
    reports: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Generations {
    all: BTreeMap<PathBuf, Newest>,
    /// The job is to write restart files.
    are_expected: bool,
}

impl Generations {
    /// The reports of the job: path and generation.
    pub fn reported(reports: Vec<(PathBuf, u64)>, are_expected: bool) -> Generations {
        let mut all: BTreeMap<PathBuf, Newest> = BTreeMap::new();
        for (path, generation) in reports {
            let newest = all.entry(path).or_default();
            *newest = Newest { generation, reports: newest.reports + 1 };
        }
        Generations { all, are_expected }
    }

    pub fn are_expected(&self) -> bool {
        self.are_expected
    }

    /// A file that was found.
    pub fn add(&mut self, path: PathBuf, generation: u64) {
        self.all.entry(path).or_default().generation = generation;
    }

    /// The folders of the files.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let folders: Vec<PathBuf> = self.all.keys().filter_map(|path| path.parent()).map(Path::to_owned).collect();
        folders.into_iter()
    }

    /// Whether a file has a generation that it did not have `before`.
    pub fn are_beyond(&self, before: &Generations) -> bool {
        self.all.iter().any(|(path, newest)| before.all.get(path) != Some(newest))
    }

    /// No file is there.
    pub fn is_empty(&self) -> bool {
        self.newest().is_none()
    }

    /// Time of the last change of the newest file, in nanoseconds since 1970.
    pub fn saved_unix_ns(&self) -> Option<u64> {
        self.newest().map(|(at, ..)| at)
    }

    /// A line on the newest file, and its age.
    pub fn age(&self, now_unix_ns: u64) -> Option<String> {
        let age = text::age(now_unix_ns.saturating_sub(self.saved_unix_ns()?));
        let others = self.others().map_or(String::new(), |of| format!(" {of}"));
        Some(format!("{}, written {age} ago, is the newest{others}", self.newest_file()?))
    }

    fn newest_file(&self) -> Option<String> {
        let (_, path, generation) = self.newest()?;
        let path = printable_path(path);
        Some(if generation > 0 { format!("generation {generation} of {path}") } else { path })
    }

    /// "of 64 files"
    fn others(&self) -> Option<String> {
        let count = self.all.keys().filter(|path| fs::symlink_metadata(path).is_ok()).count();
        (count > 1).then(|| format!("of {count} files"))
    }

    /// Its time, its path, and its generation.
    fn newest(&self) -> Option<(u64, &Path, u64)> {
        let time = |path: &Path| fs::symlink_metadata(path).ok()?.modified().ok();
        let unix_ns =
            |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let there =
            self.all.iter().filter_map(|(path, one)| Some((unix_ns(time(path)?), path.as_path(), one.generation)));
        there.max()
    }
}

impl fmt::Display for Generations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.newest_file(), self.others()) {
            (None, _) => f.write_str("no complete restart file"),
            (Some(file), None) => f.write_str(&file),
            (Some(file), Some(others)) => write!(f, "{file}, the newest {others}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_a_new_generation_and_a_new_report_are_progress_and_a_removed_file_is_none() {
        let at = |path: &str, generation| (PathBuf::from(path), generation);
        let all = |reports: &[(&str, u64)]| {
            Generations::reported(reports.iter().map(|(path, number)| at(path, *number)).collect(), true)
        };
        let before = all(&[("/a", 1), ("/b", 4)]);
        assert!(all(&[("/a", 1), ("/b", 5)]).are_beyond(&before));
        assert!(all(&[("/a", 1), ("/b", 4), ("/c", 1)]).are_beyond(&before));
        assert!(all(&[("/a", 1), ("/a", 1), ("/b", 4)]).are_beyond(&before));
        assert!(!all(&[("/a", 1), ("/b", 4)]).are_beyond(&before) && !all(&[("/a", 1)]).are_beyond(&before));
        let mut found = before.clone();
        found.add("/b".into(), 6);
        assert!(found.are_beyond(&before));
    }

    #[test]
    fn the_newest_file_stands_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        fs::write(&old, "").unwrap();
        let before = fs::metadata(&old).unwrap().modified().unwrap() - std::time::Duration::from_secs(10);
        fs::File::options().write(true).open(&old).unwrap().set_modified(before).unwrap();
        fs::write(&new, "").unwrap();
        let all =
            Generations::reported(vec![(new.clone(), 0), (old.clone(), 7), (folder.path().join("gone"), 9)], true);
        assert_eq!(all.to_string(), format!("{}, the newest of 2 files", new.display()));
        fs::remove_file(new).unwrap();
        assert_eq!(all.to_string(), format!("generation 7 of {}", old.display()));
        fs::remove_file(old).unwrap();
        assert!(all.is_empty());
    }
}

//! The contents of the file `status`, as JSON.

use super::{
    Saved,
    bounds::{NUMBER_MAX, RANKS_MAX, SHARDS_MAX, TEXT_BYTES_MAX},
    recovery::Recovery,
};
use crate::{
    error::{Error, Result},
    ground::files::read_within,
    printable::{is_seen, printable_path},
    space::{LevelKind, STATUS_FILE},
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
};

const VERSION: u32 = 1;
const FILE_BYTES_MAX: u64 = 64 << 20;
const LEVELS_MAX: usize = 16;
const REVISIONS_MAX: usize = 1 << 16;
/// Number of recoveries of a job in the file, the newest.
pub(crate) const RECOVERIES_MAX: usize = 100;

/// The state of a job, as the job reported it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// The job's identity, and the directories of its levels.
    pub job: Job,
    #[serde(flatten)]
    pub progress: JobProgress,
}

/// The facts that change while a job runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProgress {
    pub told_unix_ns: u64,
    /// The lineage under which the job saves.
    pub lineage: u64,
    /// The job has closed the session.
    pub ended: bool,
    /// Data that the last restore could not bring back.
    pub lost: Vec<String>,
    /// Number of times that the job went on after a failure without a new start.
    #[serde(default)]
    pub recovered: u64,
    /// The last of these recoveries, newest last.
    #[serde(default)]
    pub recoveries: Vec<Recovery>,
    /// Number of times that `due` has put off a checkpoint because the previous one was still in progress, since the
    /// job began.
    #[serde(default)]
    pub put_off: u64,
    /// Nearest first.
    pub levels: Vec<LevelStatus>,
}

/// A job, as it opened the space.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Host of rank 0.
    pub host: String,
    pub pid: u32,
    pub opened_unix_ns: u64,
    pub ranks: u32,
    /// In the order of their lowest ranks.
    pub nodes: Vec<Node>,
    /// Nearest level first.
    pub places: Vec<PlaceOfLevel>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    pub host: String,
    /// The first rank, and the one after the last, of each stretch.
    pub ranks: Vec<(u32, u32)>,
}

/// The place of a level, and the revisions that it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceOfLevel {
    pub level: LevelKind,
    /// The directories on any node; as messages print them.
    pub directories: Vec<String>,
    pub every: u32,
    pub keep: u32,
    /// The data there is visible to all nodes, and survives the loss of one.
    pub outlives_nodes: bool,
    /// For each copy on other nodes, the rank that holds it, by the owner's rank.
    #[serde(default)]
    pub holders: Vec<Vec<u32>>,
}

/// The contents of a level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelStatus {
    /// The complete revisions, newest first.
    pub complete: Vec<Saved>,
    /// The copies on other nodes, each with its complete revisions, newest first.
    #[serde(default)]
    pub copies: Vec<CopyStatus>,
    /// The number of the revision in progress.
    pub under_way: Option<u64>,
    /// Number of times that the level was busy at its turn.
    pub passed_over: u64,
    /// The numbers of the revisions that it lacks for that reason, newest last; of many, only the newest.
    #[serde(default)]
    pub lacks: Vec<u64>,
    pub failures: Failures,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyStatus {
    pub complete: Vec<Saved>,
    /// As for the level.
    #[serde(default)]
    pub lacks: Vec<u64>,
}

/// Revisions that were not saved, since the last success.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    pub in_a_row: u64,
    /// Why the last one failed.
    pub why: String,
}

/// The file as written.
#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    #[serde(flatten)]
    progress: &'a JobProgress,
    job: &'a Job,
}

/// The part that a newer version has as well.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Status {
    pub(crate) fn bytes(job: &Job, progress: &JobProgress) -> Vec<u8> {
        // It contains only numbers and texts, which JSON can represent.
        serde_json::to_vec(&Written { version: VERSION, progress, job }).unwrap_or_default()
    }

    /// The status in `directory`; `None` if there is none. `NewerVersion` and `Damaged` if it is unusable, `Io` if it
    /// cannot be read.
    pub fn read(directory: &Path) -> Result<Option<Status>> {
        let path = directory.join(STATUS_FILE);
        let bytes = match read_within(&path, FILE_BYTES_MAX) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|e| Error::io("reading", printable_path(&path), e))?,
        };
        let path = printable_path(&path);
        match serde_json::from_slice::<Versioned>(&bytes) {
            Ok(Versioned { version }) if version > VERSION => {
                let hint = "use `mainstay status` of that version, or of a newer one".to_owned();
                Err(Error::NewerVersion { path, found: version, known: VERSION, hint })
            }
            _ => Self::parse(&bytes).map(Some).map_err(|why| {
                let what = format!("{path}: it is no valid status ({why}); the job will write it again");
                Error::Unreadable { what: vec![what] }
            }),
        }
    }

    /// The last status of the newest job in any of the `directories`; unreadable ones are skipped.
    pub(crate) fn newest_in(directories: &[PathBuf]) -> Option<Status> {
        let found = directories.iter().filter_map(|path| Status::read(path).ok()?);
        found.max_by_key(|status| (status.progress.lineage, status.progress.told_unix_ns))
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Status, String> {
        let status: Status = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        match status.damage() {
            None => Ok(status),
            Some(what) => Err(format!("impossible value: {what}")),
        }
    }

    /// An impossible value in it, if any: the file may come from anyone.
    fn damage(&self) -> Option<&'static str> {
        let Status { job, progress } = self;
        let levels = job.places.len();
        let texts = job.nodes.iter().flat_map(|node| [&node.name, &node.host]);
        let texts = texts.chain(job.places.iter().flat_map(|place| &place.directories)).chain([&job.host]);
        let mut texts = texts.chain(&progress.lost).chain(progress.levels.iter().map(|level| &level.failures.why));
        let lists = progress.levels.iter().flat_map(|level| {
            let copies = level.copies.iter().map(|copy| &copy.complete);
            copies.chain([&level.complete])
        });
        let revisions: usize = lists.clone().map(Vec::len).sum();
        let is_newest_first = |list: &Vec<Saved>| {
            list.len() <= REVISIONS_MAX
                && list.iter().all(Saved::is_in_bounds)
                && list.is_sorted_by(|a, b| a.key() > b.key())
        };
        let holders = |place: &PlaceOfLevel| {
            let all_ranks = |holders: &Vec<u32>| {
                holders.len() == job.ranks as usize && holders.iter().all(|holder| *holder < job.ranks)
            };
            place.holders.iter().all(all_ranks)
        };
        let what = if job.ranks == 0 || job.ranks > RANKS_MAX {
            "the number of ranks"
        } else if !are_of_nodes(&job.nodes, job.ranks) {
            "the nodes"
        } else if !(1..=LEVELS_MAX).contains(&levels) || levels != progress.levels.len() {
            "the number of levels"
        } else if !job.places.iter().all(holders) {
            "the holders"
        } else if !job
            .places
            .iter()
            .zip(&progress.levels)
            .all(|(place, level)| place.holders.len() == level.copies.len())
        {
            "the number of copies"
        } else if !lists.into_iter().all(is_newest_first) {
            "a list of revisions"
        } else if revisions as u64 * u64::from(job.ranks) > SHARDS_MAX {
            "the revisions of so many ranks"
        } else if progress.levels.iter().any(|level| {
            let mut all = level.copies.iter().map(|copy| &copy.lacks).chain([&level.lacks]);
            all.any(|lacks| lacks.len() > REVISIONS_MAX || lacks.iter().any(|number| *number >= NUMBER_MAX))
        }) {
            "the revisions that a level lacks"
        } else if progress.recoveries.len() > RECOVERIES_MAX || !progress.recoveries.iter().all(Recovery::is_sound) {
            "the recoveries"
        } else if texts.any(|text| text.len() > TEXT_BYTES_MAX || !text.chars().all(is_seen)) {
            "a text"
        } else {
            return None;
        };
        Some(what)
    }
}

/// Whether each rank is on one node at most.
fn are_of_nodes(nodes: &[Node], ranks: u32) -> bool {
    let mut all: Vec<(u32, u32)> = nodes.iter().flat_map(|node| node.ranks.iter().copied()).collect();
    all.sort_unstable();
    let mut end = 0;
    all.into_iter().all(|(from, below)| {
        let is_good = end <= from && from < below && below <= ranks;
        end = below;
        is_good
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;

    fn saved(revision: u64) -> Saved {
        Saved { lineage: 2, revision, saved_unix_ns: Some(revision) }
    }

    fn job() -> Job {
        let place = |level, outlives_nodes| PlaceOfLevel {
            level,
            directories: vec!["/somewhere".to_owned()],
            every: 1,
            keep: 2,
            outlives_nodes,
            holders: Vec::new(),
        };
        let node = |name: &str, ranks| Node { name: name.to_owned(), host: "host".to_owned(), ranks: vec![ranks] };
        Job {
            host: "host".to_owned(),
            pid: 7,
            opened_unix_ns: 5,
            ranks: 4,
            nodes: vec![node("n1", (0, 2)), node("n2", (2, 4))],
            places: vec![place(LevelKind::Memory, false), place(LevelKind::Pfs, true)],
        }
    }

    fn progress() -> JobProgress {
        let level = |revisions: &[u64]| LevelStatus {
            complete: revisions.iter().map(|revision| saved(*revision)).collect(),
            ..LevelStatus::default()
        };
        let recovery = Recovery { failed: vec![2], ranks_before: 4, ranks: 4, ..Recovery::default() };
        JobProgress {
            told_unix_ns: 9,
            lineage: 2,
            recovered: 1,
            recoveries: vec![recovery],
            levels: vec![level(&[12, 11]), level(&[10])],
            ..JobProgress::default()
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Status::read(folder.path()).unwrap(), None);
        fs::write(folder.path().join(STATUS_FILE), Status::bytes(&job(), &progress())).unwrap();
        assert_eq!(Status::read(folder.path()).unwrap(), Some(Status { job: job(), progress: progress() }));
    }

    #[test]
    fn what_cannot_be_so_is_refused() {
        let good: Value = serde_json::from_slice(&Status::bytes(&job(), &progress())).unwrap();
        assert!(Status::parse(good.to_string().as_bytes()).is_ok());
        let cases = [
            ("/job/ranks", json!(0)),
            ("/job/ranks", json!(u32::MAX)),
            ("/job/ranks", json!(-1)),
            ("/job/nodes/1/ranks", json!([[1, 4]])),
            ("/job/nodes/1/ranks", json!([[2, 5]])),
            ("/job/nodes/1/ranks", json!([[3, 2]])),
            ("/job/places", json!([])),
            ("/job/places/0/level", json!("tape")),
            ("/job/places/0/holders", json!([[1, 2, 3, 4]])),
            ("/job/places/0/holders", json!([[1, 2, 3]])),
            ("/job/places/0/holders", json!([[1, 2, 3, 0]])),
            ("/levels", json!([])),
            ("/levels/0/complete/0/revision", json!(3)),
            ("/levels/0/complete/0/lineage", json!(u64::MAX)),
            ("/levels/0/failures/why", json!("x".repeat(TEXT_BYTES_MAX + 1))),
            ("/recoveries/0/failed", json!([4])),
            ("/recoveries/0/way", json!("magic")),
            ("/recoveries/0/lost", json!(["\u{7}"])),
            ("/lost", json!([["x"]])),
            ("/lost", json!(["a\nb"])),
            ("/job/nodes/0/name", json!("\u{1b}[31m")),
        ];
        for (field, value) in cases {
            let mut changed = good.clone();
            *changed.pointer_mut(field).unwrap() = value;
            assert!(Status::parse(changed.to_string().as_bytes()).is_err(), "{field}");
        }
        // A few bytes that would each cost a gigabyte to process.
        let many = Job { ranks: RANKS_MAX, nodes: Vec::new(), ..job() };
        for (newest, is_good) in [(2, true), (100, false)] {
            let complete: Vec<Saved> = (1..=newest).rev().map(saved).collect();
            let level = LevelStatus { complete, ..LevelStatus::default() };
            let progress = JobProgress { levels: vec![level; 2], ..progress() };
            assert_eq!(Status::parse(&Status::bytes(&many, &progress)).is_ok(), is_good, "{newest} revisions");
        }
        let text = good.to_string();
        for end in 0..text.len() {
            assert!(Status::parse(&text.as_bytes()[..end]).is_err());
        }
        assert!(Status::parse("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn a_newer_version_a_link_and_a_pipe_are_no_status() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(STATUS_FILE);
        fs::write(&path, "{\"version\": 2, \"other\": 1}").unwrap();
        assert!(matches!(Status::read(folder.path()), Err(Error::NewerVersion { found: 2, .. })));
        fs::write(&path, "").unwrap();
        assert!(matches!(Status::read(folder.path()), Err(Error::Unreadable { .. })));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert_eq!(Status::read(folder.path()).unwrap(), None);
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(Status::read(folder.path()).unwrap(), None);
    }
}

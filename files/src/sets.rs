//! Sets: files that become whole together, one for each rank and perhaps one for all.
//!
//! Each helper brings the members of its node to the target's file system, and leaves a mark for each in a folder of the
//! set. Whoever finds all marks writes the record `commit`, durably: from then on the set is whole. Each helper then gives
//! its members their names, and whoever finds the record of a killed job does so for all.
//!
//! ```text
//! .mainstay/sets/ROUND-JOB-STEM/member-NAME    the ID of the member: its bytes are durable
//! .mainstay/sets/ROUND-JOB-STEM/torn           a member was torn, so the set never becomes whole
//! .mainstay/sets/ROUND-JOB-STEM/commit         a line "ID NAME" for each member
//! ```
//! A round is one writing of each member by one job, so generations of two rounds never mix.

use crate::{
    file::{BESIDE, Named, check_beside},
    kept::{beside, sync_folder},
    options::Options,
    publish::{self, Parcel},
    stage::{Id, Record, names},
    writing::{drop_writing, writing_path},
};
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const LOOK: Duration = Duration::from_millis(20);
/// How long the last `mainstay files` of a node waits for the members of other nodes.
const OTHER_NODES_LIMIT: Duration = Duration::from_secs(60);
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// One round of a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Set {
    folder: PathBuf,
    path: PathBuf,
    expected: usize,
    on_nodes: bool,
}

/// The set that a file belongs to, if any.
pub fn set_of(record: &Record) -> Option<Set> {
    set_in_round(&record.named, &record.options, record.round)
}

fn set_in_round(named: &Named, options: &Options, round: u32) -> Option<Set> {
    let name = named.name().to_str()?;
    options.sets.iter().find_map(|pattern| {
        let words: Vec<&str> = pattern.split_whitespace().collect();
        let stem = words.iter().find_map(|word| stem(word, name))?;
        let alone = words.iter().filter(|word| !word.contains('*')).count();
        let counted = if alone == words.len() { 0 } else { options.count as usize };
        let folder = &named.folder;
        let path = folder.join(BESIDE).join("sets").join(format!("{round}-{}-{stem}", options.job));
        Some(Set { folder: folder.clone(), path, expected: alone + counted, on_nodes: options.nodes > 1 })
    })
}

/// The stem of `name` by a word such as `{}.base` or `{}.*`: the longest that fits.
fn stem<'a>(word: &str, name: &'a str) -> Option<&'a str> {
    let (before, after) = word.split_once("{}")?;
    let rest = name.strip_prefix(before)?;
    match after.split_once('*') {
        None => rest.strip_suffix(after),
        Some((between, end)) => {
            let rest = rest.strip_suffix(end)?;
            let at = if between.is_empty() { rest.len().checked_sub(1)? } else { rest.rfind(between)? };
            Some(&rest[..at])
        }
    }
    .filter(|stem| !stem.is_empty())
}

/// Brings a member to the target's file system, and leaves its mark.
pub fn bring(parcel: &Parcel, set: &Set) -> io::Result<()> {
    publish::bring(parcel)?;
    beside(&set.folder, "sets")?;
    fs::create_dir_all(&set.path)?;
    let mut mark = OsStr::new("member-").to_owned();
    mark.push(parcel.named.name());
    write_durably(&set.path.join(mark), format!("{}\n", parcel.id).as_bytes())?;
    sync_folder(&set.path)?;
    sync_folder(&set.folder.join(BESIDE).join("sets"))
}

/// The member was torn, so the set never becomes whole.
pub fn tear(record: &Record) {
    if let Some(set) = set_of(record) {
        let _ = fs::create_dir_all(&set.path);
        let _ = fs::write(set.path.join("torn"), "");
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The marks of the members: name and ID.
fn members(path: &Path) -> io::Result<Vec<(String, Id)>> {
    let mut members = Vec::new();
    for file in names(path)? {
        if let Some(name) = file.strip_prefix("member-")
            && let Ok(text) = fs::read_to_string(path.join(&file))
        {
            members.extend(Id::from_text(text.trim_end()).map(|id| (name.to_owned(), id)));
        }
    }
    Ok(members)
}

/// Whether the record is there; writes it once all members are.
fn is_committed(set: &Set) -> io::Result<bool> {
    let record = set.path.join("commit");
    if record.exists() {
        return Ok(true);
    }
    let members = members(&set.path)?;
    if members.len() < set.expected {
        return Ok(false);
    }
    let text: String = members.iter().map(|(name, id)| format!("{id} {name}\n")).collect();
    let own = set.path.join(format!("commit-{}", std::process::id()));
    write_durably(&own, text.as_bytes())?;
    // Another node may have written the same record.
    match fs::hard_link(&own, &record) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(&own, &record)?,
        _ => fs::remove_file(&own)?,
    }
    sync_folder(&set.path)?;
    Ok(true)
}

/// Goes over the sets of killed jobs in a folder: completes those with a record, and drops the others.
pub fn replay(folder: &Path, job: &str) {
    if check_beside(folder).is_err() {
        return;
    }
    let sets = folder.join(BESIDE).join("sets");
    for name in names(&sets).unwrap_or_default() {
        let path = sets.join(&name);
        let is_own = name.split('-').nth(1) == Some(job);
        // The helpers of this job are at work on theirs.
        if is_own {
            continue;
        }
        if path.join("commit").exists() {
            let _ = complete(folder, &path);
        } else {
            for (_, id) in members(&path).unwrap_or_default() {
                drop_writing(folder, id);
            }
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Gives all members of the set of a staged file their names, if a killed helper has left its record. Returns their IDs.
/// They must leave the stage before the set is removed.
pub fn complete_own(record: &Record) -> Option<(Set, Vec<Id>)> {
    let set = set_of(record).filter(|set| !set.on_nodes && set.path.join("commit").exists())?;
    let ids = name_all(&set.folder, &set.path).ok()?;
    Some((set, ids))
}

impl Set {
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The round of each set of a job on this node, and the members that have been opened in it.
#[derive(Debug, Default)]
pub struct Rounds(HashMap<PathBuf, (u32, Vec<OsString>)>);

impl Rounds {
    /// A member of a killed helper.
    pub fn found(&mut self, record: &Record) {
        let Some(first) = set_in_round(&record.named, &record.options, 0) else { return };
        let (round, names) = self.0.entry(first.path).or_default();
        if record.round > *round {
            (*round, *names) = (record.round, Vec::new());
        }
        names.push(record.named.name().to_owned());
    }

    /// Another job with the same name may begin: no round goes on.
    pub fn end_all(&mut self) {
        self.0.values_mut().for_each(|(round, names)| (*round, *names) = (*round + 1, Vec::new()));
    }

    /// The round of a file that is opened now: a name that the round has already begins the next one.
    pub fn next(&mut self, named: &Named, options: &Options) -> u32 {
        let Some(first) = set_in_round(named, options, 0) else { return 0 };
        let (round, names) = self.0.entry(first.path.clone()).or_insert_with(|| {
            // Folders that a killed helper has left. Those of other nodes are of this round.
            let last = if first.on_nodes { 0 } else { last_round(&first.path) };
            (last + 1, Vec::new())
        });
        let is_over = |round| {
            set_in_round(named, options, round)
                .is_some_and(|set| ["commit", "torn"].iter().any(|mark| set.path.join(mark).exists()))
        };
        if names.iter().any(|name| name == named.name()) || (!first.on_nodes && is_over(*round)) {
            (*round, *names) = (*round + 1, Vec::new());
        }
        names.push(named.name().to_owned());
        *round
    }
}

/// The last round that has a folder, of the set that has the folder `first` in round 0.
fn last_round(first: &Path) -> u32 {
    let (Some(sets), Some(name)) = (first.parent(), first.file_name().and_then(OsStr::to_str)) else { return 0 };
    let rounds = names(sets).unwrap_or_default();
    let rounds = rounds.iter().filter_map(|one| one.strip_suffix(&name[1..])?.parse().ok());
    rounds.max().unwrap_or(0)
}

/// Gives all members of a record their names, and removes the set.
fn complete(folder: &Path, path: &Path) -> io::Result<()> {
    name_all(folder, path)?;
    fs::remove_dir_all(path)
}

fn name_all(folder: &Path, path: &Path) -> io::Result<Vec<Id>> {
    let mut ids = Vec::new();
    let record = path.join("commit");
    if fs::symlink_metadata(&record)?.len() > RECORD_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the record of a set is damaged"));
    }
    for line in fs::read_to_string(&record)?.lines() {
        let member = line.split_once(' ').and_then(|(id, name)| Some((Id::from_text(id)?, name)));
        let Some((id, name)) = member.filter(|(_, name)| !name.contains('/')) else { continue };
        publish::name(&Named::in_folder(folder, OsStr::from_bytes(name.as_bytes()))?, id, u32::MAX)?;
        ids.push(id);
    }
    Ok(ids)
}

/// The sets with members of this node that wait for others.
#[derive(Debug, Default)]
pub struct Sets(HashMap<Set, Waiting>);

#[derive(Debug)]
struct Waiting {
    members: Vec<(Id, Named, u32)>,
    since: Instant,
}

/// Sets that wait no longer.
#[derive(Debug, Default)]
pub struct Settled {
    pub whole: Vec<Whole>,
    /// The members of this node of sets that never will be whole.
    pub given_up: Vec<Id>,
}

/// The members of this node of a set with a record.
#[derive(Debug)]
pub struct Whole {
    members: Vec<(Id, Named, u32)>,
    pub set: Set,
}

impl Whole {
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.members.iter().map(|(id, ..)| *id)
    }

    /// Gives the members their names.
    pub fn name(&self) -> Vec<(Id, io::Result<()>)> {
        self.members.iter().map(|(id, named, keep)| (*id, publish::name(named, *id, *keep))).collect()
    }
}

impl Sets {
    /// A member of this node is durable.
    pub fn ready(&mut self, id: Id, record: &Record) {
        if let Some(set) = set_of(record) {
            let waiting = self.0.entry(set).or_insert_with(|| Waiting { members: Vec::new(), since: Instant::now() });
            waiting.members.push((id, record.named.clone(), record.options.keep));
        }
    }

    /// Takes out the sets that are whole, and those that never will be.
    pub fn settled(&mut self) -> Settled {
        let mut settled = Settled::default();
        self.0.retain(|set, waiting| {
            if set.path.join("torn").exists() && !set.path.join("commit").exists() {
                settled.given_up.extend(waiting.members.iter().map(|(id, ..)| *id));
                return false;
            }
            if !is_committed(set).unwrap_or(false) {
                return true;
            }
            let members = std::mem::take(&mut waiting.members);
            settled.whole.push(Whole { members, set: set.clone() });
            false
        });
        settled
    }

    pub fn next_look(&self) -> Option<Duration> {
        (!self.0.is_empty()).then_some(LOOK)
    }

    /// Whether members of other nodes may still come.
    pub fn is_moving(&self) -> bool {
        self.0.iter().any(|(set, waiting)| set.on_nodes && waiting.since.elapsed() < OTHER_NODES_LIMIT)
    }

    /// The members that still wait. They are forgotten here.
    pub fn all_waiting(&mut self) -> Vec<Id> {
        let all = self.0.drain();
        all.flat_map(|(set, waiting)| {
            let _ = fs::remove_dir_all(&set.path);
            waiting.members.into_iter().map(|(id, ..)| id)
        })
        .collect()
    }
}

/// Removes the folder of a set once each member has its name. By then those of this node have left the stage.
pub fn remove_if_done(set: &Set) {
    let is_named = |id| !writing_path(&set.folder, id).exists();
    if members(&set.path).is_ok_and(|members| members.into_iter().all(|(_, id)| is_named(id))) {
        set.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stem_is_the_longest_that_fits() {
        let cases = [
            ("{}.base", "restart.10.base", Some("restart.10")),
            ("{}.*", "restart.10.3", Some("restart.10")),
            ("{}.*.h5", "out.10.3.h5", Some("out.10")),
            ("rank{}_*", "rank7_0012", Some("7")),
            ("{}.*", "restart", None),
            ("{}.base", ".base", None),
            ("{}.base", "restart.0", None),
        ];
        for (word, name, expected) in cases {
            assert_eq!(stem(word, name), expected, "{word} {name}");
        }
    }
}

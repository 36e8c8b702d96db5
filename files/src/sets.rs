//! Sets: files that become whole together, one for each rank and perhaps one for all.
//!
//! Each helper copies the members of its node to the target's file system, and leaves a mark for each in the folder of the
//! set. A helper that finds all marks writes the record `commit`, durably: from then on the set is whole. Each helper then
//! gives its members their names. A helper that finds the record of a killed job gives all members their names.
//!
//! ```text
//! .mainstay/sets/ROUND-JOB-STEM/member-NAME    "ID" or "ID NAME" of the member: its bytes are durable
//! .mainstay/sets/ROUND-JOB-STEM/torn           a member was torn, so the set never becomes whole
//! .mainstay/sets/ROUND-JOB-STEM/commit         a line "ID NAME" for each member
//! ```
//! A round is one writing of each member by one job, so generations of two rounds never mix.

use crate::{
    file::{BESIDE, Named, check_beside, is_short, short},
    kept::{beside, sync_folder},
    options::Options,
    publish::{self, Parcel},
    stage::{Id, Record, names},
    writing::{drop_writing, writing_path},
};
use std::{
    collections::{BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const LOOK: Duration = Duration::from_millis(20);
/// Time that the last `mainstay files` of a node waits for members of other nodes.
const OTHER_NODES_LIMIT: Duration = Duration::from_secs(60);
/// In the name of a mark.
const MEMBER: &str = "member-";
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
        let mut own = OsString::from(format!("{round}-{}-", options.job));
        own.push(short(OsStr::new(stem)));
        let path = folder.join(BESIDE).join("sets").join(own);
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

/// Copies a member to the target's file system, and leaves its mark in one step. If a killed helper has left the mark,
/// writes nothing: other helpers may give the members their names at any moment.
pub fn bring(parcel: &Parcel, set: &Set) -> io::Result<()> {
    let name = parcel.named.name();
    if members(&set.path).is_ok_and(|members| members.iter().any(|(one, id)| **one == *name && *id == parcel.id)) {
        return Ok(());
    }
    publish::bring(parcel)?;
    beside(&set.folder, "sets")?;
    fs::create_dir_all(&set.path)?;
    let form = short(name);
    let [mark, new] = [MEMBER, "new-"].map(|before| set.part(before, name));
    let mut text = OsString::from(parcel.id.to_string());
    if is_short(&form) {
        text.push(" ");
        text.push(name);
    }
    text.push("\n");
    write_durably(&new, text.as_bytes())?;
    fs::rename(new, mark)?;
    sync_folder(&set.path)?;
    sync_folder(&set.folder.join(BESIDE).join("sets"))
}

/// Marks the set as torn: it never becomes whole.
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
        if let Some(name) = file.strip_prefix(MEMBER)
            && let Ok(text) = fs::read_to_string(path.join(&file))
        {
            // A mark of a long name has its form, not the name.
            let (id, name) = text.trim_end_matches('\n').split_once(' ').unwrap_or((text.trim_end(), name));
            members.extend(Id::from_text(id).map(|id| (name.to_owned(), id)));
        }
    }
    Ok(members)
}

/// Whether the record exists. Writes it if all members are there. `own`: a member of this node.
fn is_committed(set: &Set, own: Id) -> io::Result<bool> {
    let record = set.path.join("commit");
    if record.exists() {
        return Ok(true);
    }
    let members = members(&set.path)?;
    if members.len() < set.expected {
        return Ok(false);
    }
    let text: String = members.iter().map(|(name, id)| format!("{id} {name}\n")).collect();
    let own = set.path.join(format!("commit-{own}"));
    write_durably(&own, text.as_bytes())?;
    // Another node may have written the same record.
    match fs::hard_link(&own, &record) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(&own, &record)?,
        _ => fs::remove_file(&own)?,
    }
    sync_folder(&set.path)?;
    Ok(true)
}

/// The round, the job and the stem in the name of a set's folder.
fn parts(name: &str) -> Option<(u32, &str, &str)> {
    let mut parts = name.splitn(3, '-');
    Some((parts.next()?.parse().ok()?, parts.next()?, parts.next()?))
}

/// Completes the sets of killed jobs in a folder that have a record, and removes the others.
pub fn replay(folder: &Path, is_at_work: impl Fn(&str) -> bool) {
    if check_beside(folder).is_err() {
        return;
    }
    let sets = folder.join(BESIDE).join("sets");
    for name in names(&sets).unwrap_or_default() {
        let path = sets.join(&name);
        if parts(&name).is_some_and(|(_, job, _)| is_at_work(job)) {
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

/// Whether a newer round of the file's set is complete.
pub fn is_outdated(record: &Record, complete: &[Set]) -> bool {
    set_of(record).is_some_and(|set| complete.iter().any(|newer| set.is_older(newer)))
}

impl Set {
    fn round(&self) -> u32 {
        self.parts().map_or(0, |(round, ..)| round)
    }

    fn parts(&self) -> Option<(u32, &str, &str)> {
        parts(self.path.file_name()?.to_str()?)
    }

    /// Whether both sets have the same files, perhaps in different rounds.
    fn is_of_the_same_files(&self, other: &Set) -> bool {
        let files = |set: &Set| set.parts().map(|(_, job, stem)| (job.to_owned(), stem.to_owned()));
        self.folder == other.folder && files(self) == files(other)
    }

    /// A file of a member in the folder of the set.
    fn part(&self, before: &str, name: &OsStr) -> PathBuf {
        let mut file = OsString::from(before);
        file.push(short(name));
        self.path.join(file)
    }

    fn is_older(&self, other: &Set) -> bool {
        self.is_of_the_same_files(other) && self.round() < other.round()
    }

    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The round of each set of a job on this node, and the members that were opened in that round.
#[derive(Debug, Default)]
pub struct Rounds(HashMap<PathBuf, (u32, Vec<OsString>)>);

impl Rounds {
    /// Takes over a member of a killed helper.
    pub fn found(&mut self, record: &Record) {
        let Some(first) = set_in_round(&record.named, &record.options, 0) else { return };
        let (round, names) = self.0.entry(first.path).or_default();
        if record.round > *round {
            (*round, *names) = (record.round, Vec::new());
        }
        names.push(record.named.name().to_owned());
    }

    /// Ends all rounds of a job: another job with the same name may start.
    pub fn end(&mut self, job: &str) {
        for (path, (round, names)) in &mut self.0 {
            if job_of(path) == Some(job) {
                (*round, *names) = (*round + 1, Vec::new());
            }
        }
    }

    /// The folders of sets, with the jobs that have sets in them.
    pub fn folders(&self) -> BTreeSet<(PathBuf, String)> {
        let of = |path: &PathBuf| Some((path.parent()?.to_owned(), job_of(path)?.to_owned()));
        self.0.keys().filter_map(of).collect()
    }

    /// The round of a newly opened file. If the current round has the name already, the next round starts.
    pub fn next(&mut self, named: &Named, options: &Options) -> u32 {
        let Some(first) = set_in_round(named, options, 0) else { return 0 };
        let (round, names) = self.0.entry(first.path.clone()).or_insert_with(|| {
            // A killed helper may have left folders. Folders of other nodes belong to this round.
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

fn job_of(set: &Path) -> Option<&str> {
    parts(set.file_name()?.to_str()?).map(|(_, job, _)| job)
}

/// The last round with a folder. `first` is the folder of the same set in round 0.
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

/// The sets with members of this node.
#[derive(Debug, Default)]
pub struct Sets {
    /// Sets that wait for members.
    waiting: HashMap<Set, Waiting>,
    /// Sets whose members are getting their names.
    naming: Vec<Set>,
}

#[derive(Debug)]
struct Waiting {
    members: Vec<(Id, Named, u32)>,
    since: Instant,
}

/// Sets that have stopped waiting.
#[derive(Debug, Default)]
pub struct Settled {
    pub whole: Vec<Whole>,
    /// The members on this node of sets that never become whole.
    pub given_up: Vec<Id>,
}

/// The members on this node of a set with a record.
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
            let waiting =
                self.waiting.entry(set).or_insert_with(|| Waiting { members: Vec::new(), since: Instant::now() });
            waiting.members.push((id, record.named.clone(), record.options.keep));
        }
    }

    /// Takes out a member that gets another name.
    pub fn leave(&mut self, id: Id, record: &Record) {
        let Some(set) = set_of(record) else { return };
        if let Some(waiting) = self.waiting.get_mut(&set) {
            waiting.members.retain(|(one, ..)| *one != id);
            self.waiting.retain(|_, waiting| !waiting.members.is_empty());
        }
        let _ = fs::remove_file(set.part(MEMBER, record.named.name()));
        let _ = fs::remove_dir(&set.path);
    }

    /// Takes out the sets that are whole, and those that never become whole.
    pub fn settled(&mut self) -> Settled {
        let mut settled = Settled::default();
        let mut sets: Vec<Set> = self.waiting.keys().cloned().collect();
        sets.sort_by_key(Set::round);
        for set in sets {
            // The helper of a later job has completed or removed it.
            let is_gone = !set.path.exists();
            if is_gone || (set.path.join("torn").exists() && !set.path.join("commit").exists()) {
                let waiting = self.waiting.remove(&set);
                settled.given_up.extend(waiting.into_iter().flat_map(|waiting| waiting.members).map(|(id, ..)| id));
                continue;
            }
            // Two threads would give the names in any order.
            let first = self.waiting.get(&set).and_then(|waiting| waiting.members.first()).map(|(id, ..)| *id);
            let Some(id) = first.filter(|_| !self.naming.iter().any(|one| one.is_older(&set))) else { continue };
            if is_committed(&set, id).unwrap_or(false)
                && let Some(waiting) = self.waiting.remove(&set)
            {
                self.naming.push(set.clone());
                settled.whole.push(Whole { members: waiting.members, set });
            }
        }
        settled
    }

    /// The members of older rounds than `set`, which are forgotten here: they would hide the files of the newer one.
    pub fn take_outdated(&mut self, set: &Set) -> Vec<Id> {
        let older = self.waiting.extract_if(|one, _| one.is_older(set));
        older
            .flat_map(|(set, waiting)| {
                set.remove();
                waiting.members.into_iter().map(|(id, ..)| id)
            })
            .collect()
    }

    /// The members of this node have their names.
    pub fn named(&mut self, set: &Set) {
        self.naming.retain(|one| one != set);
    }

    pub fn next_look(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(LOOK)
    }

    /// Whether members of other nodes may still come, for jobs that matter.
    pub fn is_moving(&self, matters: impl Fn(&str) -> bool) -> bool {
        let may_come = |waiting: &Waiting| waiting.since.elapsed() < OTHER_NODES_LIMIT;
        let mut waiting = self.waiting.iter().filter(|(set, _)| job_of(&set.path).is_some_and(&matters));
        waiting.any(|(set, waiting)| set.on_nodes && may_come(waiting))
    }

    /// Takes out the members of a job that still wait.
    pub fn waiting_of(&mut self, job: &str) -> Vec<Id> {
        let all = self.waiting.extract_if(|set, _| job_of(&set.path) == Some(job));
        all.flat_map(|(set, waiting)| {
            let _ = fs::remove_dir_all(&set.path);
            waiting.members.into_iter().map(|(id, ..)| id)
        })
        .collect()
    }
}

/// Removes the folder of a set once each member has its name. By then those of this node have left the stage.
pub fn remove_if_done(set: &Set) {
    remove_if_empty(&set.folder, &set.path);
}

fn remove_if_empty(folder: &Path, set: &Path) {
    let is_named = |id| !writing_path(folder, id).exists();
    if members(set).is_ok_and(|members| members.into_iter().all(|(_, id)| is_named(id))) {
        let _ = fs::remove_dir_all(set);
    }
}

/// Removes the torn sets of a job that has ended here. If bytes of other nodes are still there, those nodes remove them.
pub fn clear(sets: &Path, job: &str) {
    let Some(folder) = sets.parent().and_then(Path::parent) else { return };
    for name in names(sets).unwrap_or_default() {
        let path = sets.join(&name);
        if parts(&name).is_some_and(|(_, of, _)| of == job) && path.join("torn").exists() {
            remove_if_empty(folder, &path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Share;

    fn record(folder: &Path, round: u32) -> Record {
        let options = Options { sets: vec!["{}.*".to_owned()], count: 1, job: "job".to_owned(), ..Options::default() };
        let named = Named::in_folder(folder, OsStr::new("restart.0")).unwrap();
        Record { named, is_through: false, share: Share::Whole, options, round }
    }

    /// The set of a record, with a mark for its only member.
    fn marked(record: &Record, id: Id) -> Set {
        let set = set_of(record).unwrap();
        fs::create_dir_all(&set.path).unwrap();
        fs::write(set.path.join("member-restart.0"), format!("{id}\n")).unwrap();
        set
    }

    /// Story: two threads gave the names of both rounds at a time, and the older file could come last.
    #[test]
    fn the_rounds_of_a_set_get_their_names_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let (mut sets, mut last) = (Sets::default(), None);
        let mut marks = Vec::new();
        for round in [1, 2] {
            let (id, record) = (Id::after(last, 1), record(folder.path(), round));
            marks.push(marked(&record, id));
            sets.ready(id, &record);
            last = Some(id);
        }
        let rounds = |settled: Settled| settled.whole.iter().map(|whole| whole.set.round()).collect::<Vec<u32>>();
        assert_eq!(rounds(sets.settled()), [1]);
        assert_eq!(rounds(sets.settled()), Vec::<u32>::new());
        sets.named(&marks[0]);
        assert_eq!(rounds(sets.settled()), [2]);
    }

    #[test]
    fn a_torn_set_goes_once_no_node_has_bytes_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (id, record) = (Id::after(None, 1), record(folder.path(), 1));
        let set = marked(&record, id);
        let all = set.path.parent().unwrap();
        clear(all, "job");
        assert!(set.path.exists(), "it is not torn");
        tear(&record);
        let bytes = writing_path(folder.path(), id);
        fs::create_dir_all(bytes.parent().unwrap()).unwrap();
        fs::write(&bytes, "x").unwrap();
        clear(all, "job");
        fs::remove_file(&bytes).unwrap();
        clear(all, "other");
        assert!(set.path.exists());
        clear(all, "job");
        assert!(!set.path.exists());
    }

    /// The helper of a later job has completed or removed it.
    #[test]
    fn a_set_that_is_gone_waits_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let (id, record) = (Id::after(None, 1), record(folder.path(), 1));
        let mut sets = Sets::default();
        sets.ready(id, &record);
        assert_eq!(sets.settled().given_up, [id]);
        assert!(sets.next_look().is_none());
    }

    /// Story: a helper was killed after the mark. The next one may find the record of the set at any moment, and gives the
    /// members their names. Nothing may write a mark or a manifest again.
    #[test]
    fn a_member_that_is_durable_is_not_brought_again() {
        let (folder, memory) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let named = Named::in_folder(folder.path(), OsStr::new("restart.0")).unwrap();
        let options = Options { sets: vec!["{}.*".to_owned()], count: 2, ..Options::default() };
        let set = set_in_round(&named, &options, 1).unwrap();
        let staged = memory.path().join("staged");
        fs::write(&staged, "new").unwrap();
        let id = Id::after(None, 1);
        let parcel = Parcel { id, named, staged, is_through: false, keep: 2, replaces: None, claim: None };
        bring(&parcel, &set).unwrap();
        fs::remove_file(&parcel.staged).unwrap();
        bring(&parcel, &set).unwrap();
        assert_eq!(members(&set.path).unwrap(), [("restart.0".to_owned(), id)]);
        // A mark of an earlier round does not count.
        let later = Parcel { id: Id::after(Some(id), 1), ..parcel };
        assert!(bring(&later, &set).is_err());
    }

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

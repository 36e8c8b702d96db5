//! The helper's knowledge: the staged files, their holders, and the file behind each name.
//!
//! It is a state machine that never waits: for a request that must wait, `answer` returns `None`, and the server asks again
//! after the next event. Work that takes time goes to `Workers`.
//!
//! A staged file is `Open`, then `Whole`, then `Carrying`, and gone once it has its name; or `Torn`, or `Failed`.

use super::{
    processes::Process,
    records::holders::{Holders, Origin, Pid},
    records::kernel::{self, is_dying},
    records::lines::Lines,
    records::request::{Answer, How, Inode, Request, Verb},
    records::room::Room,
    records::uncaught::Uncaught,
    shared::{Across, set_progress},
    workers::{Done, Workers},
};
use crate::{
    claims::{self, Progress},
    file::{Identity, Key, Named},
    kept::{self, Judged},
    publish::{self, Parcel},
    report,
    sets::{self, Rounds, Sets},
    stage::{Id, Record, Share, Stage},
    writing::{drop_writing, writing_path},
};
use mainstay_engine::printable_path;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Time after a helper's start until a staged file without a holder counts as torn: a process may still be in `close`.
const JUDGE_AFTER: Duration = Duration::from_secs(5);
/// Most results of verifications to remember.
const CHECKED_MAX: usize = 4096;

pub struct Helper {
    pub(super) stage: Stage,
    /// The number of this node in the helper's IDs.
    pub(super) node: u16,
    pub(super) last: Option<Id>,
    pub(super) staged: BTreeMap<Id, Staged>,
    pub(super) names: HashMap<Key, Vec<Id>>,
    pub(super) processes: HashMap<Pid, Process>,
    pub(super) rounds: Rounds,
    pub(super) sets: Sets,
    pub(super) room: Room,
    pub(super) workers: Workers,
    pub(super) checked: HashMap<Fingerprint, Judged>,
    pub(super) checking: HashSet<Fingerprint>,
    /// Errors after `close`, for the next open of the name.
    pub(super) failures: HashMap<Key, (i32, String)>,
    /// Lines to print at the end of `mainstay files`: these errors, and others.
    pub(super) lines: Lines,
    pub(super) across: Across,
    /// The job of each member.
    pub(super) members: HashMap<Pid, String>,
    pub(super) uncaught: Uncaught,
}

pub struct Staged {
    pub(super) record: Record,
    pub(super) path: PathBuf,
    pub(super) holders: Holders,
    pub(super) state: State,
    /// A holder was killed.
    pub(super) is_torn: bool,
    /// A line has named the torn file.
    pub(super) is_told: bool,
    /// The holders in the note of the stage.
    pub(super) noted: Vec<Pid>,
    /// All ranks of all nodes have closed the file.
    pub(super) is_closed_by_all: bool,
    /// The file that was under the name when this one was closed.
    pub(super) replaces: Option<Identity>,
    /// The helper found it at its start, without a holder.
    pub(super) judged_after: Option<Instant>,
    /// The file began as a copy of the older generation, with this metadata.
    pub(super) filled: Option<Fingerprint>,
    /// Not before: a search for processes that nobody has told of. It costs a look at each process.
    pub(super) searched_after: Option<Instant>,
}

impl Staged {
    pub(super) fn new(record: Record, path: PathBuf) -> Staged {
        Staged {
            record,
            path,
            holders: Holders::default(),
            state: State::Open,
            is_torn: false,
            is_told: false,
            noted: Vec::new(),
            is_closed_by_all: false,
            replaces: None,
            judged_after: None,
            filled: None,
            searched_after: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// A thread copies the older generation into it.
    Filling,
    /// That copy has failed.
    Unfilled(i32),
    Open,
    Whole,
    Carrying,
    /// Durable, but without its name: other files of its set are not.
    Ready,
    Torn,
    Failed,
    /// Closed on this node. The helper of another node publishes it.
    Elsewhere,
}

/// A file's content, as far as its metadata shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64, u64, u64, i64, i64, i64, i64);

impl Fingerprint {
    pub(super) fn of(found: &Metadata) -> Fingerprint {
        let (changed, modified) = ((found.ctime(), found.ctime_nsec()), (found.mtime(), found.mtime_nsec()));
        Fingerprint(found.dev(), found.ino(), found.len(), changed.0, changed.1, modified.0, modified.1)
    }
}

impl Helper {
    /// Takes over the stage: completes files that are whole, and finds the holders of the others.
    pub fn start(stage: Stage, wake: crate::wake::Wake) -> io::Result<Helper> {
        stage.clear_remains()?;
        let mut helper = Helper {
            node: random_node(),
            last: None,
            staged: BTreeMap::new(),
            names: HashMap::new(),
            processes: HashMap::new(),
            rounds: Rounds::default(),
            sets: Sets::default(),
            room: Room::here(),
            workers: Workers::start(wake),
            checked: HashMap::new(),
            checking: HashSet::new(),
            failures: HashMap::new(),
            lines: Lines::default(),
            across: Across::of(&stage)?,
            members: HashMap::new(),
            uncaught: Uncaught::default(),
            stage,
        };
        let left = helper.stage.ids()?;
        let held = if left.is_empty() { HashMap::new() } else { kernel::found(helper.stage.path()) };
        let judge_after = Instant::now() + JUDGE_AFTER;
        let mut complete = Vec::new();
        for id in left {
            if let Ok(record) = helper.stage.read_record(id)
                && let Some((set, ids)) = sets::complete_own(&record)
            {
                tell_run(&record);
                ids.into_iter().for_each(|id| helper.stage.remove(id));
                set.remove();
                complete.push(set);
            }
        }
        for id in helper.stage.ids()? {
            helper.last = helper.last.max(Some(id));
            match helper.stage.read_record(id) {
                Ok(record) if sets::is_outdated(&record, &complete) => {
                    drop_writing(&record.named.folder, id);
                    helper.stage.remove(id);
                }
                Ok(record) => helper.find_again(id, record, held.get(&id).cloned().unwrap_or_default(), judge_after),
                Err(_) => helper.stage.remove(id),
            }
        }
        helper.go_on();
        Ok(helper)
    }

    pub(super) fn find_again(&mut self, id: Id, record: Record, mut holders: Holders, judge_after: Instant) {
        let path = self.bytes_path(id, &record);
        if !path.exists() || (record.share == Share::Joined && holders.is_empty()) {
            // The file has its name, or the helper of another node publishes it.
            if publish::has_name(&record.named, id) {
                tell_run(&record);
            }
            self.stage.remove(id);
            return;
        }
        holders.processes().for_each(|pid| self.watch(pid));
        self.rounds.found(&record);
        if record.options.is_silent {
            holders.silence();
        }
        let mut staged = Staged::new(record, path);
        staged.noted = self.stage.noted_holders(id);
        let was_killed = |process: &Pid| !holders.has(*process) && is_dying(*process);
        staged.is_torn = self.stage.is_torn(id) || staged.noted.iter().any(was_killed);
        staged.replaces = self.stage.replaced(id);
        if self.stage.is_whole(id) {
            (staged.state, staged.is_closed_by_all) = (State::Whole, true);
        } else if holders.is_empty() {
            staged.judged_after = Some(judge_after);
        }
        staged.holders = holders;
        self.names.entry(staged.record.named.key.clone()).or_default().push(id);
        self.staged.insert(id, staged);
    }

    pub(super) fn bytes_path(&self, id: Id, record: &Record) -> PathBuf {
        if record.is_through { writing_path(&record.named.folder, id) } else { self.stage.file(id) }
    }

    /// Answers a request. `None`: the request must wait for the next event.
    pub fn answer(&mut self, request: &mut Request) -> Option<Answer> {
        let answer = self.answer_now(request);
        self.note_holders();
        answer
    }

    /// Notes the holders of each file that several processes hold. A file that only one holds is torn without it.
    pub(super) fn note_holders(&mut self) {
        for (id, staged) in &mut self.staged {
            let is_shared = staged.holders.processes().nth(1).is_some();
            if !is_shared && staged.noted.is_empty() {
                continue;
            }
            let holders: Vec<Pid> = staged.holders.processes().filter(|_| is_shared).collect();
            if holders != staged.noted {
                self.stage.note_holders(*id, &holders);
                staged.noted = holders;
            }
        }
    }

    fn answer_now(&mut self, request: &mut Request) -> Option<Answer> {
        let Request { process, verb, granted, since } = request;
        let (process, granted) = (*process, granted);
        self.across.asked_at(*since);
        if let Verb::Write { named, .. }
        | Verb::Change { named, .. }
        | Verb::Read { named, .. }
        | Verb::Look { named }
        | Verb::Settle { named, .. } = verb
        {
            self.drop_orphans(named);
            self.end_job_of(named);
        }
        match verb {
            Verb::Write { named, how, options } => self.write(process, named, *how, options, granted),
            Verb::Change { named, options, locks } => {
                let how = How { writes_at_once: true, locks: *locks, ..How::default() };
                self.write(process, named, how, options, granted)
            }
            Verb::Shared { id, end } => {
                self.shared(process, *id, *end);
                Some(Answer::Ok)
            }
            Verb::Read { named, options } => self.read(named, options),
            Verb::Look { named } if self.is_unjudged(&named.key) => None,
            Verb::Look { named } => match self.newest(&named.key) {
                Some(id) => Some(self.at(id)),
                None if self.comes_from_elsewhere(named) => None,
                None => Some(Answer::Published),
            },
            Verb::Settle { named, appends } => self.settle(named, *appends),
            Verb::Rename { from, to, flags } => self.rename(from, to, *flags),
            Verb::RenameFolder { from, to, flags } => self.rename_folder(from, to, *flags),
            Verb::Link { from, to } => self.link(from, to),
            Verb::Unlink { named } => self.unlink(named),
            Verb::List { beside } => self.list(beside),
            Verb::RemoveFolder { beside } => self.remove_folder(beside),
            Verb::Hold { ids } => {
                self.hold(process, ids);
                Some(Answer::Ok)
            }
            Verb::Holding { ids } => {
                self.holding(process, ids);
                Some(Answer::Ok)
            }
            Verb::Closed { id, was_synced, has_mappings } => {
                self.closed(process, *id, (*was_synced, *has_mappings), granted)
            }
            Verb::Mapped { id } => {
                self.mapped(process, *id);
                Some(Answer::Ok)
            }
            Verb::Unmapped { id } => {
                self.unmapped(process, *id);
                Some(Answer::Ok)
            }
            Verb::GivenUp { id } => {
                self.given_up(process, *id);
                Some(Answer::Ok)
            }
            Verb::Uncaught { program } => Some(self.uncaught.answer(program)),
            Verb::Left { status } => {
                self.left(process, *status);
                Some(Answer::Ok)
            }
            Verb::Ends { other } => {
                self.ends(process, *other);
                Some(Answer::Ok)
            }
            Verb::Given { id, holder } => Some(self.given(process, *id, *holder, Origin::Opened)),
            Verb::Inherits { id, holder } => Some(self.given(process, *id, *holder, Origin::Forked)),
            Verb::Dropped { id } => Some(self.dropped(process, *id)),
            Verb::Lost { id } => Some(self.lost(process, *id)),
            Verb::Leaves { holder, status } => Some(self.leaves(process, *holder, *status)),
            Verb::Member { job } => {
                if self.members.is_empty() {
                    self.uncaught = Uncaught::default();
                }
                self.join(process, job);
                Some(Answer::Ok)
            }
            Verb::OpenOf { member } => Some(Answer::Finished(Vec::new(), self.open_of(member))),
            Verb::Finish { job, has_failed } => self.finish(process, job, *has_failed),
        }
    }

    /// The newest staged file of a name.
    pub(super) fn newest(&self, key: &Key) -> Option<Id> {
        let ids = self.names.get(key)?;
        ids.iter().rev().copied().find(|id| !matches!(self.staged[id].state, State::Torn | State::Unfilled(_)))
    }

    /// Drops files of a folder that is gone: a new folder may have its inode.
    pub(super) fn drop_orphans(&mut self, named: &Named) {
        let ids = self.names.get(&named.key).cloned().unwrap_or_default();
        for id in ids {
            let Staged { record, state, .. } = &self.staged[&id];
            let is_elsewhere = record.named.folder != named.folder && record.named.check_folder().is_err();
            if is_elsewhere {
                // Its failure does not concern the new folder.
                self.failures.remove(&named.key);
            }
            if is_elsewhere && matches!(state, State::Filling | State::Carrying | State::Torn) {
                // A thread is using it.
                self.unname(id);
            } else if is_elsewhere {
                self.forget(id);
            }
        }
    }

    /// Whether a file of a killed helper may still prove torn. Then an open of the name must wait.
    pub(super) fn is_unjudged(&self, key: &Key) -> bool {
        let ids = self.names.get(key).map_or(&[][..], Vec::as_slice);
        let open = ids.iter().map(|id| &self.staged[id]).filter(|staged| staged.state == State::Open);
        // The helper sees the end of a killed process a moment after the kill. Until then its file seems open.
        let is_dying = |staged: &Staged| staged.holders.processes().any(is_dying);
        open.into_iter().any(|staged| staged.judged_after.is_some() || is_dying(staged))
    }

    /// The answer with the place of a file. A file in the target's file system may have its name already.
    pub(super) fn at(&self, id: Id) -> Answer {
        let Staged { record, path, .. } = &self.staged[&id];
        if record.is_through && !path.exists() {
            Answer::Published
        } else {
            Answer::At(path.clone(), self.inode_of(id))
        }
    }

    /// The inode of the file that gets the name. Its room was set aside at the `close`, and it may have the name by now.
    pub(super) fn inode_of(&self, id: Id) -> Option<Inode> {
        let Staged { record, state, .. } = &self.staged[&id];
        let is_on_its_way = matches!(state, State::Whole | State::Carrying | State::Ready) && !record.is_through;
        let places = [writing_path(&record.named.folder, id), record.named.path()];
        let found =
            is_on_its_way.then(|| places.iter().find_map(|place| fs::symlink_metadata(place).ok())).flatten()?;
        Some((found.dev(), found.ino()))
    }

    /// Does all work that has become possible: judges files without holders, and publishes whole files.
    pub fn go_on(&mut self) {
        self.forget_published_elsewhere();
        let open = |(id, staged): (&Id, &Staged)| (staged.state == State::Open).then_some(*id);
        for id in self.staged.iter().filter_map(open).collect::<Vec<_>>() {
            self.judge(id);
        }
        let whole = self.staged.values().filter(|staged| staged.state == State::Whole);
        let keys: HashSet<Key> = whole.map(|staged| staged.record.named.key.clone()).collect();
        keys.iter().for_each(|key| self.carry_next(key));
        let settled = self.sets.settled();
        for whole in settled.whole {
            for id in whole.ids() {
                if let Some(staged) = self.staged.get_mut(&id) {
                    staged.state = State::Carrying;
                }
            }
            self.workers.begin(move || Done::Named(whole.set.clone(), whole.name()));
        }
        settled.given_up.into_iter().for_each(|id| self.give_up(id));
    }

    /// The time of the next look without an event: at files of silent or unknown processes, and at files without a holder
    /// since the start.
    pub fn next_look(&self) -> Option<Duration> {
        const LINGER: Duration = Duration::from_millis(20);
        const UNHELD: Duration = Duration::from_millis(100);
        let is_unsaid = |one: &&Staged| one.holders.is_empty() || one.holders.silent().next().is_some();
        let unsaid = self.staged.values().filter(|one| one.state == State::Open).filter(is_unsaid);
        let looks = unsaid.map(|one| if one.judged_after.is_some() { UNHELD } else { LINGER });
        looks.chain(self.sets.next_look()).chain(self.across.next_look()).min()
    }

    pub(super) fn complete(&mut self, id: Id) {
        if self.staged.get(&id).is_some_and(Staged::is_unchanged) {
            return self.drop_staged(id);
        }
        let Some(staged) = self.staged.get_mut(&id) else { return };
        staged.replaces = staged.record.named.identity();
        if let Err(error) = self.stage.mark_whole(id, staged.replaces) {
            let path = printable_path(&staged.record.named.path());
            self.tell(id, format!("{path}: the stage has no room for its mark ({error}); a kill now would lose it"));
        }
        if let Some(staged) = self.staged.get_mut(&id) {
            staged.state = State::Whole;
            set_progress(id, &staged.record, Progress::Whole);
            let key = staged.record.named.key.clone();
            self.carry_next(&key);
        }
    }

    pub(super) fn tear(&mut self, id: Id) {
        let Some(staged) = self.staged.get_mut(&id) else { return };
        staged.state = State::Torn;
        let named = &staged.record.named;
        sets::tear(&staged.record);
        set_progress(id, &staged.record, Progress::Torn);
        let (named, path, text) = (named.clone(), staged.path.clone(), torn_text(named));
        if !staged.is_told {
            // A job that was killed before this helper started may have the same name as the next job.
            self.lines.add(id, &staged.record, text, staged.judged_after.is_none());
        }
        self.workers.begin(move || {
            let _ = kept::keep_torn(&named.folder, named.name(), &path);
            Done::Torn(id)
        });
    }

    /// Starts to publish the oldest whole file of a name, unless another publication of the name is under way.
    pub(super) fn carry_next(&mut self, key: &Key) {
        let ids = self.names.get(key).cloned().unwrap_or_default();
        if ids.iter().any(|id| self.staged[id].state == State::Carrying) {
            return;
        }
        let Some(id) = ids.into_iter().find(|id| self.staged[id].state == State::Whole) else { return };
        let Some(staged) = self.staged.get_mut(&id) else { return };
        staged.state = State::Carrying;
        let record = staged.record.clone();
        let parcel = Parcel {
            id,
            named: record.named.clone(),
            staged: staged.path.clone(),
            is_through: record.is_through,
            keep: record.options.keep,
            replaces: staged.replaces,
            claim: record.options.is_on_nodes().then(|| (record.options.job.clone(), self.across.node().to_owned())),
        };
        match sets::set_of(&record) {
            Some(set) => self.workers.begin(move || Done::Brought(id, sets::bring(&parcel, &set))),
            None => self.workers.begin(move || Done::Carried(id, carry(&parcel))),
        }
    }

    /// Takes the results of the workers.
    pub fn take_done(&mut self) {
        self.across.look_anew();
        while let Some(done) = self.workers.done() {
            match done {
                Done::Carried(id, Ok(false)) => {
                    let path = self.staged.get(&id).map(|staged| staged.record.named.path()).unwrap_or_default();
                    let path = printable_path(&path);
                    self.tell(id, format!("{path}: a newer file was put under the name meanwhile, and stays"));
                    self.forget(id);
                }
                Done::Carried(id, carried) => self.carried(id, carried.map(drop)),
                Done::Brought(id, Ok(())) => {
                    let Some(staged) = self.staged.get_mut(&id) else { continue };
                    staged.state = State::Ready;
                    self.sets.ready(id, &staged.record);
                }
                Done::Brought(id, Err(error)) => self.carried(id, Err(error)),
                Done::Named(set, ids) => {
                    // Their files are older than those that have their names now.
                    self.sets.take_outdated(&set).into_iter().for_each(|id| self.give_up(id));
                    ids.into_iter().for_each(|(id, named)| self.carried(id, named));
                    self.sets.named(&set);
                    sets::remove_if_done(&set);
                }
                Done::Filled(id, filled) => {
                    if let Some(staged) = self.staged.get_mut(&id) {
                        (staged.state, staged.filled) = match filled {
                            Ok(filled) => (State::Open, filled),
                            Err(error) => (State::Unfilled(error.raw_os_error().unwrap_or(libc::EIO)), None),
                        };
                    }
                }
                Done::Checked(print, judged) => {
                    self.checking.remove(&print);
                    if self.checked.len() >= CHECKED_MAX {
                        self.checked.clear();
                    }
                    self.checked.insert(print, judged);
                }
                Done::Torn(id) => {
                    // It was written through, or a process that closed it has set room aside.
                    self.drop_staged(id);
                }
                Done::Prepared(key, id, bytes) => self.room.has_prepared(&self.stage, key, id, bytes),
            }
        }
    }

    /// Handles the result of a publication.
    pub(super) fn carried(&mut self, id: Id, carried: io::Result<()>) {
        let Some(staged) = self.staged.get_mut(&id) else { return };
        let named = staged.record.named.clone();
        if let Err(error) = carried {
            if named.check_folder().is_err() {
                self.remark(id, format!("{}: its folder is gone, and the file with it", printable_path(&named.path())));
                return self.forget(id);
            }
            staged.state = State::Failed;
            let text =
                format!("{}: it could not be saved ({error}); the previous file stays", printable_path(&named.path()));
            self.stage.mark_failed(id, &text);
            self.failures.insert(named.key, (error.raw_os_error().unwrap_or(libc::EIO), text.clone()));
            self.tell(id, text);
            return;
        }
        if let Ok(found) = fs::symlink_metadata(named.path()) {
            self.checked.insert(Fingerprint::of(&found), Judged::Good { generation: 0 });
            self.room.learns(&named.key, found.len());
        }
        self.lines.replaced(&named.key, id);
        tell_run(&staged.record);
        // Holes need no memory.
        let bytes = fs::metadata(&staged.path).map_or(0, |found| found.len().min(found.blocks() * 512));
        let (in_memory, room_bytes) = (!staged.record.is_through, staged.record.options.room_bytes);
        self.forget(id);
        // Older failed files of the name are outdated.
        let mut older = self.names.get(&named.key).cloned().unwrap_or_default();
        older.retain(|old| *old < id && self.staged[old].state == State::Failed);
        for old in older {
            self.forget(old);
            self.failures.remove(&named.key);
        }
        if in_memory && !self.names.contains_key(&named.key) {
            self.prepare(named.key, bytes, room_bytes);
        }
    }

    /// Removes a staged file from the stage and from memory.
    pub(super) fn forget(&mut self, id: Id) {
        self.unname(id);
        // The claim goes first: without a record, no later helper would release it.
        if let Some(Staged { record, .. }) = self.staged.remove(&id)
            && record.options.is_on_nodes()
            && record.share != Share::Joined
        {
            let (named, job) = (&record.named, &record.options.job);
            let ids = self.names.get(&named.key).map_or(&[][..], Vec::as_slice);
            // An older one may still be on its way. Without a claim it would count as replaced by another node.
            let is_coming =
                |older: &Id| matches!(self.staged[older].state, State::Whole | State::Carrying | State::Ready);
            match ids.iter().rev().find(|older| **older < id && is_coming(older)) {
                Some(older) => claims::give_back(named, job, id, *older),
                None => claims::release(named, job, id),
            }
        }
        self.stage.remove(id);
    }

    /// Detaches the name from this staged file.
    fn unname(&mut self, id: Id) {
        let Some(key) = self.staged.get(&id).map(|staged| staged.record.named.key.clone()) else { return };
        if let Some(ids) = self.names.get_mut(&key) {
            ids.retain(|one| *one != id);
            if ids.is_empty() {
                self.names.remove(&key);
            }
        }
    }

    /// Whether a publication of the name is under way.
    pub(super) fn is_busy(&self, key: &Key) -> bool {
        let ids = self.names.get(key).map_or(&[][..], Vec::as_slice);
        let moving = |state: &State| matches!(state, State::Whole | State::Carrying | State::Torn | State::Elsewhere);
        self.is_unjudged(key) || ids.iter().any(|id| moving(&self.staged[id].state))
    }

    /// Removes the socket, memory that was set aside, and the whole stage if nothing is left in it.
    pub fn end(&self) {
        self.rounds.folders().iter().for_each(|(sets, job)| sets::clear(sets, job));
        let _ = self.stage.clear_remains();
        self.stage.remove_if_empty();
    }

    /// Whether the helper has work, or may get some.
    pub fn is_needed(&self) -> bool {
        let is_moving = |staged: &Staged| !matches!(staged.state, State::Failed | State::Ready | State::Elsewhere);
        !self.processes.is_empty() || self.staged.values().any(is_moving)
    }
}

pub(super) fn torn_text(named: &Named) -> String {
    format!(
        "{}: its program failed or was killed with it open; the previous file stays, the torn one is in {}/.mainstay/torn",
        printable_path(&named.path()),
        printable_path(&named.folder)
    )
}

/// Reports a new generation to `mainstay run`.
fn tell_run(record: &Record) {
    if let Some(report) = &record.options.report {
        let named = &record.named;
        let generation = kept::current(&named.folder, named.name()).ok().flatten();
        report::tell_published(report, &named.path(), generation.unwrap_or(0));
    }
}

/// Gives a file its name. `false`: a newer file has the name.
fn carry(parcel: &Parcel) -> io::Result<bool> {
    parcel.named.check_folder()?;
    if publish::is_named(parcel) {
        kept::prune(&parcel.named.folder, parcel.named.name(), parcel.keep)?;
        return Ok(true);
    }
    if publish::is_outdated(parcel) {
        drop_writing(&parcel.named.folder, parcel.id);
        return Ok(false);
    }
    publish::bring(parcel)?;
    publish::name(&parcel.named, parcel.id, parcel.keep)?;
    Ok(true)
}

/// A number for the IDs of this node. Few nodes share one.
fn random_node() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) as u16
}

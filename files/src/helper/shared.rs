//! Files of jobs on several nodes.
//!
//! A file that several ranks open by MPI is written through, by all nodes, to one file beside its target. The helper of
//! the first rank makes that file, and leaves a claim; the other helpers join by the claim. Once all ranks have closed the
//! file, the first rank reports it, and its helper publishes. Any other file belongs to the node that first claims its
//! name: another node may write it only after the first has published it.

use super::{
    records::holders::Pid,
    records::request::{Answer, End, How},
    state::{Helper, Staged, State},
};
use crate::{
    claims::{self, Claim, Progress},
    file::Named,
    options::Options,
    stage::{Id, Record, Share, Stage},
    writing::{drop_writing, writing_path},
};
use mainstay_engine::printable_path;
use std::{
    collections::HashSet,
    io,
    time::{Duration, Instant},
};

const LOOK: Duration = Duration::from_millis(10);
/// Time that a request waits for a file that another node publishes.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// The answer of another node's claim to an open.
pub enum Other {
    None,
    Waits,
    Answers(Answer),
}

/// The helper's place among the nodes.
pub struct Across {
    node: String,
    /// Jobs on several nodes that have sent requests.
    jobs: HashSet<String>,
    claimed: Option<Id>,
    asked_at: Instant,
    is_waiting: bool,
}

impl Across {
    pub fn of(stage: &Stage) -> io::Result<Across> {
        Ok(Across {
            node: claims::node(stage)?,
            jobs: HashSet::new(),
            claimed: None,
            asked_at: Instant::now(),
            is_waiting: false,
        })
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn serves(&mut self, job: &str) {
        if !self.jobs.contains(job) {
            self.jobs.insert(job.to_owned());
        }
    }

    /// The ID in the claim for the next file.
    pub fn claimed(&mut self) -> Option<Id> {
        self.claimed.take()
    }

    /// Sets the arrival of the current request.
    pub fn asked_at(&mut self, at: Instant) {
        self.asked_at = at;
    }

    fn is_too_late(&self) -> bool {
        self.asked_at.elapsed() > WAIT_LIMIT
    }

    /// Time until the next look, if a request waits for another helper: those send no events.
    pub fn next_look(&self) -> Option<Duration> {
        self.is_waiting.then_some(LOOK)
    }

    pub fn look_anew(&mut self) {
        self.is_waiting = false;
    }

    fn waits(&mut self) -> Other {
        self.is_waiting = true;
        Other::Waits
    }
}

/// Sets the state of a file in its claim, for the other nodes.
pub fn set_progress(id: Id, record: &Record, state: Progress) {
    if record.options.is_on_nodes() {
        claims::set_progress(&record.named, &record.options.job, id, state);
    }
}

impl Helper {
    /// Looks for a claim of another node before an open to write.
    pub(super) fn other_node(&mut self, process: Pid, named: &Named, how: How, options: &Options) -> Other {
        self.across.serves(&options.job);
        let newest = self.newest(&named.key);
        let ids = self.names.get(&named.key).cloned().unwrap_or_default();
        let is_foreign = |id: &Id| self.staged[id].record.options.job != options.job;
        // A file of a killed job must get its name first: the claim of this job would drop it.
        if (how.leads || ids.iter().any(is_foreign)) && self.is_busy(&named.key) {
            return self.across.waits();
        }
        match newest.map(|id| &self.staged[&id].state) {
            Some(State::Open) if how.leads => return Other::Answers(busy(named)),
            Some(State::Elsewhere) => return self.wait_or_refuse(named),
            Some(State::Open) if !how.is_shared && self.is_joined(newest) => return Other::Answers(busy(named)),
            Some(State::Open | State::Filling) => return Other::None,
            _ => {}
        }
        match claims::find(named, &options.job) {
            Some(claim) if claim.node != self.across.node => match claim.state {
                Progress::Open if claim.is_shared && how.is_shared => self.join_file(process, named, options, &claim),
                Progress::Whole => self.wait_or_refuse(named),
                _ => Other::Answers(busy(named)),
            },
            // The first rank has made the file, but a network file system may show it later.
            _ if how.is_shared => self.wait_or_refuse(named),
            _ => Other::None,
        }
    }

    fn is_joined(&self, id: Option<Id>) -> bool {
        id.is_some_and(|id| self.staged[&id].record.share == Share::Joined)
    }

    fn wait_or_refuse(&mut self, named: &Named) -> Other {
        if self.across.is_too_late() { Other::Answers(busy(named)) } else { self.across.waits() }
    }

    /// Joins the file that another node has made for all.
    fn join_file(&mut self, process: Pid, named: &Named, options: &Options, claim: &Claim) -> Other {
        let (id, path) = (claim.id, writing_path(&named.folder, claim.id));
        if !path.exists() {
            return self.wait_or_refuse(named);
        }
        let record =
            Record { named: named.clone(), is_through: true, share: Share::Joined, options: options.clone(), round: 0 };
        if let Err(error) = self.stage.write_record(id, &record) {
            return Other::Answers(Answer::Error(error.raw_os_error().unwrap_or(libc::EIO), String::new()));
        }
        // IDs of this node grow from here.
        self.last = self.last.max(Some(id));
        self.names.entry(named.key.clone()).or_default().push(id);
        self.staged.insert(id, Staged::new(record, path.clone()));
        self.open(process, id);
        Other::Answers(Answer::Stage { id, path, is_new: false })
    }

    /// Claims a name for the next new file. Returns the answer if another node was first.
    pub(super) fn claim(&mut self, named: &Named, how: How, options: &Options) -> Option<Answer> {
        if !options.is_on_nodes() {
            return None;
        }
        let id = Id::after(self.last, self.node);
        let claim = Claim { node: self.across.node.clone(), id, is_shared: how.leads, state: Progress::Open };
        let made = match claims::make(named, &options.job, &claim) {
            // This node has the claim, for the previous generation.
            Ok(false) if claims::find(named, &options.job).is_some_and(|old| old.node == claim.node) => {
                claims::replace(named, &options.job, &claim).map(|()| true)
            }
            made => made,
        };
        match made {
            Ok(true) => {
                self.last = Some(id);
                self.across.claimed = Some(id);
                None
            }
            Ok(false) => Some(busy(named)),
            Err(error) => Some(Answer::Error(
                error.raw_os_error().unwrap_or(libc::EIO),
                format!("{}: its claim cannot be written ({error})", printable_path(&named.path())),
            )),
        }
    }

    /// Releases the last claim: its file could not be made.
    pub(super) fn unclaim(&mut self, named: &Named, options: &Options) {
        if let Some(id) = self.last.filter(|_| options.is_on_nodes()) {
            claims::release(named, &options.job, id);
        }
    }

    /// Handles the end of a file that several nodes write. The first rank reports it, or a rank that failed.
    pub(super) fn shared(&mut self, process: Pid, id: Id, end: End) {
        // The file was removed in the meantime.
        let Some(staged) = self.staged.get_mut(&id) else { return };
        let is_led = staged.record.share == Share::Led;
        match end {
            End::Failed => {
                staged.is_torn = true;
                self.stage.mark_torn(id);
                set_progress(id, &staged.record, Progress::Torn);
            }
            End::Whole if is_led => {
                let claim = claims::find(&staged.record.named, &staged.record.options.job);
                // A rank of another node was killed or has failed, or another job has claimed the name.
                staged.is_torn |= claim.is_none_or(|claim| claim.id != id || claim.state == Progress::Torn);
                staged.is_closed_by_all = true;
                staged.holders.close(process, false);
                staged.judged_after = None;
                self.judge(id);
            }
            End::Unused if is_led => {
                drop_writing(&staged.record.named.folder, id);
                self.forget(id);
            }
            End::Whole | End::Unused => {}
        }
        self.unwatch_idle(process);
    }

    /// Leaves a file to the node of the first rank: the last process of this node has closed it.
    pub(super) fn leave_to_leader(&mut self, id: Id) {
        let Some(staged) = self.staged.get_mut(&id) else { return };
        if !staged.is_torn {
            staged.state = State::Elsewhere;
            return;
        }
        let path = printable_path(&staged.record.named.path());
        self.tell(id, format!("{path}: its program failed or was killed with it open; the previous file stays"));
        self.forget(id);
    }

    /// Forgets files that have left `writing`: they have their names, or were torn.
    pub(super) fn forget_published_elsewhere(&mut self) {
        let gone =
            |(id, staged): (&Id, &Staged)| (staged.state == State::Elsewhere && !staged.path.exists()).then_some(*id);
        for id in self.staged.iter().filter_map(gone).collect::<Vec<_>>() {
            self.forget(id);
        }
    }

    /// Whether a helper of another node is about to give the file its name.
    pub(super) fn comes_from_elsewhere(&mut self, named: &Named) -> bool {
        let mut claims = self.across.jobs.iter().filter_map(|job| claims::find(named, job));
        let comes = claims.any(|claim| claim.node != self.across.node && claim.state == Progress::Whole);
        if comes && !self.across.is_too_late() {
            self.across.is_waiting = true;
            return true;
        }
        false
    }

    /// Whether files of other nodes may still become whole, after the last process of a job here.
    pub(super) fn waits_for_other_nodes(&mut self) -> bool {
        let waits = !self.across.is_too_late() && self.staged.values().any(|staged| staged.state == State::Elsewhere);
        self.across.is_waiting |= waits;
        waits
    }

    /// Gives up files whose first rank has lost its helper.
    pub(super) fn give_up_elsewhere(&mut self, job: &str) {
        let is_left = |staged: &Staged| staged.state == State::Elsewhere && staged.record.options.job == job;
        let left = |(id, staged): (&Id, &Staged)| is_left(staged).then_some(*id);
        for id in self.staged.iter().filter_map(left).collect::<Vec<_>>() {
            let path = printable_path(&self.staged[&id].record.named.path());
            self.tell(id, format!("{path}: the node of its first rank has not saved it; the previous file stays"));
            self.forget(id);
        }
    }
}

fn busy(named: &Named) -> Answer {
    let text = format!(
        "{}: another node of this job has it open to write. Ranks of several nodes can write a file only by \
         MPI_File_open; leave other files out with --exclude",
        printable_path(&named.path())
    );
    Answer::Error(libc::EBUSY, text)
}

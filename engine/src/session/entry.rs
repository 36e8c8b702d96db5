//! The only way into a collective call. First a call *arrives*: it gives up unfinished work, and settles the revision
//! under way. Then the ranks *enter* with the first all-reduce of the call. It has one shape for all calls. It shows
//! whether all ranks make the same call, and the outcome of the last revision.
//!
//! Invariant: ranks that make different calls wait for each other in that all-reduce, and nowhere before it.

use super::{
    agreement::{Agreement, LevelFacts},
    attempt::Attempt,
    changed::ChangeTracker,
    flag::EqualOnAllRanks,
    level::{Level, LevelKind},
    ranks::Entered,
    state::SessionState,
};
use crate::{
    error::{Error, Result, numbered},
    ground::Instant,
    group::{Group, agree},
    mutant::{self, Mutant},
};
use std::{iter, ops::Range};

/// A call that has settled the last revision, and has not met the other ranks yet.
#[must_use]
pub(super) struct Arrival {
    call: Call,
    /// The outcome of the last revision on this rank, if the call settles it.
    previous: Result<()>,
}

/// The facts that the ranks have exchanged.
pub(super) struct AgreedFacts {
    pub(super) all: Agreement,
    /// Whether the last revision has failed on the nearest level.
    pub(super) has_failed: bool,
    /// The outcome of the last revision on this rank.
    previous: Result<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Begin,
    Checkpoint,
    Put,
    Abandon,
    Wait,
    WaitFor,
    Restore,
    Choose,
    Get,
    GetBytes,
    Saved,
    Revisions,
    BringShards,
    HoldCopies,
    Due,
    DueNow,
    Close,
}

impl Call {
    /// The call's name in Rust and Python, and behind `mainstay_` in C. (`wait_for` is `wait` with a level in Python.)
    fn name(self) -> &'static str {
        match self {
            Call::Begin => "begin",
            Call::Checkpoint => "checkpoint",
            Call::Put => "put",
            Call::Abandon => "abandon",
            Call::Wait => "wait",
            Call::WaitFor => "wait_for",
            Call::Restore => "restore",
            Call::Choose => "choose",
            Call::Get => "get",
            Call::GetBytes => "get_bytes",
            Call::Saved => "saved",
            Call::Revisions => "revisions",
            Call::BringShards => "bring_shards",
            Call::HoldCopies => "hold_copies",
            Call::Due => "due",
            Call::DueNow => "due_now",
            Call::Close => "close",
        }
    }

    /// Whether the call waits for the last revision on the nearest level. The calls that ask whether a checkpoint is due
    /// do not, because programs make them often.
    fn settles(self) -> bool {
        match self {
            Call::Due | Call::DueNow => false,
            Call::Wait => !mutant::is(Mutant::WaitsForNothing),
            _ => true,
        }
    }

    /// Whether the call may write roots to the nearest portion apart from those of a revision.
    fn writes_roots(self) -> bool {
        self.goes_back() || matches!(self, Call::Abandon | Call::Close)
    }

    /// Whether the call goes back past the last revision.
    fn goes_back(self) -> bool {
        matches!(self, Call::Restore | Call::Choose)
    }

    pub(super) fn begins(self) -> bool {
        matches!(self, Call::Begin | Call::Checkpoint | Call::Put)
    }
}

impl SessionState {
    /// Gives up an unfinished checkpoint, and waits for the revision under way if `call` settles it. An error is on
    /// this rank alone: the session is over.
    pub(super) fn arrive(&mut self, call: Call) -> Result<Arrival> {
        if let Some(over) = &self.epoch.over {
            return Err(over.clone());
        }
        self.fail_unfinished();
        if call.settles() {
            self.levels.iter_mut().for_each(Level::end_mending);
        }
        if call.writes_roots() {
            self.resources.changing.iter_mut().for_each(ChangeTracker::forget_early);
        }
        self.progress()?;
        let previous = if call.settles() { self.levels.nearest_mut().settle() } else { Ok(()) };
        Ok(Arrival { call, previous })
    }

    /// Makes the first all-reduce of a call. An error is the same on all ranks, or one of the group. Collective.
    pub(super) fn enter(&mut self, arrival: Arrival, mine: Agreement) -> Result<(Entered, AgreedFacts)> {
        let Arrival { call, previous } = arrival;
        let waits_asleep = self.epoch.group.wait_asleep().into();
        let untold = (!self.program.knows_failure).into();
        let mut mine = Agreement { call: EqualOnAllRanks::of(call as u64), waits_asleep, untold, ..mine };
        for (level, facts) in self.levels.iter().zip(&mut mine.levels) {
            let LevelFacts { under_way, failed, busy, .. } = level.facts();
            let busy = (busy.is_set() || facts.busy.is_set()).into();
            *facts = LevelFacts { under_way, failed, busy, ..*facts };
        }
        // Only a call that settles the revision reports its failure; in other calls `previous` is `Ok`.
        mine.levels[0].failed = (previous.is_err() && !mutant::is(Mutant::FailureNotTold)).into();
        let met = match self.epoch.group.meet(mine) {
            // The revision stays under way. The next call that all ranks make together reports its outcome.
            Ok((_, None)) => return Err(self.tell_apart(call)),
            Ok((all, Some(entry))) => Ok((all, entry)),
            Err(error) => Err(error),
        };
        let (rank, ranks) = (self.epoch.group.rank(), self.epoch.group.size());
        let (nearest, farther) = self.levels.split();
        let ended = if call.settles() { nearest.saving.take() } else { None };
        let (all, entry) = met?;
        // If no rank writes or is about to write, this rank may keep its processor busy while it waits.
        let is_quiet = !call.begins() && !all.levels.iter().any(|facts| facts.busy.is_set());
        self.epoch.group.wait_eagerly(&entry, is_quiet && !all.waits_asleep.is_set());
        for (level, facts) in farther.iter_mut().zip(&all.levels[1..]) {
            level.settle_farther(facts, ranks);
        }
        self.levels.note_joint(rank);
        if !call.settles() {
            self.tell();
            return Ok((entry, AgreedFacts { all, has_failed: false, previous: Ok(()) }));
        }
        self.levels.keep_for_feeding(None);
        let nearest = self.levels.nearest_mut();
        let LevelFacts { failed, under_way, .. } = all.levels[0];
        let previous = if failed.is_set() { previous } else { same_revision(under_way) };
        let has_failed = failed.is_set() || previous.is_err();
        if let Some(key) = ended.as_ref().and_then(Attempt::key).filter(|_| !has_failed) {
            nearest.complete = nearest.complete_with(Some(key), ranks);
            nearest.history.failing.is_over();
            self.report.iter().for_each(|report| report.complete(key));
        }
        if has_failed {
            nearest.history.failing.again(&previous);
        }
        // Remove old layouts here too: a job may take only one checkpoint. A call that begins one checks for new holds
        // first.
        if !call.begins() {
            self.levels.iter_mut().for_each(|level| level.drop_old_layouts(rank));
        }
        self.tell();
        Ok((entry, AgreedFacts { all, has_failed, previous }))
    }

    /// Meets the other ranks in a call that has arrived, before it enters. This all-reduce shows only whether all make
    /// the same call. Collective.
    pub(super) fn meet(&mut self, call: Call) -> Result<Entered> {
        let mine = Agreement { call: EqualOnAllRanks::of(call as u64), ..Agreement::default() };
        let (_, entry) = self.epoch.group.meet(mine)?;
        entry.ok_or_else(|| self.tell_apart(call))
    }

    /// Waits for all levels, arrives and enters, for calls that exchange only whether this rank is `ready`. If one rank
    /// is not, all ranks get the same named error. An error of the last revision comes first. Calls that go back past
    /// that revision ignore it. Collective.
    pub(super) fn enter_ready(&mut self, call: Call, ready: Result<()>) -> Result<Entered> {
        let (entry, outcome) = self.enter_waiting(call, None, ready)?;
        outcome.map(|()| entry)
    }

    /// The same, but an error comes apart from the entry, which the call then has in any case. `only`: waits for no other
    /// farther level. Refuses ranks that wait for different levels.
    pub(super) fn enter_waiting(
        &mut self,
        call: Call,
        only: Option<LevelKind>,
        ready: Result<()>,
    ) -> Result<(Entered, Result<()>)> {
        let is_awaited = |level: &&mut Level| {
            only.is_none_or(|kind| level.location.kind == kind) && !mutant::is(Mutant::FartherNotAwaited)
        };
        self.levels.split().1.iter_mut().filter(is_awaited).for_each(|level| drop(level.settle()));
        let arrival = self.arrive(call)?;
        if !mutant::is(Mutant::CopiesNotAwaited) {
            self.finish_copies(call, only)?;
        }
        let level = EqualOnAllRanks::of(only.map_or(0, |kind| 1 + kind as u64));
        let (entry, agreed) =
            self.enter(arrival, Agreement { level, not_ready: ready.is_err().into(), ..Agreement::default() })?;
        let (group, is_ready) = (self.epoch.group.with(&entry), !agreed.all.not_ready.is_set());
        let same = same_level(agreed.all.level);
        let previous = if call.goes_back() { Ok(()) } else { agreed.previous(group) };
        self.levels.nearest_mut().history.failing.because(&previous);
        let outcome = if previous.is_err() || is_ready { previous.and(same) } else { agree(group, ready) };
        Ok((entry, outcome))
    }
}

impl SessionState {
    /// Reports to all ranks which calls they made; they know that the calls differ. If one was `close`, the session is
    /// over on all ranks. Collective.
    fn tell_apart(&mut self, call: Call) -> Error {
        let names = match self.epoch.group.names_of_calls(call.name()) {
            Ok(names) => names,
            Err(error) => return error,
        };
        // Some ranks may have counted a call of `due` that others have not: all ranks meet at the next one.
        self.program.due.schedule.meet_next(Instant::now());
        let is_over = names.iter().any(|name| name == Call::Close.name());
        let error = Error::CallMismatch { calls: ranks_by_call(&names), is_over };
        self.epoch.over = is_over.then(|| error.clone());
        error
    }
}

/// Refuses ranks that have different revisions under way: they would give up the only complete one.
fn same_revision(under_way: EqualOnAllRanks) -> Result<()> {
    if under_way.is_so() {
        return Ok(());
    }
    let why = "the ranks have different revisions under way, or some have none; begin, end and give up each checkpoint on all \
               ranks";
    Err(Error::argument("checkpoint", why))
}

/// Refuses ranks that wait for different levels: some would take a level for complete that is not.
fn same_level(level: EqualOnAllRanks) -> Result<()> {
    if level.is_so() {
        return Ok(());
    }
    let name = |number: u64| LevelKind::ALL.get(number as usize - 1).map_or("none", |kind| kind.name());
    let (one, other) = (name(level.lowest()), name(level.highest()));
    let why = format!("some ranks wait for {one} and some for {other}; wait for the same level on all of them");
    Err(Error::argument("level", why))
}

/// The calls and their ranks: "rank 0 called checkpoint, ranks 1 to 3 close". Each call appears once, in the order of
/// its first rank.
fn ranks_by_call(names: &[String]) -> String {
    let mut calls: Vec<(&str, Vec<Range<u32>>)> = Vec::new();
    for (rank, name) in (0..).zip(names) {
        let at = calls.iter().position(|(call, _)| call == name).unwrap_or_else(|| {
            calls.push((name, Vec::new()));
            calls.len() - 1
        });
        match calls[at].1.last_mut() {
            Some(last) if last.end == rank => last.end += 1,
            _ => calls[at].1.push(rank..rank + 1),
        }
    }
    let verbs = iter::once(" called").chain(iter::repeat(""));
    let text =
        |((call, ranks), verb): (&(&str, Vec<Range<u32>>), &str)| format!("{}{verb} {call}", numbered("rank", ranks));
    calls.iter().zip(verbs).map(text).collect::<Vec<_>>().join(", ")
}

impl AgreedFacts {
    /// The outcome of the last revision: the same named error on all ranks if it failed. Collective in that case.
    pub(super) fn previous(self, group: &dyn Group) -> Result<()> {
        if self.has_failed { agree(group, self.previous) } else { Ok(()) }
    }

    /// The same for a call that begins a checkpoint. A failure that all programs know already does not prevent the next
    /// checkpoint: its cause may be gone by now.
    pub(super) fn untold(self, group: &dyn Group) -> Result<()> {
        let is_known = self.all.levels[0].failed.is_set() && !self.all.untold.is_set();
        if is_known { Ok(()) } else { self.previous(group) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_told_once_with_its_ranks() {
        let calls = |names: &[&str]| ranks_by_call(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(calls(&["checkpoint", "close"]), "rank 0 called checkpoint, rank 1 close");
        assert_eq!(calls(&["wait", "put", "put", "put"]), "rank 0 called wait, ranks 1 to 3 put");
        assert_eq!(calls(&["get", "due", "get", "get"]), "ranks 0, 2 to 3 called get, rank 1 due");
    }
}

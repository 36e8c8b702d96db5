//! The events in a space, from its journal and its contents.

use mainstay_engine::{
    LevelKind, Places, Result, SpaceSurvey,
    space::format::{PhaseRecord, SavedEarly},
    status::{Completion, Event, Journal, Opening, Recovery, was_closed},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// A revision: its lineage and number.
pub type Key = (u64, u64);

pub struct History {
    /// The path, as it is.
    pub space: String,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Oldest first.
    pub starts: Vec<Start>,
    /// Nearest level first, each before its copies.
    pub rows: Vec<Row>,
    pub recoveries: Vec<Recovered>,
    pub failures: Vec<Failed>,
    /// How often a level was busy at its turn, over all starts.
    pub passed_over: BTreeMap<LevelKind, u64>,
    /// Unreadable parts.
    pub unseen: Vec<String>,
    /// The step of each revision, if it is known.
    steps: BTreeMap<Key, u64>,
}

/// A job that had the space open.
pub struct Start {
    pub opening: Opening,
    pub opened_ns: u64,
    /// Time of its close, or of its last sign of life.
    pub end_ns: u64,
    pub end: End,
    /// The reason that it ended without closing the space, if `mainstay run` saw it.
    pub died_of: Option<String>,
    /// The revision that it began with; `None` if it began anew, or went on without asking.
    pub restored: Option<Key>,
    /// It has saved something, or recovered: a later restore is not its begin.
    has_begun: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    /// It did not close the space, and no job has the space open.
    Died,
    AtWork,
}

/// A level, or a copy of one.
pub struct Row {
    pub level: LevelKind,
    pub copy: u32,
    pub checkpoints: Vec<Checkpoint>,
}

/// A revision that was complete there. Sizes and times are those of rank 0's shard.
pub struct Checkpoint {
    pub key: Key,
    pub t1_ns: u64,
    /// `None` if rank 0 does not see the shard, as in copies of other nodes.
    pub phases: Option<PhaseRecord>,
    pub bytes: Option<u64>,
    pub step: Option<u64>,
    /// The result of saving early before it; `None` without a predictor.
    pub saved_early: Option<SavedEarly>,
    /// How often `due` had put it off.
    pub put_off: u64,
}

pub struct Recovered {
    pub recovery: Recovery,
    pub steps_lost: Option<u64>,
}

pub struct Failed {
    pub unix_ns: u64,
    pub level: LevelKind,
    pub why: String,
}

impl History {
    /// The history of the space in the directory `space`. Errors come from its survey.
    pub fn of(space: &Path) -> Result<History> {
        let survey = SpaceSurvey::open(space)?;
        let Places { all: places, mut unseen } = Places::of(space);
        let mut entries = Vec::new();
        for place in &places {
            match Journal::read(&place.directory) {
                Ok(Some(journal)) => {
                    entries.extend(journal.entries);
                    if journal.passed_over > 0 {
                        unseen.push(format!(
                            "{} lines of the journal in {} are of an unknown kind",
                            journal.passed_over,
                            place.directory.display()
                        ));
                    }
                }
                Ok(None) => {}
                Err(error) => unseen.push(error.to_string()),
            }
        }
        entries.sort_by_key(|entry| entry.unix_ns);
        let mut history = History {
            space: survey.path.clone(),
            begin_ns: 0,
            end_ns: 0,
            starts: Vec::new(),
            rows: Vec::new(),
            recoveries: Vec::new(),
            failures: Vec::new(),
            passed_over: BTreeMap::new(),
            unseen,
            steps: BTreeMap::new(),
        };
        let recovered: BTreeSet<u64> = entries.iter().filter_map(|entry| went_on_under(&entry.event)).collect();
        for entry in entries {
            history.take(entry.unix_ns, entry.event, &recovered);
        }
        history.add_survey(&survey);
        history.end(&survey, was_closed(space, &survey));
        Ok(history)
    }

    fn take(&mut self, unix_ns: u64, event: Event, recovered: &BTreeSet<u64>) {
        let is_new = |opening: &Opening| self.starts.is_empty() || !recovered.contains(&opening.lineage);
        if let Event::Opened(opening) = &event
            && is_new(opening)
        {
            let (opening, opened_ns) = (opening.clone(), unix_ns);
            let (end, died_of, restored) = (End::Died, None, None);
            self.starts.push(Start { opening, opened_ns, end_ns: unix_ns, end, died_of, restored, has_begun: false });
            return;
        }
        if let Some(start) = self.starts.last_mut().filter(|start| start.end != End::Closed) {
            start.end_ns = unix_ns;
        }
        match event {
            // The same job, which has opened its space again after a failure.
            Event::Opened(_) => self.has_begun(),
            Event::Restored { lineage, revision, step, .. } => {
                self.steps.extend(step.map(|step| ((lineage, revision), step)));
                if let Some(start) = self.starts.last_mut().filter(|start| !start.has_begun) {
                    start.restored = Some((lineage, revision));
                }
            }
            Event::Complete(complete) => {
                self.has_begun();
                self.add(complete, unix_ns);
            }
            Event::Failed { level, why, .. } => self.failures.push(Failed { unix_ns, level, why }),
            Event::PassedOver { level, .. } => *self.passed_over.entry(level).or_default() += 1,
            Event::Recovered(recovery) => self.recoveries.push(Recovered { recovery, steps_lost: None }),
            Event::Closed => {
                if let Some(start) = self.starts.last_mut() {
                    start.end = End::Closed;
                }
            }
            Event::Died { why } => {
                if let Some(start) = self.starts.last_mut().filter(|start| start.end != End::Closed) {
                    start.died_of = Some(why);
                }
            }
        }
    }

    /// The last start at `unix_ns` that is known to have been alive then.
    fn lived(&mut self, unix_ns: u64) {
        let next = self.starts.partition_point(|start| start.opened_ns <= unix_ns);
        let below = self.starts.get(next).map_or(u64::MAX, |next| next.opened_ns);
        if let Some(start) = next.checked_sub(1).and_then(|last| self.starts.get_mut(last)) {
            start.has_begun = true;
            if start.end != End::Closed && start.died_of.is_none() {
                start.end_ns = start.end_ns.max(unix_ns).min(below);
            }
        }
    }

    fn has_begun(&mut self) {
        if let Some(start) = self.starts.last_mut() {
            start.has_begun = true;
        }
    }

    fn row(&mut self, level: LevelKind, copy: u32) -> &mut Row {
        let at = self.rows.iter().position(|row| (row.level, row.copy) >= (level, copy)).unwrap_or(self.rows.len());
        if self.rows.get(at).is_none_or(|row| (row.level, row.copy) != (level, copy)) {
            self.rows.insert(at, Row { level, copy, checkpoints: Vec::new() });
        }
        &mut self.rows[at]
    }

    fn add(&mut self, complete: Completion, unix_ns: u64) {
        let Completion { level, copy, lineage, revision, step, bytes, phases, saved_early, put_off } = complete;
        let key = (lineage, revision);
        // If the shard is out of sight, take the time of the level.
        let own = self.rows.iter().find(|row| row.level == level && row.copy == 0);
        let own = own.and_then(|row| row.checkpoints.iter().rev().find(|checkpoint| checkpoint.key == key));
        let t1_ns = phases.map(|phases| phases.t1_unix_ns).or(own.map(|own| own.t1_ns)).unwrap_or(unix_ns);
        let step = step.or(own.and_then(|own| own.step));
        let checkpoints = &mut self.row(level, copy).checkpoints;
        // A revision that was made again is there once.
        checkpoints.retain(|checkpoint| checkpoint.key != key);
        checkpoints.push(Checkpoint { key, t1_ns, phases, bytes, step, saved_early, put_off });
    }

    /// Adds revisions that are in the space but in no journal, such as those of a job that was killed before it wrote
    /// one.
    fn add_survey(&mut self, survey: &SpaceSurvey) {
        for revision in survey.revisions.iter().filter(|revision| revision.complete) {
            let key = (revision.key.lineage.number, revision.key.number);
            self.lived(revision.t1_unix_ns());
            let row = self.row(LevelKind::Pfs, 0);
            let shard = revision.shards.iter().find(|shard| shard.shard == 0);
            if let Some(shard) = shard.filter(|_| row.checkpoints.iter().all(|checkpoint| checkpoint.key != key)) {
                let (t1_ns, phases) = (shard.phases.t1_unix_ns, Some(shard.phases));
                row.checkpoints.push(Checkpoint {
                    key,
                    t1_ns,
                    phases,
                    bytes: Some(shard.bytes),
                    step: Some(shard.phases.step).filter(|step| *step > 0),
                    saved_early: None,
                    put_off: 0,
                });
            }
        }
        self.rows.iter_mut().for_each(|row| row.checkpoints.sort_by_key(|checkpoint| checkpoint.t1_ns));
    }

    fn end(&mut self, survey: &SpaceSurvey, was_closed: bool) {
        if let Some(start) = self.starts.last_mut().filter(|start| start.end == End::Died && start.died_of.is_none()) {
            match (survey.in_use, was_closed) {
                (Some(true), _) => start.end = End::AtWork,
                // The journal could no longer be written.
                (Some(false), true) => start.end = End::Closed,
                _ => {}
            }
        }
        let steps = &mut self.steps;
        for checkpoint in self.rows.iter().flat_map(|row| &row.checkpoints) {
            steps.extend(checkpoint.step.map(|step| (checkpoint.key, step)));
        }
        for recovered in &mut self.recoveries {
            let back = recovered.recovery.back_to.map(|back| (back.lineage, back.revision));
            let from = match back {
                Some(key) => steps.get(&key).copied(),
                None => Some(0),
            };
            recovered.steps_lost = from.zip(recovered.recovery.step).map(|(from, step)| step.saturating_sub(from));
        }
        let checkpoints = self.rows.iter().flat_map(|row| &row.checkpoints);
        let times = checkpoints.flat_map(|checkpoint| [checkpoint.t1_ns, checkpoint.t3_ns()]);
        let times = times.chain(self.starts.iter().flat_map(|start| [start.opened_ns, start.end_ns]));
        let times = times.chain(self.recoveries.iter().map(|recovered| recovered.recovery.noticed_unix_ns));
        let times: Vec<u64> = times.filter(|ns| *ns > 0).collect();
        self.begin_ns = times.iter().min().copied().unwrap_or(0);
        self.end_ns = times.iter().max().copied().unwrap_or(0);
    }
}

/// The lineage of a recovery's opening.
fn went_on_under(event: &Event) -> Option<u64> {
    match event {
        Event::Recovered(recovery) => Some(recovery.lineage),
        _ => None,
    }
}

impl Start {
    /// Its begin, in words.
    pub fn began_with(&self) -> String {
        match self.restored {
            Some((lineage, revision)) => format!("revision {revision} (lineage {lineage})"),
            None if self.has_begun || self.end == End::Closed => "the beginning".to_owned(),
            None => "not known".to_owned(),
        }
    }
}

impl Row {
    pub fn name(&self) -> String {
        match self.copy {
            0 => self.level.name().to_owned(),
            copy => format!("{}, copy {copy}", self.level.name()),
        }
    }
}

impl Checkpoint {
    /// Time when the program went on.
    pub fn t2_ns(&self) -> u64 {
        self.t1_ns.saturating_add(self.phases.map_or(0, |phases| phases.perceived_ns))
    }

    /// t3 − t1, if known.
    pub fn durable_ns(&self) -> Option<u64> {
        self.phases.map(|phases| phases.durable_ns).filter(|ns| *ns > 0)
    }

    /// t2 − t1, if known.
    pub fn perceived_ns(&self) -> Option<u64> {
        self.phases.map(|phases| phases.perceived_ns).filter(|ns| *ns > 0)
    }

    /// Time when the data was durable, if known.
    pub fn t3_ns(&self) -> u64 {
        let durable_ns = self.phases.map_or(0, |phases| phases.durable_ns);
        self.t2_ns().max(self.t1_ns.saturating_add(durable_ns))
    }
}

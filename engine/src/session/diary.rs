//! Collects the events of a session for the journal of its space, on rank 0.
//!
//! Invariant: in a session with one level, a checkpoint costs the file system nothing extra. Openings, restores and
//! failures are written at once. Notes of checkpoints stay in memory until the next such event, or until the session
//! ends.

use super::level::{Level, LevelKind};
use crate::{
    commit::RevisionKey,
    ground::{process_id, unix_ns},
    group::host_name,
    printable::shortened,
    space::format::SavedEarly,
    status::{Completion, EVENTS_MAX, Event, Job, JournalEntry, Opening, Recovery, StatusWriter},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    path::{Path, PathBuf},
};

/// The most entries of a list of texts.
const TEXTS_MAX: usize = 20;

pub(super) struct Diary {
    directory: PathBuf,
    entries: Vec<JournalEntry>,
    /// An entry must be written before the session ends.
    is_urgent: bool,
    /// The writer of a session with one level, once there was an entry to write.
    writer: Option<StatusWriter>,
    /// Facts about revisions that may still become complete.
    begun: BTreeMap<RevisionKey, BegunAt>,
    levels: Vec<Noted>,
}

/// Facts known when a revision begins: its step, if the program gave one, the result of early saving, and how often
/// `due` put it off.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BegunAt {
    pub(super) step: Option<u64>,
    pub(super) saved_early: Option<SavedEarly>,
    pub(super) put_off: u64,
}

/// The state of a level or copy when it was last noted.
#[derive(Default)]
struct Noted {
    kind: LevelKind,
    is_copy: bool,
    complete: BTreeSet<RevisionKey>,
    failures: u64,
    passed_over: u64,
}

impl Noted {
    /// Revisions that are there already are not new.
    fn of(level: &Level) -> Noted {
        let complete = level.complete.iter().map(|complete| complete.key).collect();
        Noted { kind: level.location.kind, is_copy: level.is_copy(), complete, ..Noted::default() }
    }
}

impl Diary {
    /// Starts the diary of the space in `directory`. `opening` still lacks the levels and the process. Revisions that
    /// are there already are not new.
    pub(super) fn begin(directory: &Path, levels: &[Level], opening: Opening) -> Diary {
        let mut kinds: Vec<(LevelKind, u32)> = Vec::new();
        for level in levels.iter().filter(|level| !level.is_former()) {
            match kinds.last_mut().filter(|_| level.is_copy()) {
                Some((_, copies)) => *copies += 1,
                None => kinds.push((level.location.kind, 0)),
            }
        }
        let mut diary = Diary {
            directory: directory.to_owned(),
            entries: Vec::new(),
            is_urgent: false,
            writer: None,
            begun: BTreeMap::new(),
            levels: levels.iter().map(Noted::of).collect(),
        };
        let host = shortened(&host_name());
        diary.note(Event::Opened(Opening { host, pid: process_id(), levels: kinds, ..opening }));
        diary
    }

    fn note(&mut self, event: Event) {
        if self.entries.len() == EVENTS_MAX {
            self.entries.remove(0);
        }
        self.is_urgent |= matches!(
            event,
            Event::Opened(_) | Event::Restored { .. } | Event::Failed { .. } | Event::Recovered(_) | Event::Closed
        );
        self.entries.push(JournalEntry { unix_ns: unix_ns(), event });
    }

    /// Takes over the entries of `before`, the diary of the session that this one continues.
    pub(super) fn take_over(&mut self, mut before: Diary) {
        self.note_before(mem::take(&mut before.entries));
        self.is_urgent |= before.is_urgent;
        // Revisions that became complete since then are new.
        let is_same = |(now, before): (&Noted, &Noted)| (now.kind, now.is_copy) == (before.kind, before.is_copy);
        if before.levels.len() >= self.levels.len() && self.levels.iter().zip(&before.levels).all(is_same) {
            let levels = mem::take(&mut before.levels).into_iter();
            self.levels = levels.map(|noted| Noted { failures: 0, passed_over: 0, ..noted }).collect();
        }
    }

    /// Puts entries before all entries that are here.
    pub(super) fn note_before(&mut self, earlier: Vec<JournalEntry>) {
        let later = mem::take(&mut self.entries);
        self.entries = earlier.into_iter().chain(later).collect();
    }

    /// Notes that `key` began.
    pub(super) fn begun(&mut self, key: RevisionKey, at: BegunAt) {
        self.begun.insert(key, at);
    }

    /// Notes the revisions that `levels` got since the last call, their failures, and the turns that passed them over.
    pub(super) fn look(&mut self, levels: &[Level]) {
        let mut noted = mem::take(&mut self.levels);
        // Add the levels that were opened later.
        noted.extend(levels.iter().skip(noted.len()).map(Noted::of));
        let (mut kind, mut copy) = (LevelKind::default(), 0);
        for (level, noted) in levels.iter().zip(&mut noted) {
            (kind, copy) = if level.is_copy() { (kind, copy + 1) } else { (level.location.kind, 0) };
            let complete: BTreeSet<RevisionKey> = level.complete.iter().map(|complete| complete.key).collect();
            // The level keeps few revisions, so a search is cheap.
            for key in complete.difference(&noted.complete) {
                let shard = level.complete.iter().find(|complete| complete.key == *key);
                let shard = shard.and_then(|complete| level.stored(0, complete));
                let BegunAt { step, saved_early, put_off } = self.begun.get(key).copied().unwrap_or_default();
                let phases = shard.as_ref().map(|(_, kept)| kept.entry.phases);
                let kept_step = phases.map(|phases| phases.step).filter(|step| *step > 0);
                self.note(Event::Complete(Completion {
                    level: kind,
                    copy,
                    lineage: key.lineage.number,
                    revision: key.number,
                    step: step.or(kept_step),
                    bytes: shard.map(|(_, kept)| kept.entry.bytes),
                    phases,
                    saved_early,
                    put_off,
                }));
            }
            noted.complete = complete;
            let failures = level.history.failing.failures();
            if failures.in_a_row > noted.failures {
                let (in_a_row, why) = (failures.in_a_row, failures.why.clone());
                self.note(Event::Failed { level: kind, in_a_row, why });
            }
            noted.failures = failures.in_a_row;
            if level.history.passed_over > noted.passed_over {
                self.note(Event::PassedOver { level: kind, times: level.history.passed_over });
            }
            noted.passed_over = level.history.passed_over;
        }
        self.levels = noted;
        // Facts are still needed for revisions that a level keeps or that are on their way.
        if let Some(newest) = self.begun.last_key_value().map(|(key, _)| *key) {
            let kept: BTreeSet<RevisionKey> = self.levels.iter().flat_map(|level| &level.complete).copied().collect();
            let under_way: BTreeSet<RevisionKey> = levels.iter().flat_map(Level::keys_under_way).collect();
            self.begun.retain(|key, _| *key == newest || kept.contains(key) || under_way.contains(key));
        }
    }

    pub(super) fn restored(&mut self, key: RevisionKey, step: Option<u64>, took_ns: u64, skipped: &[String]) {
        let (lineage, revision) = (key.lineage.number, key.number);
        let skipped = skipped.iter().take(TEXTS_MAX).map(|what| shortened(what)).collect();
        self.note(Event::Restored { lineage, revision, step, took_ns, skipped });
    }

    pub(super) fn recovered(&mut self, mut recovery: Recovery) {
        recovery.lost.truncate(TEXTS_MAX);
        self.note(Event::Recovered(recovery));
    }

    pub(super) fn closed(&mut self) {
        self.note(Event::Closed);
    }

    /// Writes the entries. A session with one level (no `writer`) writes only if an entry is urgent.
    pub(super) fn hand_over(&mut self, writer: Option<&StatusWriter>) {
        if let Some(writer) = writer {
            if !self.entries.is_empty() {
                writer.note(mem::take(&mut self.entries));
            }
        } else if mem::take(&mut self.is_urgent) {
            self.write();
        }
    }

    /// Waits until the journal has all entries that were handed over.
    pub(super) fn await_noted(&self) {
        self.writer.iter().for_each(StatusWriter::await_noted);
    }

    fn write(&mut self) {
        if self.writer.is_none() {
            // Without a thread there is no journal; nothing else is lost.
            self.writer = StatusWriter::start(vec![self.directory.clone()], Job::default()).ok();
        }
        if let Some(writer) = &self.writer {
            writer.note(mem::take(&mut self.entries));
        }
    }
}

impl Drop for Diary {
    fn drop(&mut self) {
        if !self.entries.is_empty() {
            self.write();
        }
    }
}

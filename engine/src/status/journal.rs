//! The journal: the events in a space, one line of JSON each, over all jobs that had it open.
//!
//! Invariant: a journal that a crash cut short, or that another program has written, harms no reader. It always stays
//! below a size limit.

use super::{
    bounds::{NUMBER_MAX, RANKS_MAX, TEXT_BYTES_MAX},
    recovery::Recovery,
};
use crate::{
    device::hand_over,
    error::{Error, Result},
    ground::{
        change,
        files::{Open, put_in_place},
    },
    printable::{is_seen, printable_path},
    space::{
        JOURNAL_FILE, JOURNAL_UNFINISHED, LevelKind,
        format::{PhaseRecord, SavedEarly},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, VecDeque},
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Maximum number of events kept, the newest.
pub(crate) const EVENTS_MAX: usize = 10_000;
/// Number of further events before the oldest are removed, which takes a new file.
const EVENTS_MORE: usize = 2_000;
/// A longer file is not as Mainstay writes it; only its end is read.
const FILE_BYTES_MAX: u64 = 64 << 20;
const LINE_BYTES_MAX: usize = 256 << 10;
const TEXTS_MAX: usize = 100;

/// An event, and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Time of writing, nanoseconds since 1970.
    pub unix_ns: u64,
    #[serde(flatten)]
    pub event: Event,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A job has opened the space, or goes on with it after a failure.
    Opened(Opening),
    /// The program has its state back from a revision that was begun at this step.
    Restored { lineage: u64, revision: u64, step: Option<u64>, took_ns: u64, skipped: Vec<String> },
    /// A revision is complete on a level, or on a copy of one.
    Complete(Completion),
    /// A level did not get a revision; `in_a_row`: how many in a row.
    Failed { level: LevelKind, in_a_row: u64, why: String },
    /// A level was busy at its turn; `times`: how often since the job began.
    PassedOver { level: LevelKind, times: u64 },
    /// The job went on after a failure.
    Recovered(Recovery),
    /// The job has ended normally.
    Closed,
    /// The job has ended without that, as reported by `mainstay run`, which had started it.
    Died { why: String },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    pub lineage: u64,
    pub ranks: u32,
    /// 0: unknown, for a job with one level.
    pub nodes: u32,
    /// Host of rank 0.
    pub host: String,
    pub pid: u32,
    /// Nearest first, each with its number of copies on other nodes.
    pub levels: Vec<(LevelKind, u32)>,
    /// Maximum time between two checkpoints; 0 if the program alone decides.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub every_ns: u64,
}

/// Sizes and times are those of rank 0's shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    pub level: LevelKind,
    /// 0: the level itself.
    pub copy: u32,
    pub lineage: u64,
    pub revision: u64,
    /// The step that the program had passed to `due` at t1.
    pub step: Option<u64>,
    pub bytes: Option<u64>,
    /// `None` if rank 0 cannot see the shard.
    pub phases: Option<PhaseRecord>,
    /// Result of speculative saving before it; `None` without a predictor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_early: Option<SavedEarly>,
    /// Number of times that `due` had put it off, because the previous revision was still in progress.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub put_off: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A journal, as far as it could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    /// Oldest first.
    pub entries: Vec<JournalEntry>,
    /// Number of unknown lines: left by a crash, or by a newer version.
    pub passed_over: usize,
}

impl Journal {
    /// The journal in `directory`; `None` if there is none. `Io` if it cannot be read.
    pub fn read(directory: &Path) -> Result<Option<Journal>> {
        let path = directory.join(JOURNAL_FILE);
        let failed = |e| Error::io("reading", printable_path(&path), e);
        let file = match Open::to_read().file(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        end_of(file).and_then(Self::of).map(Some).map_err(failed)
    }

    fn of(mut lines: impl BufRead) -> io::Result<Journal> {
        let (mut kept, mut passed_over, mut recovered) = (VecDeque::new(), 0, BTreeSet::new());
        while let Some(line) = next_line(&mut lines)? {
            match JournalEntry::parse(&line) {
                // Rank 0 failed after it wrote this, and its replacement did not know that.
                Some(JournalEntry { event: Event::Recovered(Recovery { lineage, .. }), .. })
                    if lineage > 0 && !recovered.insert(lineage) => {}
                Some(entry) => {
                    if kept.len() == EVENTS_MAX + EVENTS_MORE {
                        kept.pop_front();
                    }
                    kept.push_back(entry);
                }
                None => passed_over += 1,
            }
        }
        Ok(Journal { entries: kept.into(), passed_over })
    }
}

/// The lines of a journal, from the start of a line; of a file that is too long, those at its end.
fn end_of(mut file: File) -> io::Result<impl BufRead> {
    let passed_over = file.metadata()?.len().saturating_sub(FILE_BYTES_MAX);
    file.seek(SeekFrom::Start(passed_over))?;
    let mut lines = BufReader::new(file.take(FILE_BYTES_MAX));
    if passed_over > 0 {
        lines.skip_until(b'\n')?;
    }
    Ok(lines)
}

/// The next line that is not empty; of a line that is too long, enough to reject it.
fn next_line(lines: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    loop {
        let mut line = Vec::new();
        if lines.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.len() > LINE_BYTES_MAX && !line.ends_with(b"\n") {
            lines.skip_until(b'\n')?;
        }
        if line != b"\n" {
            return Ok(Some(line));
        }
    }
}

impl JournalEntry {
    fn parse(line: &[u8]) -> Option<JournalEntry> {
        serde_json::from_slice(line).ok().filter(JournalEntry::is_sound)
    }

    pub(crate) fn line(&self) -> String {
        // It contains only numbers and texts, which JSON can represent.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Whether the values are possible: the file may come from anyone.
    fn is_sound(&self) -> bool {
        let is_text = |text: &String| text.len() <= TEXT_BYTES_MAX && text.chars().all(is_seen);
        let is_number = |number: u64| number < NUMBER_MAX;
        is_number(self.unix_ns)
            && match &self.event {
                Event::Opened(opening) => {
                    let Opening { lineage, ranks, nodes, host, levels, every_ns, .. } = opening;
                    is_number(*lineage)
                        && is_number(*every_ns)
                        && (1..=RANKS_MAX).contains(ranks)
                        && nodes <= ranks
                        && is_text(host)
                        && levels.len() <= TEXTS_MAX
                        && levels.iter().all(|(_, copies)| *copies < RANKS_MAX)
                }
                Event::Restored { lineage, revision, step, took_ns, skipped } => {
                    [lineage, revision, took_ns].into_iter().chain(step).all(|number| is_number(*number))
                        && skipped.len() <= TEXTS_MAX
                        && skipped.iter().all(is_text)
                }
                Event::Complete(Completion {
                    copy,
                    lineage,
                    revision,
                    step,
                    bytes,
                    phases,
                    saved_early,
                    put_off,
                    ..
                }) => {
                    let blocks = saved_early.iter().flat_map(|of| [of.dirty, of.early, of.saved, of.wasted]);
                    let times = phases.iter().flat_map(|phases| {
                        let PhaseRecord { t1_unix_ns, communication_ns, buffer_wait_ns, copy_ns, .. } = *phases;
                        let PhaseRecord { perceived_ns, durable_ns, written_bytes, resume_ns, .. } = *phases;
                        [t1_unix_ns, communication_ns, buffer_wait_ns, copy_ns].into_iter().chain([
                            perceived_ns,
                            durable_ns,
                            written_bytes,
                            resume_ns,
                        ])
                    });
                    *copy < RANKS_MAX
                        && [*lineage, *revision, *put_off]
                            .into_iter()
                            .chain(*step)
                            .chain(*bytes)
                            .chain(times)
                            .chain(blocks)
                            .all(is_number)
                }
                Event::Failed { why, .. } | Event::Died { why } => is_text(why),
                Event::PassedOver { .. } | Event::Closed => true,
                Event::Recovered(recovery) => recovery.is_sound(),
            }
    }
}

/// Writes a journal into the first of its directories that accepts it.
#[derive(Debug)]
pub(super) struct Pen {
    directories: Vec<PathBuf>,
    file: Option<(PathBuf, File)>,
    /// Number of events in the file.
    events: usize,
}

impl Pen {
    pub(super) fn new(directories: Vec<PathBuf>) -> Pen {
        Pen { directories, file: None, events: 0 }
    }

    /// Appends `entries`, without a sync, like the status. If no directory accepts them, they are lost without an
    /// error: the program did not ask for them.
    pub(super) fn write(&mut self, entries: &[JournalEntry]) {
        let lines: String = entries.iter().map(JournalEntry::line).collect();
        let written = match &mut self.file {
            Some((_, file)) => change::append(file, lines.as_bytes()).is_ok(),
            None => self.open(&lines),
        };
        if !written {
            // Possibly elsewhere next time.
            self.file = None;
            return;
        }
        self.events += entries.len();
        if self.events > EVENTS_MAX + EVENTS_MORE {
            // If that fails, the file grows until it succeeds.
            let _ = self.shorten();
        }
    }

    fn open(&mut self, lines: &str) -> bool {
        for directory in &self.directories {
            let opened = open(directory).and_then(|(file, events)| {
                change::append(&file, lines.as_bytes())?;
                Ok((file, events))
            });
            if let Ok((file, events)) = opened {
                (self.file, self.events) = (Some((directory.clone(), file)), events);
                return true;
            }
        }
        false
    }

    /// Replaces the file by one with only the newest events.
    fn shorten(&mut self) -> io::Result<()> {
        let Some((directory, _)) = &self.file else { return Ok(()) };
        let (unfinished, path) = (directory.join(JOURNAL_UNFINISHED), directory.join(JOURNAL_FILE));
        let (old, _) = open(directory)?;
        let mode = old.metadata()?.permissions().mode();
        let (mut kept, mut lines) = (VecDeque::new(), end_of(old)?);
        while let Some(line) = next_line(&mut lines)? {
            if line.len() > LINE_BYTES_MAX {
                // Not written by Mainstay, or cut short.
                continue;
            }
            if kept.len() == EVENTS_MAX {
                kept.pop_front();
            }
            kept.push_back(line);
        }
        // A leftover of a crash.
        let _ = change::remove(&unfinished);
        let write = || {
            let file = change::make(&unfinished, &Open::to_append().new_file())?;
            hand_over(&file, directory);
            change::append(&file, &kept.iter().flatten().copied().collect::<Vec<u8>>())?;
            file.set_permissions(fs::Permissions::from_mode(0o600 | mode & 0o044))?;
            put_in_place(&path, |path| change::rename(&unfinished, path))?;
            Ok(file)
        };
        let file = write().inspect_err(|_: &io::Error| drop(change::remove(&unfinished)))?;
        (self.events, self.file) = (kept.len(), Some((directory.clone(), file)));
        Ok(())
    }
}

/// The journal in `directory`, opened to append on a new line, and its number of lines.
fn open(directory: &Path) -> io::Result<(File, usize)> {
    let mut file = change::make(&directory.join(JOURNAL_FILE), &Open::to_append().or_make())?;
    hand_over(&file, directory);
    // A file that is too long is shortened at once.
    let is_long = file.metadata()?.len() > FILE_BYTES_MAX;
    let (mut events, mut last) = if is_long { (EVENTS_MAX + EVENTS_MORE, 0) } else { (0, b'\n') };
    if !is_long {
        let (mut limited, mut buffer) = ((&mut file).take(FILE_BYTES_MAX), vec![0; 64 << 10]);
        loop {
            let read = limited.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            events += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
            last = buffer[read - 1];
        }
    }
    if last != b'\n' {
        // A crash has cut the last line short.
        change::append(&file, b"\n")?;
        events += 1;
    }
    Ok((file, events))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Recovery, Saved};
    use serde_json::{Value, json};

    fn complete(revision: u64) -> JournalEntry {
        let phases = PhaseRecord { t1_unix_ns: 5, perceived_ns: 1, durable_ns: 3, ..PhaseRecord::default() };
        let completion = Completion {
            level: LevelKind::Memory,
            copy: 1,
            lineage: 2,
            revision,
            step: Some(40),
            bytes: Some(7),
            phases: Some(phases),
            saved_early: Some(SavedEarly { dirty: 8, early: 5, saved: 6, wasted: 1, ..SavedEarly::default() }),
            put_off: 3,
        };
        JournalEntry { unix_ns: revision, event: Event::Complete(completion) }
    }

    fn all() -> Vec<JournalEntry> {
        let opening = Opening {
            lineage: 2,
            ranks: 4,
            nodes: 2,
            host: "n1".to_owned(),
            pid: 3,
            levels: vec![(LevelKind::Memory, 1), (LevelKind::Pfs, 0)],
            every_ns: 60,
        };
        let recovery = Recovery {
            failed: vec![2],
            ranks_before: 4,
            ranks: 4,
            back_to: Some(Saved { lineage: 2, revision: 1, saved_unix_ns: None }),
            ..Recovery::default()
        };
        let events = [
            Event::Opened(opening),
            Event::Restored {
                lineage: 1,
                revision: 9,
                step: None,
                took_ns: 3,
                skipped: vec!["revision 10".to_owned()],
            },
            complete(1).event,
            Event::Failed { level: LevelKind::Pfs, in_a_row: 2, why: "no room".to_owned() },
            Event::PassedOver { level: LevelKind::Pfs, times: 1 },
            Event::Recovered(recovery),
            Event::Closed,
            Event::Died { why: "SIGKILL".to_owned() },
        ];
        (1..).zip(events).map(|(unix_ns, event)| JournalEntry { unix_ns, event }).collect()
    }

    #[test]
    fn what_was_written_is_read_over_several_jobs() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Journal::read(folder.path()).unwrap(), None);
        for _ in 0..2 {
            let mut pen = Pen::new(vec![folder.path().join("gone"), folder.path().to_owned()]);
            all().chunks(3).for_each(|entries| pen.write(entries));
        }
        let journal = Journal::read(folder.path()).unwrap().unwrap();
        assert_eq!(journal, Journal { entries: [all(), all()].concat(), passed_over: 0 });
        assert_eq!(fs::metadata(folder.path().join(JOURNAL_FILE)).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_line_that_was_cut_short_is_passed_over_and_the_next_job_begins_another() {
        let folder = tempfile::tempdir().unwrap();
        Pen::new(vec![folder.path().to_owned()]).write(&all());
        let path = folder.path().join(JOURNAL_FILE);
        let bytes = fs::read(&path).unwrap();
        for cut in 1..30 {
            fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
            Pen::new(vec![folder.path().to_owned()]).write(&[complete(9)]);
            let journal = Journal::read(folder.path()).unwrap().unwrap();
            let lost = usize::from(cut > 1);
            let before = all().len() - lost;
            assert_eq!((journal.entries.len(), journal.passed_over), (before + 1, lost), "cut by {cut}");
            assert_eq!(journal.entries.last(), Some(&complete(9)));
        }
    }

    #[test]
    fn what_cannot_be_so_is_passed_over() {
        for (index, field, value) in [
            (0, "/ranks", json!(0)),
            (0, "/host", json!("\u{1b}[31m")),
            (0, "/levels", json!([["tape", 0]])),
            (1, "/skipped", json!(["a\nb"])),
            (2, "/phases/t1_unix_ns", json!(u64::MAX)),
            (2, "/revision", json!(-1)),
            (2, "/put_off", json!(u64::MAX)),
            (2, "/saved_early/dirty", json!(u64::MAX)),
            (2, "/saved_early/off", json!("Burnt")),
            (3, "/why", json!("x".repeat(TEXT_BYTES_MAX + 1))),
            (5, "/failed", json!([4])),
            (6, "/event", json!("burnt")),
            (6, "/unix_ns", json!(u64::MAX)),
        ] {
            let mut line: Value = serde_json::from_str(&all()[index].line()).unwrap();
            assert!(JournalEntry::parse(line.to_string().as_bytes()).is_some());
            *line.pointer_mut(field).unwrap() = value;
            assert!(JournalEntry::parse(line.to_string().as_bytes()).is_none(), "{field}");
        }
        let hostile = [vec![b'['; LINE_BYTES_MAX * 2], b"\n\n{}\n\xff\n".to_vec(), complete(1).line().into_bytes()];
        let journal = Journal::of(&hostile.concat()[..]).unwrap();
        assert_eq!(journal, Journal { entries: vec![complete(1)], passed_over: 3 });
    }

    #[test]
    fn the_newest_events_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut pen = Pen::new(vec![folder.path().to_owned()]);
        let all = EVENTS_MAX + EVENTS_MORE + 10;
        let entries: Vec<JournalEntry> = (1..=all as u64).map(complete).collect();
        entries.chunks(1005).for_each(|entries| pen.write(entries));
        pen.write(&[complete(0)]);
        let journal = Journal::read(folder.path()).unwrap().unwrap();
        assert_eq!(journal.passed_over, 0);
        assert!((EVENTS_MAX..=EVENTS_MAX + EVENTS_MORE).contains(&journal.entries.len()), "{}", journal.entries.len());
        assert_eq!(journal.entries[journal.entries.len() - 2..], [complete(all as u64), complete(0)]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_and_a_pipe_are_no_journal() {
        let folder = tempfile::tempdir().unwrap();
        let (path, outside) = (folder.path().join(JOURNAL_FILE), folder.path().join("outside"));
        fs::write(&outside, "mine").unwrap();
        std::os::unix::fs::symlink(&outside, &path).unwrap();
        assert_eq!(Journal::read(folder.path()).unwrap(), None);
        Pen::new(vec![folder.path().to_owned()]).write(&all());
        assert_eq!(fs::read(&outside).unwrap(), b"mine");
        assert_eq!(Journal::read(folder.path()).unwrap().unwrap().entries, all());
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        Pen::new(vec![folder.path().to_owned()]).write(&all());
        assert_eq!(Journal::read(folder.path()).unwrap().unwrap().entries, all());
    }
}

//! The thread that writes the files `status` and `journal`; the program's own thread never does.

use super::{
    document::{Job, JobProgress, Status},
    journal::{EVENTS_MAX, JournalEntry, Pen},
};
use crate::{
    device::hand_over,
    error::Result,
    ground::{
        Condvar, Thread, change,
        files::{Open, put_in_place},
        lock, spawn,
    },
    space::{LevelKind, STATUS_FILE, STATUS_UNFINISHED},
};
use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

/// Minimum time between two replacements of the file.
const PAUSE: Duration = Duration::from_secs(1);

/// Dropping it waits until the last report is written.
#[derive(Debug)]
pub(crate) struct StatusWriter {
    desk: Arc<Desk>,
    thread: Option<Thread<()>>,
}

/// Reports that wait to be written.
#[derive(Debug, Default)]
struct Desk {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Only the newest counts.
    progress: Option<JobProgress>,
    /// New holders of the copies, for each level of the job.
    holders: Option<Vec<Vec<Vec<u32>>>>,
    /// For the journal.
    entries: Vec<JournalEntry>,
    /// The thread is writing entries that it has taken.
    is_writing: bool,
    over: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.progress.is_none() && self.entries.is_empty()
    }
}

impl StatusWriter {
    /// Starts writing the reports of `job` to the first of `directories` that accepts them. Fails if the system has no
    /// thread.
    pub(crate) fn start(directories: Vec<PathBuf>, job: Job) -> Result<StatusWriter> {
        let desk = Arc::new(Desk::default());
        let of_thread = desk.clone();
        let thread = spawn("mainstay-status".to_owned(), move || of_thread.write_all(&directories, job))?;
        Ok(StatusWriter { desk, thread: Some(thread) })
    }

    /// Queues `progress` for writing; replaces an earlier report.
    pub(crate) fn tell(&self, progress: JobProgress) {
        lock(&self.desk.waiting).progress = Some(progress);
        self.desk.changed.notify_all();
    }

    /// Sets the holders of the copies in future reports: for each level of the job, as in `PlaceOfLevel`.
    pub(crate) fn holders(&self, holders: Vec<Vec<Vec<u32>>>) {
        lock(&self.desk.waiting).holders = Some(holders);
    }

    /// Finishes the current write and writes nothing more, because another rank takes over. Returns the noted entries
    /// that are not written.
    pub(crate) fn end(self) -> Vec<JournalEntry> {
        let mut waiting = lock(&self.desk.waiting);
        waiting.progress = None;
        std::mem::take(&mut waiting.entries)
    }

    /// Queues `entries` for the journal. More entries than the journal keeps are dropped.
    pub(crate) fn note(&self, mut entries: Vec<JournalEntry>) {
        let mut waiting = lock(&self.desk.waiting);
        waiting.entries.append(&mut entries);
        let more = waiting.entries.len().saturating_sub(EVENTS_MAX);
        waiting.entries.drain(..more);
        drop(waiting);
        self.desk.changed.notify_all();
    }

    /// Waits until the journal has all noted entries.
    pub(crate) fn await_noted(&self) {
        let waiting = lock(&self.desk.waiting);
        let is_noted = |waiting: &mut Waiting| waiting.is_writing || !waiting.entries.is_empty();
        drop(self.desk.changed.wait_while(&self.desk.waiting, waiting, is_noted));
    }
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        lock(&self.desk.waiting).over = true;
        self.desk.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn write_all(&self, directories: &[PathBuf], mut job: Job) {
        let mut pen = Pen::new(directories.to_vec());
        while let Some((progress, entries)) = self.next() {
            if !entries.is_empty() {
                pen.write(&entries);
                lock(&self.waiting).is_writing = false;
                self.changed.notify_all();
            }
            let has_progress = progress.is_some();
            if let Some(progress) = progress {
                let holders = lock(&self.waiting).holders.take();
                job.places.iter_mut().zip(holders.into_iter().flatten()).for_each(|(place, now)| place.holders = now);
                // If no directory accepts it, there is no error: the program did not ask for it.
                let _ = directories.iter().any(|directory| put(directory, &job, &progress).is_ok());
            }
            if !has_progress {
                continue;
            }
            let waiting = lock(&self.waiting);
            drop(self.changed.wait_timeout_while(&self.waiting, waiting, PAUSE, |waiting| !waiting.over));
        }
    }

    /// The next data to write; `None` at the end.
    fn next(&self) -> Option<(Option<JobProgress>, Vec<JournalEntry>)> {
        let mut waiting = lock(&self.waiting);
        while waiting.is_empty() && !waiting.over {
            waiting = self.changed.wait(&self.waiting, waiting);
        }
        waiting.is_writing = !waiting.entries.is_empty();
        (!waiting.is_empty()).then(|| (waiting.progress.take(), std::mem::take(&mut waiting.entries)))
    }
}

/// Replaces the file by `progress` of `job`. Synced if disks have revisions: a job does not start without the disks that
/// the file names.
pub(super) fn put(directory: &Path, job: &Job, progress: &JobProgress) -> io::Result<()> {
    let is_synced = job.places.iter().any(|place| place.level == LevelKind::Disk);
    replace(directory, &Status::bytes(job, progress), is_synced)
}

/// Replaces the file by `bytes` as a whole. Unless `is_synced`, a crash of the machine may leave it empty.
fn replace(directory: &Path, bytes: &[u8], is_synced: bool) -> io::Result<()> {
    let (unfinished, path) = (directory.join(STATUS_UNFINISHED), directory.join(STATUS_FILE));
    // Keep the file's mode, so that permitted readers stay permitted.
    let mode = fs::symlink_metadata(&path).ok().filter(|found| found.is_file()).map(|found| found.permissions().mode());
    let write = || {
        let file = change::make(&unfinished, &Open::to_write().new_file())?;
        hand_over(&file, directory);
        change::write(&file, bytes)?;
        if is_synced {
            change::sync(&file)?;
        }
        mode.map_or(Ok(()), |mode| file.set_permissions(Permissions::from_mode(0o600 | mode & 0o044)))?;
        put_in_place(&path, |path| change::rename(&unfinished, path))
    };
    // A leftover of a crash.
    let _ = change::remove(&unfinished);
    write().inspect_err(|_| drop(change::remove(&unfinished)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(told_unix_ns: u64) -> JobProgress {
        JobProgress { told_unix_ns, ..JobProgress::default() }
    }

    fn read(directory: &Path) -> serde_json::Value {
        serde_json::from_slice(&fs::read(directory.join(STATUS_FILE)).unwrap()).unwrap()
    }

    #[test]
    fn what_was_told_last_is_there_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        for rounds in [1, 2, 100] {
            let writer = StatusWriter::start(vec![folder.path().to_owned()], Job::default()).unwrap();
            (1..=rounds).for_each(|round| writer.tell(progress(round)));
            drop(writer);
            assert_eq!(read(folder.path())["told_unix_ns"], rounds);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
        // Without a report, nothing is written.
        let other = tempfile::tempdir().unwrap();
        drop(StatusWriter::start(vec![other.path().to_owned()], Job::default()).unwrap());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }

    #[test]
    fn where_one_directory_does_not_take_it_the_next_does() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let writer = StatusWriter::start(vec![gone.clone(), folder.path().to_owned()], Job::default()).unwrap();
        writer.tell(progress(3));
        drop(writer);
        assert_eq!(read(folder.path())["told_unix_ns"], 3);
        StatusWriter::start(vec![gone], Job::default()).unwrap().tell(progress(4));
    }

    #[test]
    fn what_lies_in_the_way_is_not_followed_and_the_right_to_read_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (path, outside) = (folder.path().join(STATUS_FILE), folder.path().join("outside"));
        fs::write(&outside, "mine").unwrap();
        std::os::unix::fs::symlink(&outside, folder.path().join(STATUS_UNFINISHED)).unwrap();
        replace(folder.path(), b"{}", false).unwrap();
        let mode = || fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!((fs::read(&outside).unwrap(), mode()), (b"mine".to_vec(), 0o600));
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        replace(folder.path(), b"{}", false).unwrap();
        assert_eq!(mode(), 0o644);
    }
}

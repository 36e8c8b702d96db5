//! The start of replacement processes. If a new process ends before MPI has it, MPI waits for ever in the rank that
//! started it. That rank is then ended, and the others go on.
//!
//! Invariant: the end of a process that has begun is noticed, however early.

use super::process::is_running;
use crate::{
    ground::{
        files::{Open, entries, read_within},
        spawn,
    },
    remark::say,
};
use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

/// A directory of this node alone.
const FOLDER: &str = "/dev/shm";
/// Records the process that begins, and becomes the command. The note exists only on this node, and is not made
/// elsewhere.
const BEGIN: &str = "if [ -f \"$0\" ]; then echo \"$$ $(readlink /proc/self/ns/pid)\" >>\"$0\"; fi; exec \"$@\"";
/// More lines than processes are ever started at a time.
const NOTE_BYTES_MAX: u64 = 1 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Processes that are being started.
pub struct Start {
    note: Option<Note>,
    is_in_mpi: Arc<AtomicBool>,
    has_lost: Arc<AtomicBool>,
    _end: Option<mpsc::Sender<()>>,
}

/// The file with a line for each process that begins. It is removed with this value.
struct Note(PathBuf);

impl Start {
    /// From now on until `is_through`, this process is ended, with a line on standard error, if a process that was
    /// started on its node ends.
    pub fn begin() -> Start {
        let (is_in_mpi, has_lost) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let Ok(note) = Note::make(Path::new(FOLDER)) else {
            return Start { note: None, is_in_mpi, has_lost, _end: None };
        };
        let (end, ended) = mpsc::channel::<()>();
        let (path, is_inside, lost) = (note.0.clone(), is_in_mpi.clone(), has_lost.clone());
        let watching = move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                if !has_ended(&path) {
                    continue;
                }
                lost.store(true, Ordering::Relaxed);
                if is_inside.load(Ordering::Acquire) {
                    let _ = fs::remove_file(&path);
                    say("a replacement process has ended before it came into the job; MPI would \
                         wait for it for ever, so this process ends, and the others go on");
                    process::abort();
                }
                return;
            }
        };
        let watched = spawn("mainstay-start".to_owned(), watching).is_ok();
        Start { note: watched.then_some(note), is_in_mpi, has_lost, _end: Some(end) }
    }

    /// The words that start `command` and make its end noticeable.
    pub fn words(&self, command: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
        let noted = self.note.iter().flat_map(|note| {
            ["/bin/sh", "-c", BEGIN].map(OsString::from).into_iter().chain([note.0.clone().into_os_string()])
        });
        noted.chain(command).collect()
    }

    /// MPI has the processes: from now on `has_lost` reports the end of one, and no process is ended.
    pub fn is_through(&self) {
        self.is_in_mpi.store(false, Ordering::Release);
    }

    /// Whether a process started on this node has ended.
    pub fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }
}

impl Note {
    fn make(folder: &Path) -> io::Result<Note> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("mainstay-start-{}-", numbers_of_processes());
        Note::remove_stale(folder, &prefix);
        let path = folder.join(format!("{prefix}{}-{count}", process::id()));
        // A file of an earlier process with this number.
        let _ = fs::remove_file(&path);
        Open::to_write().new_file().file(&path).map(|_| Note(path))
    }

    /// Removes the notes of killed processes.
    fn remove_stale(folder: &Path, prefix: &str) {
        for entry in entries(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let maker = name.to_str().and_then(|name| name.strip_prefix(prefix)?.split_once('-')?.0.parse().ok());
            if maker.is_some_and(|pid: u64| !is_running(pid)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The namespace of this process's number; 0 if the system does not say.
fn numbers_of_processes() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Whether one of the recorded processes no longer exists.
fn has_ended(note: &Path) -> bool {
    let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let begun = read_within(note, NOTE_BYTES_MAX).unwrap_or_default();
    let begun = String::from_utf8_lossy(&begun);
    // A line without its end is not complete yet.
    begun.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.split_once(' ')).any(|(pid, numbered)| {
        let is_here = Path::new(numbered) == numbers;
        pid.parse().is_ok_and(|pid| is_here && !is_running(pid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        env,
        process::{Command, Stdio},
        thread,
    };

    fn command(words: &[OsString]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped());
        command
    }

    #[test]
    fn the_end_of_a_process_that_was_started_is_noticed_whatever_it_was() {
        let start = Start::begin();
        start.is_through();
        let mut lives = command(&start.words(["cat".into()])).spawn().unwrap();
        let mut ends = command(&start.words(["sh", "-c", "kill -9 $$"].map(OsString::from))).spawn().unwrap();
        assert!(!ends.wait().unwrap().success());
        while !start.has_lost() {
            thread::sleep(Duration::from_millis(1));
        }
        drop(lives.stdin.take());
        assert!(lives.wait().unwrap().success());
        let note = start.note.as_ref().unwrap().0.clone();
        drop(start);
        assert!(!note.exists());
    }

    #[test]
    fn the_note_of_a_process_that_was_killed_goes_with_the_next_one() {
        let folder = env::temp_dir().join(format!("mainstay-notes-{}", process::id()));
        fs::create_dir(&folder).unwrap();
        let mut killed = Command::new("true").spawn().unwrap();
        killed.wait().unwrap();
        let prefix = format!("mainstay-start-{}-", numbers_of_processes());
        let notes = [killed.id(), process::id()].map(|pid| folder.join(format!("{prefix}{pid}-x")));
        notes.iter().for_each(|note| fs::write(note, "").unwrap());
        let made = Note::make(&folder).unwrap();
        assert_eq!(notes.map(|note| note.exists()), [false, true]);
        drop(made);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// In a process of its own, which is ended.
    #[test]
    fn who_waits_for_it_inside_mpi_is_ended() {
        const TASK: &str = "MAINSTAY_TEST_START";
        if env::var_os(TASK).is_some() {
            let start = Start::begin();
            let mut ends = command(&start.words(["false".into()])).spawn().unwrap();
            ends.wait().unwrap();
            loop {
                thread::park();
            }
        }
        let mut own = Command::new(env::current_exe().unwrap());
        own.args(["--exact", "group::start::tests::who_waits_for_it_inside_mpi_is_ended", "--nocapture"]);
        let said = own.env(TASK, "").output().unwrap();
        assert!(!said.status.success());
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(text.contains("has ended before it came into the job"), "{text}");
    }
}

//! The thread that waits in a stopped call: its memory, its folders, its process.

use super::listener::{Listener, Notice};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
};

const PATH_BYTES_MAX: usize = 4096;

pub struct Caller {
    pub task: i32,
    memory: File,
}

impl Caller {
    /// `None`: the thread does not wait any more.
    pub fn of(notice: &Notice, listener: &Listener) -> io::Result<Option<Caller>> {
        let task = notice.task;
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{task}/mem"));
        // The thread still waits, so the memory just opened is that of the caller.
        match listener.is_waiting(notice) {
            true => memory.map(|memory| Some(Caller { task, memory })),
            false => Ok(None),
        }
    }

    /// The path at `at`. `None`: it is unreadable, and the kernel must return the error.
    pub fn path(&self, at: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; PATH_BYTES_MAX];
        let length = self.memory.read_at(&mut bytes, at).ok()?;
        let end = bytes[..length].iter().position(|byte| *byte == 0)?;
        bytes.truncate(end);
        Some(bytes)
    }

    pub fn numbers<const COUNT: usize>(&self, at: u64) -> Option<[i64; COUNT]> {
        let mut bytes = vec![0; COUNT * 8];
        self.memory.read_exact_at(&mut bytes, at).ok()?;
        let mut numbers = bytes.chunks_exact(8).map(|bytes| i64::from_ne_bytes(bytes.try_into().unwrap_or_default()));
        Some(std::array::from_fn(|_| numbers.next().unwrap_or_default()))
    }

    pub fn put(&self, at: u64, bytes: &[u8]) -> Result<(), i32> {
        self.memory.write_all_at(bytes, at).map_err(|_| libc::EFAULT)
    }

    /// The ID of the thread's process.
    pub fn process(&self) -> i32 {
        self.status("Tgid:").and_then(|text| text.parse().ok()).unwrap_or(self.task)
    }

    pub fn umask(&self) -> u32 {
        self.status("Umask:").and_then(|text| u32::from_str_radix(&text, 8).ok()).unwrap_or(0o077)
    }

    fn status(&self, key: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.task)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
    }

    /// A path to the folder behind the caller's descriptor.
    pub fn folder(&self, number: i32) -> PathBuf {
        match number {
            libc::AT_FDCWD => format!("/proc/{}/cwd", self.task).into(),
            number => format!("/proc/{}/fd/{number}", self.task).into(),
        }
    }

    /// Whether this is the only thread of its process.
    pub fn is_alone(&self) -> bool {
        fs::read_dir(format!("/proc/{}/task", self.task)).is_ok_and(|threads| threads.count() == 1)
    }
}

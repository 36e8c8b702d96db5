//! A file that grows with each write, such as a trace.

use super::within_limit;
use std::{
    fs::File,
    io::{self, Seek, Write},
};

/// Fails with EFBIG where a plain write would end the program with SIGXFSZ: at the process's limit (`ulimit -f`).
#[derive(Debug)]
pub(crate) struct Limited(File);

impl Limited {
    pub(crate) fn new(file: File) -> Limited {
        Limited(file)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        within_limit(self.0.stream_position()?.saturating_add(bytes.len() as u64))?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

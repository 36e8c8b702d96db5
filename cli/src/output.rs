//! Writing to standard output. A reader that went away (`mainstay ls | head -1`) has what it wanted.

use serde::Serialize;
use std::io::{self, Write};

pub fn text(text: &str) -> io::Result<()> {
    ignore_gone(write_all(text.as_bytes()))
}

/// Bytes as they are, such as a path of any characters.
pub fn bytes(bytes: &[u8]) -> io::Result<()> {
    ignore_gone(write_all(bytes))
}

pub fn json(document: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(document)?;
    bytes.push(b'\n');
    ignore_gone(write_all(&bytes))
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

fn ignore_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

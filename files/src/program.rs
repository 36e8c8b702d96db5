//! Whether the preload library can be loaded into a program.

use object::{
    Endianness,
    elf::{FileHeader64, PT_INTERP},
    read::elf::{FileHeader, ProgramHeader},
};
use std::{
    fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// The program headers lie in the first bytes of a file.
const HEAD_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// It loads libraries.
    Dynamic,
    /// A script; its interpreter loads libraries, as far as known.
    Script,
    Static,
    /// The system loads no library of the user's into it.
    SetUser,
    /// No program for this machine.
    Unknown,
}

/// Looks at the head of the program at `path`.
pub fn program(path: &Path) -> io::Result<Program> {
    let found = fs::metadata(path)?;
    let changes_user = found.mode() & 0o4000 != 0 && found.uid() != rustix::process::getuid().as_raw();
    let changes_group = found.mode() & 0o2000 != 0 && found.gid() != rustix::process::getgid().as_raw();
    if changes_user || changes_group {
        return Ok(Program::SetUser);
    }
    let mut head = Vec::new();
    fs::File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    if head.starts_with(b"#!") {
        return Ok(Program::Script);
    }
    Ok(parse(&head).unwrap_or(Program::Unknown))
}

fn parse(head: &[u8]) -> Option<Program> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, head).ok()?;
    let has_loader = headers.iter().any(|one| one.p_type(endian) == PT_INTERP);
    Some(if has_loader { Program::Dynamic } else { Program::Static })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_program_is_found() {
        assert_eq!(program(Path::new("/proc/self/exe")).unwrap(), Program::Dynamic);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        for (bytes, kind) in
            [(&b"#!/bin/sh\n"[..], Program::Script), (b"", Program::Unknown), (b"\x7fELF\x02", Program::Unknown)]
        {
            fs::write(&path, bytes).unwrap();
            assert_eq!(program(&path).unwrap(), kind);
        }
        assert!(program(&folder.path().join("none")).is_err());
    }
}

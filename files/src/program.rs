//! Whether the preload library can be loaded into a program. `files/preload/target.c` has the same rules.

use object::{
    Endianness,
    elf::{self, FileHeader64, PT_INTERP},
    read::elf::{FileHeader, ProgramHeader},
};
use std::{
    ffi::OsStr,
    fs,
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// The program headers lie in the first bytes of a file.
const HEAD_BYTES: u64 = 64 << 10;
/// Most scripts in a row: the interpreter of a script may be a script.
const SCRIPTS_MAX: usize = 4;
/// Bytes of a script that the kernel reads to find its interpreter.
const SCRIPT_BYTES: usize = 256;
#[cfg(target_arch = "x86_64")]
const MACHINE: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: elf::Machine = elf::EM_AARCH64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// It loads the library.
    Dynamic,
    Static,
    /// It loads libraries, but makes system calls directly.
    Go,
    /// The system loads no library of the user into it.
    SetUser,
    /// A program of 32 bits, or for another C library.
    Other,
    /// No program for this machine.
    Unknown,
}

/// Reads the head of the program at `path`. For a script, the interpreter counts.
pub fn program(path: &Path) -> io::Result<Program> {
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let found = fs::metadata(&path)?;
        let mut head = Vec::new();
        fs::File::open(&path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
        if let Some(next) = interpreter(&head) {
            path = next;
            continue;
        }
        let changes_user = found.mode() & 0o4000 != 0 && found.uid() != rustix::process::getuid().as_raw();
        let changes_group = found.mode() & 0o2000 != 0 && found.gid() != rustix::process::getgid().as_raw();
        return Ok(match parse(&head) {
            _ if changes_user || changes_group => Program::SetUser,
            Some(Program::Static) if is_loader(&path) => Program::Dynamic,
            parsed => parsed.unwrap_or(Program::Unknown),
        });
    }
    Ok(Program::Unknown)
}

fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head[..head.len().min(SCRIPT_BYTES)].strip_prefix(b"#!")?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\n'));
    let path = words.find(|word| !word.is_empty())?;
    Some(Path::new(OsStr::from_bytes(path)).to_owned())
}

/// The loader itself is static, and loads libraries into the program that its arguments name.
fn is_loader(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld") && has(name.as_bytes(), b".so"))
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|one| one == part)
}

fn parse(head: &[u8]) -> Option<Program> {
    if head.get(..5) == Some(b"\x7fELF\x01") {
        return Some(Program::Other);
    }
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != MACHINE {
        return Some(Program::Other);
    }
    let headers = header.program_headers(endian, head).ok()?;
    // The linker of Go leaves a note with its name.
    let is_go_note = |name: &[u8]| name == b"Go";
    let is_by_go = headers.iter().any(|one| {
        let notes = one.notes(endian, head).ok().flatten();
        notes.is_some_and(|mut notes| {
            std::iter::from_fn(|| notes.next().ok().flatten()).any(|note| is_go_note(note.name()))
        })
    });
    let loader = headers.iter().find(|one| one.p_type(endian) == PT_INTERP);
    Some(match loader.map(|loader| loader.data(endian, head).unwrap_or_default()) {
        _ if is_by_go => Program::Go,
        None => Program::Static,
        Some(loader) if has(loader, b"/ld-musl") => Program::Other,
        Some(_) => Program::Dynamic,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_program_is_found() {
        assert_eq!(program(Path::new("/proc/self/exe")).unwrap(), Program::Dynamic);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let cases = [
            (&b"#! /proc/self/exe -x\n"[..], Program::Dynamic),
            (b"#!\n", Program::Unknown),
            (b"", Program::Unknown),
            (b"\x7fELF\x01", Program::Other),
            (b"\x7fELF\x02", Program::Unknown),
        ];
        for (bytes, kind) in cases {
            fs::write(&path, bytes).unwrap();
            assert_eq!(program(&path).unwrap(), kind);
        }
        // A loop: the script is its own interpreter.
        fs::write(&path, format!("#!{}\n", path.display())).unwrap();
        assert_eq!(program(&path).unwrap(), Program::Unknown);
        assert!(program(&folder.path().join("none")).is_err());
    }
}

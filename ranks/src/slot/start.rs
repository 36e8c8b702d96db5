//! A new rank: its program and loader in its slot, and the stack with which a process begins.

use super::{Areas, Program, Source, clocks};
use crate::{
    Error, Result,
    address::{PAGE, Slot, page_down, page_up},
    elf::{Executable, Segment},
    files::MappedFiles,
    memory,
    x86_64::entry_frame,
};
use std::{fs::File, io, os::fd::AsFd, os::unix::ffi::OsStrExt, path::Path};

/// A rank that can begin.
pub(crate) struct Started {
    pub stack: u64,
    /// The address of the variable with the nanoseconds that its clocks are ahead.
    pub ahead_at: usize,
}

/// The contents of a slot, as they grow.
pub(crate) struct Contents<'a> {
    pub slot: Slot,
    pub areas: &'a mut Areas,
    pub mapped: &'a mut MappedFiles,
    /// Files are mapped as copies, and saved.
    pub with_libraries: bool,
}

/// Loads the program into its slot.
pub(crate) fn start(mut contents: Contents, program: &Program) -> Result<Started> {
    let slot = contents.slot;
    for (executable, file, path, part) in [
        (&program.executable, &program.file, &program.path, slot.program()..slot.interpreter()),
        (&program.loader, &program.loader_file, &program.loader_path, slot.interpreter()..slot.clocks()),
    ] {
        if executable.span() > part.len() {
            let why = format!("{}: it is larger than its part of a slot, {} bytes", program.path.display(), part.len());
            return Err(Error::Refused(format!("{why}; run fewer ranks")));
        }
        contents.load(part.start, executable, file, path).map_err(|error| Error::system(path.display(), error))?;
    }
    let stack = slot.stack();
    memory::map(slot, &stack, libc::PROT_READ | libc::PROT_WRITE, None)
        .map_err(|error| Error::system("the stack of a rank", error))?;
    contents.areas.insert(stack, libc::PROT_READ | libc::PROT_WRITE, Source::Memory);
    let top = fill_stack(slot, program).map_err(|error| Error::system("the stack of a rank", error))?;
    let ahead_at = clocks::put(slot, contents.areas).map_err(|error| Error::system("the clocks of a rank", error))?;
    Ok(Started { stack: top as u64, ahead_at })
}

impl Contents<'_> {
    /// Maps the segments of an executable from `at` on, with zeros after its data.
    fn load(&mut self, at: usize, executable: &Executable, file: &File, path: &Path) -> io::Result<()> {
        let number = self.mapped.enter(path, file)?;
        for Segment { address, file_offset, file_bytes, memory_bytes, protection } in &executable.segments {
            let start = at + page_down(*address);
            let (file_end, end) = (at + address + file_bytes, page_up(at + address + memory_bytes));
            let (from_file, offset) = (start..page_up(file_end), file_offset - (address % PAGE) as u64);
            if *file_bytes > 0 {
                if self.with_libraries || protection & libc::PROT_WRITE != 0 {
                    memory::map_copy(self.slot, &from_file, *protection, file, offset)?;
                } else {
                    memory::map(self.slot, &from_file, *protection, Some((file.as_fd(), offset)))?;
                }
                let source = if self.with_libraries { Source::Memory } else { Source::File { file: number, offset } };
                self.areas.insert(from_file.clone(), *protection, source);
            }
            if end > from_file.end {
                memory::map(self.slot, &(from_file.end..end), *protection, None)?;
                self.areas.insert(from_file.end..end, *protection, Source::Memory);
            }
            if memory_bytes > file_bytes && protection & libc::PROT_WRITE != 0 {
                memory::write(self.slot, file_end, &vec![0; from_file.end - file_end])?;
            }
        }
        Ok(())
    }
}

/// Writes the arguments, the environment, and the auxiliary vector, as the kernel does.
fn fill_stack(slot: Slot, program: &Program) -> std::io::Result<usize> {
    let mut top = slot.stack().end - 64;
    let mut put = |bytes: &[u8]| {
        top -= bytes.len() + 1;
        memory::write(slot, top, &[bytes, b"\0"].concat()).map(|()| top)
    };
    let path = put(program.path.as_os_str().as_bytes())?;
    let arguments = program.arguments.iter().map(|one| put(one.as_bytes())).collect::<std::io::Result<Vec<_>>>()?;
    let environment = program.environment.iter().map(|one| put(one.as_bytes())).collect::<std::io::Result<Vec<_>>>()?;
    // The loader takes its stack guard from these bytes.
    let random = put(&random_bytes()?)?;
    let mut words = vec![arguments.len() as u64];
    words.extend(arguments.iter().map(|at| *at as u64).chain([0]));
    words.extend(environment.iter().map(|at| *at as u64).chain([0]));
    for (key, value) in auxiliary(slot, program, path, random) {
        words.extend([key, value]);
    }
    let begin = (top - words.len() * 8) & !63;
    let frame = entry_frame((slot.interpreter() + program.loader.entry) as u64);
    let words: Vec<u8> = frame.iter().chain(&words).flat_map(|word| word.to_ne_bytes()).collect();
    let stack = begin - frame.len() * 8;
    memory::write(slot, stack, &words)?;
    Ok(stack)
}

/// As the kernel gives it, but with our own image of clocks.
fn auxiliary(slot: Slot, program: &Program, path: usize, random: usize) -> Vec<(u64, u64)> {
    let of_host = |key| (key, host_value(key));
    let (headers, count) = program.executable.headers;
    vec![
        (libc::AT_SYSINFO_EHDR, (slot.clocks() + clocks::HEADER) as u64),
        (libc::AT_PHDR, (slot.program() + headers) as u64),
        (libc::AT_PHENT, 56),
        (libc::AT_PHNUM, count as u64),
        (libc::AT_PAGESZ, PAGE as u64),
        (libc::AT_BASE, slot.interpreter() as u64),
        (libc::AT_FLAGS, 0),
        (libc::AT_ENTRY, (slot.program() + program.executable.entry) as u64),
        of_host(libc::AT_UID),
        of_host(libc::AT_EUID),
        of_host(libc::AT_GID),
        of_host(libc::AT_EGID),
        (libc::AT_SECURE, 0),
        (libc::AT_RANDOM, random as u64),
        of_host(libc::AT_HWCAP),
        of_host(libc::AT_HWCAP2),
        of_host(libc::AT_CLKTCK),
        (libc::AT_EXECFN, path as u64),
        (libc::AT_NULL, 0),
    ]
}

#[allow(unsafe_code)]
fn host_value(key: u64) -> u64 {
    // SAFETY: reads a value that the kernel gave this process.
    unsafe { libc::getauxval(key) }
}

fn random_bytes() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}

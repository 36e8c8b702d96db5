//! Executables and their loaders, as ELF files: their segments, and whether they can run in a slot.

use crate::{Error, Result, address::PAGE};
use object::{
    Endianness, Object, ObjectSymbol,
    elf::{self, FileHeader64},
    read::{
        ReadCache,
        elf::{Dyn, ElfFile64, FileHeader, ProgramHeader},
    },
};
use std::{fs::File, os::unix::fs::FileExt, path::Path};

/// A part of the file that is mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub address: usize,
    pub file_offset: u64,
    pub file_bytes: usize,
    pub memory_bytes: usize,
    pub protection: i32,
}

/// The MPI library that an executable was linked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Needs {
    /// None by itself. A library that it loads may need one.
    #[default]
    Nothing,
    /// `libmpi.so.12`: MPICH and those that share its ABI.
    Mpich,
    /// `libmpi_abi.so`: the ABI of the standard, MPI 5.
    Standard,
    /// `libmpi.so.40`: Open MPI. Mainstay does not have its ABI.
    OpenMpi,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executable {
    pub segments: Vec<Segment>,
    pub entry: usize,
    /// Where its program headers lie in memory, and how many there are.
    pub headers: (usize, usize),
    pub interpreter: Option<Vec<u8>>,
    pub needs: Needs,
    /// The names of the libraries that it is linked to.
    pub libraries: Vec<String>,
    /// A DT_RPATH finds libraries before LD_LIBRARY_PATH does.
    pub has_rpath: bool,
}

/// No header of a program is longer. A file that claims more is none.
const HEADERS_MAX: usize = 1 << 16;

/// The id that the linker made from the contents, if it did.
pub(crate) fn build_id(file: &File) -> Option<Vec<u8>> {
    let mut head = vec![0; file.metadata().ok()?.len().min(HEADERS_MAX as u64) as usize];
    file.read_exact_at(&mut head, 0).ok()?;
    let header = FileHeader64::<Endianness>::parse(&*head).ok()?;
    let endian = header.endian().ok()?;
    for program in header.program_headers(endian, &*head).ok()? {
        let Ok(Some(mut notes)) = program.notes(endian, &*head) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

/// The names of the symbols that the file takes from libraries. A damaged table has none.
pub(crate) fn imports(file: &File) -> Vec<String> {
    dynamic_symbols(file, true)
}

/// The names of the symbols that the file gives to others. A damaged table has none.
pub(crate) fn exports(file: &File) -> Vec<String> {
    dynamic_symbols(file, false)
}

fn dynamic_symbols(file: &File, are_undefined: bool) -> Vec<String> {
    let cache = ReadCache::new(file);
    let Ok(parsed) = ElfFile64::<Endianness, _>::parse(&cache) else { return Vec::new() };
    let symbols = parsed.dynamic_symbols().filter(|symbol| symbol.is_undefined() == are_undefined);
    let mut room = Room::of(file.metadata().map_or(0, |found| found.len()));
    let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    names.take_while(|name| room.takes(name.len())).collect()
}

/// Room for the names in a file. Names may share bytes, so a short file could have names without end.
struct Room(u64);

impl Room {
    /// More than the names of any real file of so many bytes take.
    fn of(file_bytes: u64) -> Room {
        const TIMES: u64 = 4;
        Room(file_bytes.saturating_mul(TIMES))
    }

    /// Takes room for a name of so many bytes. Returns whether it fits.
    fn takes(&mut self, bytes: usize) -> bool {
        self.0 = self.0.saturating_sub(bytes as u64 + 1);
        self.0 > 0
    }
}

impl Executable {
    /// Reads the headers of the file. Refuses files that cannot run in a slot.
    pub fn read(file: &File, path: &Path) -> Result<Executable> {
        let refuse = |why: &str| Error::Refused(format!("{}: {why}", path.display()));
        let unreadable = |error| Error::system(path.display(), error);
        let length = file.metadata().map_err(unreadable)?.len();
        let mut head = vec![0; length.min(HEADERS_MAX as u64) as usize];
        file.read_exact_at(&mut head, 0).map_err(unreadable)?;
        if head.starts_with(b"#!") {
            return Err(refuse("it is a script; name its interpreter before it, as in `python3 script.py`"));
        }
        let header = FileHeader64::<Endianness>::parse(&*head).map_err(|_| refuse("it is no 64-bit ELF executable"))?;
        let endian = header.endian().map_err(|_| refuse("it is for another processor"))?;
        if header.e_machine(endian) != elf::EM_X86_64 {
            return Err(refuse("it is for another processor"));
        }
        if header.e_type(endian) != elf::ET_DYN {
            return Err(refuse("it has a fixed address; link it with -pie (and compile with -fPIE)"));
        }
        let programs = header.program_headers(endian, &*head).map_err(|_| refuse("its program headers are damaged"))?;
        let mut found = Executable {
            segments: Vec::new(),
            entry: header.e_entry(endian) as usize,
            headers: (header.e_phoff(endian) as usize, programs.len()),
            interpreter: None,
            needs: Needs::Nothing,
            libraries: Vec::new(),
            has_rpath: false,
        };
        let mut has_list = false;
        for program in programs {
            match program.p_type(endian) {
                elf::PT_LOAD => {
                    found.segments.push(segment(program, endian).ok_or_else(|| refuse("a segment is damaged"))?)
                }
                elf::PT_INTERP => {
                    let name =
                        program.data(endian, &*head).map_err(|()| refuse("the name of its loader is damaged"))?;
                    found.interpreter = Some(name.strip_suffix(b"\0").unwrap_or(name).to_vec());
                }
                // A real file has one list for its loader. Others are ignored.
                elf::PT_DYNAMIC if !std::mem::replace(&mut has_list, true) => {
                    let bytes = read_part(file, program.p_offset(endian), program.p_filesz(endian), length);
                    found.look_at_dynamic(file, length, endian, &bytes.ok_or_else(|| refuse("it is cut off"))?);
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Refuses an executable without a loader. The loader itself has none.
    pub fn must_be_dynamic(&self, path: &Path) -> Result<&[u8]> {
        let why = "it is linked statically; link it dynamically, so that it finds Mainstay's MPI";
        self.interpreter.as_deref().ok_or_else(|| Error::Refused(format!("{}: {why}", path.display())))
    }

    fn look_at_dynamic(&mut self, file: &File, length: u64, endian: Endianness, bytes: &[u8]) {
        let Ok((entries, _)) = object::pod::slice_from_bytes::<elf::Dyn64<Endianness>>(bytes, bytes.len() / 16) else {
            return;
        };
        let value =
            |tag: elf::DynamicTag| entries.iter().find(|one| one.d_tag(endian) == tag).map(|one| one.d_val(endian));
        self.has_rpath = value(elf::DT_RPATH).is_some();
        let (Some(strings), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else { return };
        let Some(strings) = self.file_offset(strings as usize).and_then(|at| read_part(file, at, size, length)) else {
            return;
        };
        let mut room = Room::of(strings.len() as u64);
        for needed in entries.iter().filter(|one| one.d_tag(endian) == elf::DT_NEEDED) {
            let at = strings.get(needed.d_val(endian) as usize..).unwrap_or_default();
            let name = at.split(|byte| *byte == 0).next().unwrap_or_default();
            if !room.takes(name.len()) {
                return;
            }
            match name {
                b"libmpi.so.12" | b"libmpifort.so.12" | b"libmpicxx.so.12" => self.needs = Needs::Mpich,
                name if name.starts_with(b"libmpi_abi.so") => self.needs = Needs::Standard,
                name if name.starts_with(b"libmpi") && name.ends_with(b".so.40") => self.needs = Needs::OpenMpi,
                _ => {}
            }
            self.libraries.push(String::from_utf8_lossy(name).into_owned());
        }
    }

    fn file_offset(&self, address: usize) -> Option<u64> {
        let has = |one: &&Segment| address >= one.address && address - one.address < one.file_bytes;
        self.segments.iter().find(has).and_then(|one| one.file_offset.checked_add((address - one.address) as u64))
    }

    /// The number of addresses from the first segment to the end of the last.
    pub fn span(&self) -> usize {
        self.segments.iter().map(|one| one.address + one.memory_bytes).max().unwrap_or(0)
    }
}

fn segment(program: &elf::ProgramHeader64<Endianness>, endian: Endianness) -> Option<Segment> {
    let flags = program.p_flags(endian);
    let protection = [(elf::PF_R, libc::PROT_READ), (elf::PF_W, libc::PROT_WRITE), (elf::PF_X, libc::PROT_EXEC)];
    let segment = Segment {
        address: program.p_vaddr(endian).try_into().ok()?,
        file_offset: program.p_offset(endian),
        file_bytes: program.p_filesz(endian).try_into().ok()?,
        memory_bytes: program.p_memsz(endian).try_into().ok()?,
        protection: protection.iter().filter(|(flag, _)| (flags & *flag).0 != 0).map(|(_, bit)| bit).sum(),
    };
    let is_sane = segment.file_bytes <= segment.memory_bytes
        && segment.address.checked_add(segment.memory_bytes).is_some()
        && segment.file_offset >= (segment.address % PAGE) as u64;
    is_sane.then_some(segment)
}

/// A part of the file, of no more bytes than the file has.
fn read_part(file: &File, offset: u64, bytes: u64, length: u64) -> Option<Vec<u8>> {
    if offset.checked_add(bytes)? > length {
        return None;
    }
    let mut part = vec![0; bytes as usize];
    file.read_exact_at(&mut part, offset).ok()?;
    Some(part)
}

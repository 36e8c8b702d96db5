//! The running program, as its file and the loader describe it: the memory of its variables, and the words in them that
//! the loader has filled in.
//!
//! Invariant: memory of the loader, or of another library, never counts as a variable. Mainstay refuses a program that
//! it does not understand.

use super::symbols::{Symbol, symbols};
use crate::{
    capture::{
        ranges::{Range, meet, without},
        region::Region,
    },
    error::{Error, Result},
    ground::files,
    space::format::hash,
};
use memmap2::Mmap;
use object::{
    NativeEndian, elf,
    elf::{Dyn64, FileHeader64, ProgramHeader64, Rela64, Relr64, Sym64},
    pod::slice_from_all_bytes,
    read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, RelrIterator, Sym as _},
};
use std::{ffi::c_int, ffi::c_void, slice};

type Header = FileHeader64<NativeEndian>;
type Segment = ProgramHeader64<NativeEndian>;

const ENDIAN: NativeEndian = NativeEndian;
const FILE: &str = "/proc/self/exe";
/// An address of Mainstay's own.
static HERE: u8 = 0;
const WORD: u64 = 8;
/// The words of the procedure table that the loader reserves for itself.
const LOADER_WORDS: u64 = 3;

/// The types of relocations on this processor.
mod relocation {
    use object::elf::{self, RelocationType};

    #[cfg(target_arch = "x86_64")]
    pub(super) const KINDS: Option<[RelocationType; 3]> =
        Some([elf::R_X86_64_COPY, elf::R_X86_64_RELATIVE, elf::R_X86_64_64]);
    #[cfg(target_arch = "aarch64")]
    pub(super) const KINDS: Option<[RelocationType; 3]> =
        Some([elf::R_AARCH64_COPY, elf::R_AARCH64_RELATIVE, elf::R_AARCH64_ABS64]);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(super) const KINDS: Option<[RelocationType; 3]> = None;
}

/// The program as it was loaded, in addresses of this process.
#[derive(Debug)]
pub(super) struct Image {
    /// The identity of the program: the same for each run of one file.
    pub(super) identity: String,
    /// The difference between addresses in memory and in the file.
    pub(super) base: u64,
    /// The memory of the program, from its first byte to its last.
    pub(super) loaded: Range,
    /// The memory of its variables, each with the name of its section.
    pub(super) variables: Vec<(&'static str, Range)>,
    /// The variables that the file still names.
    pub(super) symbols: Vec<Symbol>,
    /// Words among them that began as addresses within the program, in order.
    pub(super) inner: Vec<u64>,
    /// Words among them that began as addresses in other libraries, in order.
    pub(super) outer: Vec<u64>,
}

impl Image {
    pub(super) fn of_this_process() -> Result<Image> {
        let (base, headers) = main_program();
        let here = std::ptr::from_ref(&HERE).addr() as u64;
        with_file(|file| {
            let mut image = read(file, &headers, here.wrapping_sub(base))?;
            let moved = |range: &mut Range| *range = range.start.wrapping_add(base)..range.end.wrapping_add(base);
            image.base = base;
            moved(&mut image.loaded);
            image.variables.iter_mut().for_each(|(_, range)| moved(range));
            image.symbols.iter_mut().for_each(|symbol| moved(&mut symbol.range));
            image.inner.iter_mut().chain(&mut image.outer).for_each(|word| *word = word.wrapping_add(base));
            Ok(image)
        })
    }

    /// Whether a region begins among the variables.
    pub(super) fn lies_inside(&self, region: &Region) -> bool {
        let at = region.begins_at() as u64;
        self.loaded.contains(&at) && self.variables.iter().any(|(_, range)| range.contains(&at))
    }

    /// The name of the variable at `address`, if the file still has it.
    pub(super) fn name_at(&self, address: u64) -> Option<&str> {
        let found = self.symbols.iter().find(|symbol| symbol.range.contains(&address));
        found.map(|symbol| symbol.name.as_str())
    }
}

fn with_file<T>(read: impl FnOnce(&[u8]) -> std::result::Result<T, String>) -> Result<T> {
    let file = files::kernel_file(FILE).map_err(|error| Error::io("opening", FILE, error))?;
    // SAFETY: the kernel prevents writes to the file of a running program.
    #[allow(unsafe_code)]
    let mapped = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("reading", FILE, error))?;
    read(&mapped).map_err(|why| Error::argument("protect_globals", format!("the program's own file, {FILE}: {why}")))
}

/// The load offset of the main program, and its program headers.
#[allow(unsafe_code)]
fn main_program() -> (u64, Vec<u8>) {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader calls this with the pointer passed below.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<(u64, Vec<u8>)>()) };
        let bytes = usize::from(info.dlpi_phnum) * size_of::<Segment>();
        // SAFETY: the loader keeps this many headers there.
        let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr.cast::<u8>(), bytes) };
        *found = (info.dlpi_addr, headers.to_vec());
        // The loader lists the main program first.
        1
    }
    let mut found = (0, Vec::new());
    // SAFETY: `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut found).cast()) };
    found
}

/// The memory of the running program, from its first byte to its last.
pub(super) fn loaded() -> Range {
    let (base, headers) = main_program();
    let segments: &[Segment] = slice_from_all_bytes(&headers).unwrap_or_default();
    let loads = || segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD);
    let begins = loads().map(|load| load.p_vaddr(ENDIAN)).min().unwrap_or(0);
    let ends = loads().map(|load| load.p_vaddr(ENDIAN) + load.p_memsz(ENDIAN)).max().unwrap_or(0);
    base.wrapping_add(begins)..base.wrapping_add(ends)
}

/// Reads the file of the program, in the file's addresses. `here` is an address in Mainstay.
fn read(file: &[u8], headers: &[u8], here: u64) -> std::result::Result<Image, String> {
    let Some([copy, relative, absolute]) = relocation::KINDS else {
        return Err("Mainstay does not know the loader's changes on this processor; protect its variables one by one"
            .to_owned());
    };
    let segments = segments(file)?;
    if as_bytes(segments) != headers {
        return Err(
            "it is not the running program, but one that loads it; start the program by its own name".to_owned()
        );
    }
    if !segments.iter().any(|segment| segment.p_type(ENDIAN) == elf::PT_INTERP) {
        return Err("it is linked statically, so data of the C library and MPI is among its variables; link it \
                    dynamically, or protect its variables one by one"
            .to_owned());
    }
    for segment in segments {
        let bytes = segment.p_memsz(ENDIAN).max(segment.p_filesz(ENDIAN));
        stretch(segment.p_vaddr(ENDIAN), bytes)?;
    }
    let loads = || segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD);
    let loaded = loads().map(|load| load.p_vaddr(ENDIAN)).min().unwrap_or(0)
        ..loads().map(|load| load.p_vaddr(ENDIAN) + load.p_memsz(ENDIAN)).max().unwrap_or(0);
    let dynamic = Dynamic { file, segments, entries: entries(file, segments)? };

    // Stretches of the program's memory that belong to the loader or to Mainstay.
    let of = |kind: elf::ProgramType| segments.iter().filter(move |segment| segment.p_type(ENDIAN) == kind);
    let mut others: Vec<Range> = of(elf::PT_GNU_RELRO)
        .chain(of(elf::PT_DYNAMIC))
        .map(|segment| segment.p_vaddr(ENDIAN)..segment.p_vaddr(ENDIAN) + segment.p_memsz(ENDIAN))
        .chain(of(elf::PT_TLS).map(|tls| tls.p_vaddr(ENDIAN)..tls.p_vaddr(ENDIAN) + tls.p_filesz(ENDIAN)))
        .collect();
    if let Some(table) = dynamic.value(elf::DT_PLTGOT) {
        others.push(stretch(table, LOADER_WORDS * WORD)?);
    }
    let (mut inner, mut outer) = (dynamic.packed()?, Vec::new());
    for entry in dynamic.relocations()? {
        let at = entry.r_offset.get(ENDIAN);
        match entry.r_type(ENDIAN, false) {
            kind if kind == copy => others.push(stretch(at, dynamic.symbol_bytes(entry.r_sym(ENDIAN, false))?)?),
            kind if kind == relative => inner.push(at),
            kind if kind == absolute => outer.push(at),
            // Any other relocation fills an entry of the loader's tables, for a symbol in a library.
            _ => others.push(stretch(at, WORD)?),
        }
    }
    let mut symbols = symbols(file)?;
    if loaded.contains(&here) {
        others.extend(of_mainstay(&symbols)?);
    }

    let mut variables = Vec::new();
    for load in loads().filter(|load| load.p_flags(ENDIAN).0 & elf::PF_W.0 != 0) {
        let start = load.p_vaddr(ENDIAN);
        let [filled, end] = [load.p_filesz(ENDIAN), load.p_memsz(ENDIAN)].map(|bytes| start + bytes);
        for (name, range) in [("data", start..filled), ("bss", filled..end)] {
            variables.extend(without(range, &others).into_iter().map(|range| (name, range)));
        }
    }
    let is_variable = |word: &u64| {
        let lies_in = |range: &Range| range.start <= *word && *word < range.end && range.end - *word >= WORD;
        variables.iter().any(|(_, range)| lies_in(range))
    };
    for words in [&mut inner, &mut outer] {
        words.retain(is_variable);
        words.sort_unstable();
    }
    symbols.retain(|symbol| variables.iter().any(|(_, range)| meet(range, &symbol.range)));
    // A stripped program gives its regions other names.
    let stripped = if symbols.is_empty() { ", stripped" } else { "" };
    let identity = format!("{}{stripped}", identity(file, segments));
    Ok(Image { identity, base: 0, loaded, variables, symbols, inner, outer })
}

/// The range of `bytes` bytes from `at` on. Refuses a range beyond all memory.
fn stretch(at: u64, bytes: u64) -> std::result::Result<Range, String> {
    at.checked_add(bytes).map(|end| at..end).ok_or_else(|| odd("it has addresses beyond all memory"))
}

fn segments(file: &[u8]) -> std::result::Result<&[Segment], String> {
    let header = Header::parse(file).map_err(|_| "it is not a 64-bit ELF file".to_owned())?;
    header.program_headers(ENDIAN, file).map_err(odd)
}

/// Reads any file as if it were the running program.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_any(file: &[u8]) -> std::result::Result<usize, String> {
    let headers = as_bytes(segments(file)?);
    read(file, headers, 0).map(|image| image.variables.len() + image.symbols.len())
}

fn as_bytes(segments: &[Segment]) -> &[u8] {
    object::pod::bytes_of_slice(segments)
}

fn odd(error: impl std::fmt::Display) -> String {
    format!("it cannot be read: {error}")
}

fn entries<'a>(file: &'a [u8], segments: &[Segment]) -> std::result::Result<&'a [Dyn64<NativeEndian>], String> {
    for segment in segments {
        if let Some(entries) = segment.dynamic(ENDIAN, file).map_err(odd)? {
            return Ok(entries);
        }
    }
    Err("it has no section for the loader".to_owned())
}

/// The file's instructions to the loader.
struct Dynamic<'a> {
    file: &'a [u8],
    segments: &'a [Segment],
    entries: &'a [Dyn64<NativeEndian>],
}

impl<'a> Dynamic<'a> {
    fn value(&self, tag: elf::DynamicTag) -> Option<u64> {
        let until_end = self.entries.iter().take_while(|entry| entry.tag(ENDIAN) != elf::DT_NULL);
        until_end.filter(|entry| entry.tag(ENDIAN) == tag).map(|entry| entry.val(ENDIAN)).next()
    }

    fn bytes(&self, at: u64, bytes: u64) -> std::result::Result<&'a [u8], String> {
        let loads = self.segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD);
        let mut found = loads.filter_map(|load| load.data_range(ENDIAN, self.file, at, bytes).ok().flatten());
        found.next().ok_or_else(|| odd(format_args!("{bytes} bytes at {at:#x} are not in it")))
    }

    /// The bytes of a table; one entry of the loader's list gives its address, another its length.
    fn table<T: object::pod::Pod>(&self, [at, bytes]: [elf::DynamicTag; 2]) -> std::result::Result<&'a [T], String> {
        let (Some(at), Some(bytes)) = (self.value(at), self.value(bytes)) else { return Ok(&[]) };
        slice_from_all_bytes(self.bytes(at, bytes)?).map_err(|()| odd("a table that is cut short"))
    }

    fn relocations(&self) -> std::result::Result<impl Iterator<Item = &'a Rela64<NativeEndian>>, String> {
        let own = self.table([elf::DT_RELA, elf::DT_RELASZ])?;
        Ok(own.iter().chain(self.table::<Rela64<NativeEndian>>([elf::DT_JMPREL, elf::DT_PLTRELSZ])?))
    }

    /// The words that are addresses within the program, from the linker's packed list.
    fn packed(&self) -> std::result::Result<Vec<u64>, String> {
        let table: &[Relr64<NativeEndian>] = self.table([elf::DT_RELR, elf::DT_RELRSZ])?;
        Ok(RelrIterator::<Header>::new(ENDIAN, table).collect())
    }

    fn symbol_bytes(&self, index: u32) -> std::result::Result<u64, String> {
        let size = size_of::<Sym64<NativeEndian>>() as u64;
        let table = self.value(elf::DT_SYMTAB).ok_or_else(|| odd("no symbols"))?;
        let at = stretch(table, u64::from(index) * size)?.end;
        let symbol: &[Sym64<NativeEndian>] =
            slice_from_all_bytes(self.bytes(at, size)?).map_err(|()| odd("symbols"))?;
        Ok(symbol[0].st_size(ENDIAN))
    }
}

/// The variables of Mainstay itself, if it is linked into the program.
fn of_mainstay(symbols: &[Symbol]) -> std::result::Result<Vec<Range>, String> {
    let own: Vec<Range> = symbols.iter().filter(|one| one.is_of_rust).map(|one| one.range.clone()).collect();
    if own.is_empty() {
        return Err(
            "libmainstay.a is linked into it, and without symbols Mainstay's variables cannot be told from the \
                    program's; link libmainstay.so, or do not strip it"
                .to_owned(),
        );
    }
    Ok(own)
}

/// The build id if the linker made one; otherwise a hash of the loaded parts.
fn identity(file: &[u8], segments: &[Segment]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for segment in segments {
        let Ok(Some(notes)) = segment.notes(ENDIAN, file) else { continue };
        for note in notes.flatten() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(ENDIAN) == elf::NT_GNU_BUILD_ID {
                return format!("build id {}", hex(note.desc()));
            }
        }
    }
    let loads = segments.iter().filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD);
    let hashes: Vec<u8> = loads.flat_map(|load| hash(load.data(ENDIAN, file).unwrap_or(&[]))).collect();
    format!("hash {}", hex(&hash(&hashes)))
}

//! The image with the clocks of a rank, in place of the kernel's vDSO.

use super::{Areas, Source};
use crate::{
    address::{PAGE, Slot, page_down, page_up},
    memory,
};
use object::{Endianness, Object, ObjectSymbol, elf::FileHeader64, read::elf::ElfFile};
use std::io;

static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso.so"));

/// Puts the image into a slot. Returns the address of the variable with the nanoseconds that the rank is ahead.
///
/// The image is memory like any other. A restart restores the saved image, even if this version has another one.
pub(super) fn put(slot: Slot, areas: &mut Areas) -> io::Result<usize> {
    use object::read::elf::ProgramHeader;
    let damaged = || io::Error::from_raw_os_error(libc::ENOEXEC);
    let image = ElfFile::<FileHeader64<Endianness>>::parse(IMAGE).map_err(|_| damaged())?;
    let (endian, base) = (image.endian(), slot.clocks());
    for program in image.elf_program_headers() {
        if program.p_type(endian) != object::elf::PT_LOAD {
            continue;
        }
        let (address, bytes) = (program.p_vaddr(endian) as usize, program.p_memsz(endian) as usize);
        let range = base + page_down(address)..base + page_up(address + bytes);
        let part = program.data(endian, IMAGE).map_err(|()| damaged())?;
        let flags = program.p_flags(endian);
        let is = |flag: object::elf::ProgramFlags, protection: i32| if (flags & flag).0 == 0 { 0 } else { protection };
        let protection =
            libc::PROT_READ | is(object::elf::PF_W, libc::PROT_WRITE) | is(object::elf::PF_X, libc::PROT_EXEC);
        memory::map(slot, &range, libc::PROT_READ | libc::PROT_WRITE, None)?;
        memory::write(slot, base + address, part)?;
        memory::protect(slot, &range, protection)?;
        areas.insert(range, protection, Source::Memory);
    }
    let ahead = image.dynamic_symbols().find(|symbol| symbol.name() == Ok("mainstay_ahead_ns"));
    ahead.map(|symbol| base + symbol.address() as usize).ok_or_else(damaged)
}

/// The image begins here, after the address at which it is put.
pub(super) const HEADER: usize = PAGE;

//! Files that `mainstay files` protects. Its library is in this process, and does the calls of ranks that name files: a
//! name may mean a file in the node's memory. The host's own calls pass it by.
#![allow(unsafe_code)]

use super::{Arguments, kernel};
use crate::{address::Slot, memory};
use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int, c_long, c_void},
    fs::{self, File},
    io,
    mem::ManuallyDrop,
    ops::Deref,
    os::{
        fd::{AsRawFd, FromRawFd, RawFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
    sync::OnceLock,
};

const NAME_BYTES: usize = libc::PATH_MAX as usize;

/// The functions of `files/preload/hosts.c`.
struct Library {
    open: unsafe extern "C" fn(c_int, *const c_char, c_int, libc::mode_t, *mut c_char) -> c_int,
    call: unsafe extern "C" fn(c_long, *const c_long) -> c_long,
    give_up: unsafe extern "C" fn(c_int),
}

static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();

/// This process is a host. Comes before the process has other threads.
pub(crate) fn begin() {
    LIBRARY.get_or_init(Library::find);
}

fn library() -> Option<&'static Library> {
    LIBRARY.get().and_then(Option::as_ref)
}

impl Library {
    /// `None`: no file is protected.
    fn find() -> Option<Library> {
        let symbol = |name: &CStr| {
            // SAFETY: looks up a name.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        let [host, open, call, give_up] =
            [c"mainstay_files_host", c"mainstay_files_open", c"mainstay_files_call", c"mainstay_files_give_up"]
                .map(symbol);
        // SAFETY: the library has these functions with these types.
        unsafe {
            let host = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> bool>(host?);
            let library = Library {
                open: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(c_int, *const c_char, c_int, libc::mode_t, *mut c_char) -> c_int,
                >(open?),
                call: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_long, *const c_long) -> c_long>(call?),
                give_up: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int)>(give_up?),
            };
            host().then_some(library)
        }
    }
}

/// `openat`. Returns the host's descriptor, and the absolute name of a protected file that is not opened under its name.
pub(super) fn open(directory: RawFd, name: &CStr, flags: i32, mode: u32) -> io::Result<(RawFd, Option<Vec<u8>>)> {
    let Some(library) = library() else {
        let words = [directory as u64, name.as_ptr() as u64, flags as u64, mode.into(), 0, 0];
        return kernel::result(kernel::call(libc::SYS_openat, words)).map(|host| (host as RawFd, None));
    };
    let mut own = [0u8; NAME_BYTES];
    // SAFETY: the name is a text, and `own` has the room that the library asks for.
    let host = unsafe { (library.open)(directory, name.as_ptr(), flags, mode, own.as_mut_ptr().cast()) };
    if host < 0 {
        return Err(io::Error::last_os_error());
    }
    let own = own.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok((host, (!own.is_empty()).then(|| own.to_vec())))
}

/// The arguments of a call that are names. Only calls that the library redirects have any.
fn places_of_names(number: i64) -> &'static [usize] {
    match number {
        libc::SYS_truncate | libc::SYS_utime | libc::SYS_utimes => &[0],
        libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_fchmodat
        | libc::SYS_fchownat
        | libc::SYS_utimensat
        | libc::SYS_futimesat
        | libc::SYS_unlinkat => &[1],
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => &[1, 3],
        _ => &[],
    }
}

/// Does a call of a rank that may name protected files. Its descriptors are the host's.
pub(super) fn call(slot: Slot, number: i64, mut arguments: Arguments) -> i64 {
    let places = places_of_names(number);
    if library().is_none() || places.is_empty() {
        return kernel::call(number, arguments);
    }
    // The kernel refuses a name that is not in the rank's memory.
    let names = places.iter().map(|place| text(slot, arguments[*place])).collect::<Option<Vec<CString>>>();
    let Some(names) = names else { return kernel::call(number, arguments) };
    for (place, name) in places.iter().zip(&names) {
        arguments[*place] = name.as_ptr() as u64;
    }
    call_with(number, arguments)
}

/// Makes `second` another name of a file. A protected file gets its own name first. `name` is the address of a text.
pub(super) fn link(directory: u64, name: u64, second: &CStr) -> bool {
    let (current, second) = (libc::AT_FDCWD as u64, second.as_ptr() as u64);
    call_with(libc::SYS_linkat, [directory, name, current, second, 0, 0]) == 0
}

/// The same for names that are texts of the host.
pub(super) fn call_with(number: i64, arguments: Arguments) -> i64 {
    let Some(library) = library() else { return kernel::call(number, arguments) };
    let words = arguments.map(|word| word as c_long);
    // SAFETY: as for `kernel::call`; the names are texts of the host.
    let result = unsafe { (library.call)(number, words.as_ptr()) };
    if result == -1 { kernel::number(&io::Error::last_os_error()) } else { result }
}

/// A text in the memory of a rank.
pub(super) fn text(slot: Slot, address: u64) -> Option<CString> {
    CString::new(memory::string(slot, address as usize).ok()?).ok()
}

/// The absolute name that a call means, as `open` gives it. `None`: no file is protected, or the folder is missing.
pub(super) fn own_name(slot: Slot, directory: RawFd, name: u64) -> Option<Vec<u8>> {
    library()?;
    let name = text(slot, name)?;
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    let directory = fs::read_link(format!("/proc/self/fd/{directory}")).unwrap_or_default();
    let whole = directory.join(name);
    let folder = fs::canonicalize(whole.parent()?).ok()?;
    Some(folder.join(whole.file_name()?).into_os_string().into_vec())
}

/// A file that the host has open for a rank. If it is protected, only [`HostFile::close`] lets it become whole: in any
/// other way it goes with its rank, which writes it anew elsewhere.
#[derive(Debug)]
pub(super) struct HostFile {
    file: File,
    is_protected: bool,
}

impl HostFile {
    /// Owns a descriptor that a call has given just now.
    pub fn owned(descriptor: RawFd, is_protected: bool) -> HostFile {
        // SAFETY: nothing else owns it.
        HostFile { file: unsafe { File::from_raw_fd(descriptor) }, is_protected }
    }

    pub fn close(self) -> io::Result<()> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the value is gone, so nothing else closes its descriptor.
        let result = unsafe { libc::close(this.file.as_raw_fd()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl From<File> for HostFile {
    fn from(file: File) -> HostFile {
        HostFile { file, is_protected: false }
    }
}

impl Deref for HostFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        if let Some(library) = library().filter(|_| self.is_protected) {
            // SAFETY: the descriptor is open.
            unsafe { (library.give_up)(self.file.as_raw_fd()) }
        }
    }
}

//! Mappings and open files of killed processes. The kernel would free those of a real process.

use std::{
    fs,
    os::fd::RawFd,
    path::{Path, PathBuf},
};

/// Unmaps and closes all files below `folder`. Call it once no thread of the cluster can run again.
pub(super) fn remove(folder: &Path) {
    for (start, bytes) in mappings(folder) {
        // SAFETY: the mapping belongs to a thread that never runs again.
        #[allow(unsafe_code)]
        unsafe {
            libc::munmap(start as *mut libc::c_void, bytes);
        }
    }
    for descriptor in descriptors(folder) {
        // SAFETY: the descriptor belongs to a thread that never runs again.
        #[allow(unsafe_code)]
        unsafe {
            libc::close(descriptor);
        }
    }
}

/// The start and the length of each mapping of a file below `folder`.
fn mappings(folder: &Path) -> Vec<(usize, usize)> {
    let all = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let of_folder = all.lines().filter(|line| line.split_once('/').is_some_and(|(_, path)| is_below(path, folder)));
    let range = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some((address(start)?, address(end)? - address(start)?))
    };
    of_folder.filter_map(range).collect()
}

fn is_below(path: &str, folder: &Path) -> bool {
    Path::new("/").join(path).starts_with(folder)
}

/// The open files below `folder`. The folder itself stays open: its descriptor is the lock of the run.
fn descriptors(folder: &Path) -> Vec<RawFd> {
    let all = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_below = |path: &PathBuf| fs::read_link(path).is_ok_and(|file| file != folder && file.starts_with(folder));
    all.map(|entry| entry.path()).filter(is_below).filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect()
}

//! The kernel's view of processes: the staged files that they can write by descriptors and mappings, and their ends.

use super::holders::{Holders, Pid};
use crate::stage::{CATCH_VARIABLE, Id};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
};

/// A part of the preload library's name.
const LIBRARY: &[u8] = b"/libmainstay_files.so";
const STAGE: &[u8] = b"MAINSTAY_FILES_STAGE=";
/// PF_EXITING of the kernel: the thread is exiting.
const IS_EXITING: u64 = 4;

/// The processes of this user that can write staged files. A new helper looks for them.
pub fn found(stage: &Path) -> HashMap<Id, Holders> {
    let mut found: HashMap<Id, Holders> = HashMap::new();
    for process in processes() {
        descriptors(stage, process).into_iter().for_each(|(id, count)| {
            found.entry(id).or_default().find(process, count);
        });
        mappings(stage, process).into_iter().for_each(|id| found.entry(id).or_default().find(process, 0));
    }
    found
}

/// The staged files that the process can write.
pub fn staged_held_by(stage: &Path, process: Pid) -> BTreeSet<Id> {
    descriptors(stage, process).into_keys().chain(mappings(stage, process)).collect()
}

/// The processes that can write a staged file.
pub fn writers_of(stage: &Path, id: Id) -> Vec<Pid> {
    processes().filter(|process| staged_held_by(stage, *process).contains(&id)).collect()
}

/// All processes but this one.
fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<Pid>().ok());
    all.filter(|process| *process != std::process::id() as Pid)
}

/// The number of descriptors of each staged file that the process has open to write.
fn descriptors(stage: &Path, process: Pid) -> BTreeMap<Id, u32> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
        if let Ok(path) = fs::read_link(entry.path())
            && let Some(id) = staged_id(stage, &path)
            && is_open_to_write(process, &entry.file_name().to_string_lossy())
        {
            *found.entry(id).or_default() += 1;
        }
    }
    found
}

fn is_open_to_write(process: Pid, descriptor: &str) -> bool {
    let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
}

/// The staged files that the process can write through a shared mapping.
fn mappings(stage: &Path, process: Pid) -> BTreeSet<Id> {
    let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
    let lines = maps.split(|byte| *byte == b'\n');
    lines.filter_map(|line| mapped_to_write(stage, process, line)).collect()
}

/// A line is "FROM-TO RIGHTS OFFSET DEVICE INODE PATH".
fn mapped_to_write(stage: &Path, process: Pid, line: &[u8]) -> Option<Id> {
    let (head, path) = line.split_at(line.iter().position(|byte| *byte == b'/')?);
    let id = staged_id(stage, Path::new(OsStr::from_bytes(path)))?;
    let mut words = std::str::from_utf8(head).ok()?.split(' ');
    let (range, rights) = (words.next()?, words.next()?);
    // The program may allow writes later. The rights of the link are those of the mapped descriptor.
    let link = || fs::symlink_metadata(format!("/proc/{process}/map_files/{range}"));
    let may_write = || rights.get(1..2) == Some("w") || link().is_ok_and(|link| link.permissions().mode() & 0o200 != 0);
    (rights.ends_with('s') && may_write()).then_some(id)
}

/// The ID in the path of a staged file.
fn staged_id(stage: &Path, path: &Path) -> Option<Id> {
    let is_staged = path.starts_with(stage.join("files")) || path.parent()?.ends_with(".mainstay/writing");
    is_staged.then(|| Id::from_text(path.file_name()?.to_str()?)).flatten()
}

/// Whether a process with this stage has the preload library or a supervisor. A process of another user has another
/// helper.
pub fn is_any_caught(stage: &Path) -> bool {
    let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|one| one == part);
    let supervised = [CATCH_VARIABLE.as_bytes(), b"=", stage.as_os_str().as_bytes()].concat();
    let mut processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.any(|process| {
        let read = |file| fs::read(process.path().join(file)).unwrap_or_default();
        let variables = read("environ");
        let is_elsewhere = has(&variables, STAGE) && !has(&variables, stage.as_os_str().as_bytes());
        has(&variables, &supervised) || (!is_elsewhere && has(&read("maps"), LIBRARY))
    })
}

/// Whether a thread of the process is not exiting.
pub fn is_running(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok()).any(|stat| !is_exiting(&stat))
}

/// Whether the process was killed or is exiting: its program closes no more files.
pub fn is_dying(process: Pid) -> bool {
    const SIGKILL: u64 = 1 << (libc::SIGKILL - 1);
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let pending = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    let is_killed =
        pending.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).any(|mask| mask & SIGKILL != 0);
    is_killed || !is_running(process)
}

/// The fields after the program's name, which may have any character.
fn is_exiting(stat: &str) -> bool {
    let flags = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u64>().ok()).is_none_or(|flags| flags & IS_EXITING != 0)
}

/// The name of the program that the process runs.
pub fn program_of(process: Pid) -> Option<String> {
    fs::read_to_string(format!("/proc/{process}/comm")).ok().map(|name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_on_its_way_out_is_told_from_one_that_runs() {
        assert!(is_running(std::process::id() as Pid));
        assert!(!is_exiting("7 (a) b) c) R 1 7 7 0 -1 4194560 95 0"));
        assert!(is_exiting("7 (a) b) c) R 1 7 7 0 -1 4194564 95 0"));
        assert!(is_exiting("7"));
    }

    #[test]
    fn the_path_of_a_staged_file_gives_its_id() {
        let stage = Path::new("/dev/shm/stage");
        let id = Id::after(None, 1);
        assert_eq!(staged_id(stage, &stage.join("files").join(id.to_string())), Some(id));
        assert_eq!(staged_id(stage, &Path::new("/a/.mainstay/writing").join(id.to_string())), Some(id));
        assert_eq!(staged_id(stage, &Path::new("/a/writing").join(id.to_string())), None);
    }

    #[test]
    fn a_shared_mapping_that_may_be_written_is_found_in_its_line() {
        let id = Id::after(None, 1);
        let line = |rights: &str, path: &str| {
            let line = format!("7f0000000000-7f0000001000 {rights} 00000000 00:19 45   {path}/{id}");
            mapped_to_write(Path::new("/dev/shm/stage"), std::process::id() as Pid, line.as_bytes())
        };
        assert_eq!(line("rw-s", "/dev/shm/stage/files"), Some(id));
        assert_eq!(line("rw-s", "/a b/.mainstay/writing"), Some(id));
        for (rights, path) in [("r--s", "/dev/shm/stage/files"), ("rw-p", "/dev/shm/stage/files"), ("rw-s", "/a")] {
            assert_eq!(line(rights, path), None, "{rights} {path}");
        }
        for strange in ["", "x", "/", " /dev/shm/stage/files/", "7f-7f r /dev/shm/stage/files/0000000000000001"] {
            assert_eq!(mapped_to_write(Path::new("/dev/shm/stage"), 1, strange.as_bytes()), None, "{strange}");
        }
    }
}

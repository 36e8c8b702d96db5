//! Files are opened in one place, and get no descriptor below 3.
#![expect(unsafe_code, reason = "descriptors are closed, and regions are memory of the program")]

use super::layers::{code_of, files};
use mainstay_engine::{Capture, Config, LevelPlace, MemoryAfter, Region, Session, group::Solo};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The files that may contain the calls below.
const SEAM: [&str; 2] = ["engine/src/ground/descriptor.rs", "engine/src/ground/files.rs"];

/// Calls that make a descriptor.
const CALLS: [&str; 27] = [
    "OpenOptions",
    "File::open",
    "File::create",
    "File::options",
    "fs::read(",
    "fs::read_to_string(",
    "fs::read_dir(",
    "fs::write(",
    "fs::copy(",
    "fs::remove_dir_all(",
    "fcntl::open",
    "fs::open",
    "openat",
    "memfd_create",
    "io::pipe",
    "pipe2(",
    "libc::open",
    "libc::dup",
    "libc::socket",
    "dup2",
    "UnixStream",
    "TcpStream",
    "epoll_create",
    "eventfd",
    "inotify",
    "signalfd",
    "Command::new",
];

/// System calls that are made where they are needed. A file with one of them passes the descriptor through
/// `above_standard`.
const WITHIN: [&str; 2] = ["SYS_userfaultfd", "CLONE_PIDFD"];

/// The command needs no such care: before `main`, the standard library opens the standard descriptors of a Rust
/// program.
#[test]
fn files_are_opened_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = ["engine", "objects", "capi", "python"].map(|name| root.join(name).join("src"));
    let (mut seen, mut wrong) = (0, Vec::new());
    for path in crates.iter().flat_map(|path| files(path)) {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap();
        // A child of a snapshot may make only system calls. Its program has occupied the standard descriptors before.
        if SEAM.contains(&name) || name.ends_with("snapshot/clone/child.rs") {
            continue;
        }
        let code = code_of(&path);
        seen += 1;
        wrong.extend(CALLS.iter().filter(|call| is_called(&code, call)).map(|call| format!("{name}: {call}")));
        let is_within = code.contains("above_standard(");
        wrong.extend(
            WITHIN.iter().filter(|call| code.contains(*call) && !is_within).map(|call| format!("{name}: {call}")),
        );
    }
    assert!(seen > 300, "only {seen} files were found");
    assert!(wrong.is_empty(), "these open files by other calls than those of engine/src/ground/files.rs: {wrong:#?}");
}

/// Whether the code contains these words, and not only the end of a longer one.
fn is_called(code: &str, call: &str) -> bool {
    let is_end = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    code.match_indices(call).any(|(at, _)| !is_end(&code[..at]))
}

const TASK: &str = "MAINSTAY_TEST_OPENS";

/// The next line that the program printed overwrote the header of the layout, and all revisions were lost.
#[test]
fn no_file_has_a_standard_descriptor() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut job = Command::new(env::current_exe().unwrap());
    job.args(["--exact", "opens::job_without_standard_descriptors", "--ignored", "--nocapture"]);
    let ran = job.env(TASK, folder.path()).status().unwrap();
    let found = fs::read_to_string(folder.path().join("found")).unwrap_or_default();
    assert!(ran.success() && found.is_empty(), "{ran}: {found}");
}

#[test]
#[ignore = "run by the other test"]
fn job_without_standard_descriptors() {
    let Some(folder) = env::var_os(TASK).map(PathBuf::from) else { return };
    // SAFETY: nothing else in this process uses them.
    (0..3).for_each(|descriptor| assert_eq!(0, unsafe { libc::close(descriptor) }));
    let mut found = Vec::new();
    let mut state = vec![7_u8; 300_000];
    for (round, capture) in [Capture::Whole, Capture::Incremental, Capture::Snapshot].into_iter().enumerate() {
        let config = Config {
            capture,
            snapshot_bytes: Some(0),
            memory: LevelPlace::At(folder.clone()),
            memory_after: MemoryAfter::Kept,
            trace: Some(folder.join("trace")),
            ..Config::default()
        };
        let mut session = Session::open(Box::new(Solo), &folder.join("space"), config).unwrap();
        // SAFETY: the state outlives the session.
        let region = unsafe { Region::new("x", state.as_mut_ptr(), state.len() as u64) };
        session.protect(region.unwrap()).unwrap();
        found.extend(files_with_standard_descriptors());
        let restored = session.restore().unwrap().map(|restored| restored.revision);
        if restored != (round > 0).then_some(2 * round as u64) {
            found.push(format!("restored {restored:?} in round {round}"));
        }
        for _ in 0..2 {
            session.checkpoint().unwrap();
            found.extend(files_with_standard_descriptors());
            session.wait().unwrap();
            print_over_them();
        }
        session.close().unwrap();
    }
    if !found.is_empty() {
        fs::write(folder.join("found"), found.join("\n")).unwrap();
    }
}

fn files_with_standard_descriptors() -> Vec<String> {
    let links = (0..3).filter_map(|descriptor| fs::read_link(format!("/proc/self/fd/{descriptor}")).ok());
    links.filter(|path| path != Path::new("/")).map(|path| path.display().to_string()).collect()
}

/// Prints as a program does.
fn print_over_them() {
    let line = [b'x'; 8192];
    // SAFETY: the line outlives the calls.
    let write = |descriptor| unsafe { libc::write(descriptor, line.as_ptr().cast(), line.len()) };
    assert!((0..3).all(|descriptor| write(descriptor) < 0), "as where they are closed");
}

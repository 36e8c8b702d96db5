//! Tells `mainstay run` that the job was refused. Another start would be refused in the same way.

use std::{
    env,
    fs::{OpenOptions, read_link},
    io::Write,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
};

/// As the reports of a session: words in a file that `mainstay run` has made.
const VARIABLE: &str = "MAINSTAY_RUN_REPORT";
const MEMORY_FILE: &[u8] = b"/memfd:mainstay-run-report";

pub(crate) fn tell() {
    let Some(path) = env::var_os(VARIABLE) else { return };
    let Ok(mut file) = OpenOptions::new().append(true).open(path) else { return };
    // On another machine than that of `mainstay run`, the path may lead to any file of any process.
    let is_report = read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .is_ok_and(|name| name.as_os_str().as_bytes().starts_with(MEMORY_FILE));
    if is_report {
        let _ = file.write_all(b"refused\0");
    }
}

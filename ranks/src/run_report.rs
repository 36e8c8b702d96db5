//! Reports the end of the job to `mainstay run`. The exit status of the launcher is not enough: a killed process makes it
//! an error, even if the job went on without that process.

use std::{
    env,
    fs::{OpenOptions, read_link},
    io::Write,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
};

/// As the reports of a session: words in a file that `mainstay run` has made.
const VARIABLE: &str = "MAINSTAY_RUN_REPORT";
const MEMORY_FILE: &[u8] = b"/memfd:mainstay-run-report";

/// Reports that the job was refused. Another start would be refused in the same way.
pub(crate) fn refused() {
    report("refused");
}

/// Reports that all ranks have ended, and the exit code of the program.
pub(crate) fn ended(code: i32) {
    report(&format!("ended {code}"));
}

fn report(word: &str) {
    let Some(path) = env::var_os(VARIABLE) else { return };
    let Ok(mut file) = OpenOptions::new().append(true).open(path) else { return };
    // On another machine than that of `mainstay run`, the path may lead to any file of any process.
    let is_report = read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .is_ok_and(|name| name.as_os_str().as_bytes().starts_with(MEMORY_FILE));
    if is_report {
        let _ = file.write_all(format!("{word}\0").as_bytes());
    }
}

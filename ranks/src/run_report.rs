//! Tells `mainstay run` how the job has ended. Its launcher may say otherwise: it counts processes that were killed, also
//! if the job went on without them.

use std::{
    env,
    fs::{OpenOptions, read_link},
    io::Write,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
};

/// As the reports of a session: words in a file that `mainstay run` has made.
const VARIABLE: &str = "MAINSTAY_RUN_REPORT";
const MEMORY_FILE: &[u8] = b"/memfd:mainstay-run-report";

/// The job was refused. Another start would be refused in the same way.
pub(crate) fn refused() {
    tell("refused");
}

/// All ranks have ended. The exit code is that of the program.
pub(crate) fn ended(code: i32) {
    tell(&format!("ended {code}"));
}

fn tell(word: &str) {
    let Some(path) = env::var_os(VARIABLE) else { return };
    let Ok(mut file) = OpenOptions::new().append(true).open(path) else { return };
    // On another machine than that of `mainstay run`, the path may lead to any file of any process.
    let is_report = read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .is_ok_and(|name| name.as_os_str().as_bytes().starts_with(MEMORY_FILE));
    if is_report {
        let _ = file.write_all(format!("{word}\0").as_bytes());
    }
}

//! The process that has a space open, from the lock file, for the error of others that find the space in use.

use super::{format::Opener, lock_blocks::LockBlocks};
use crate::{
    device::Device,
    error::Error,
    ground::{process_id, unix_ns},
    printable::printable,
};
use std::{
    sync::OnceLock,
    time::{Duration, UNIX_EPOCH},
};

/// How messages print a time, given in nanoseconds since 1970; set before the first one.
static TELL: OnceLock<fn(u64) -> String> = OnceLock::new();

/// Makes messages print times with `tell` instead of in UTC: for a command, which knows the user's time zone.
pub fn tell_times(tell: fn(u64) -> String) {
    let _ = TELL.set(tell);
}

fn in_utc(unix_ns: u64) -> String {
    let since = UNIX_EPOCH.checked_add(Duration::from_nanos(unix_ns));
    since.map_or_else(|| "?".to_owned(), |since| humantime::format_rfc3339_seconds(since).to_string())
}

/// Notes that this process, on `host`, has locked and opened the space on `device`. If the note cannot be written,
/// other processes get a shorter message.
pub(crate) fn note_opener(device: &dyn Device, host: String) {
    let opener = Opener { host, process: process_id(), since_unix_ns: unix_ns() };
    let _ = LockBlocks::open(device).and_then(|blocks| blocks.write_opener(&opener));
}

/// Adds the opener to `error`, if that says that the space on `device` is in use.
pub(crate) fn with_opener(error: Error, device: &dyn Device) -> Error {
    match error {
        Error::InUse { path, holder } if holder.is_empty() => {
            let holder =
                LockBlocks::open(device).ok().and_then(|blocks| blocks.opener()).map(|opener| holder_text(&opener));
            Error::InUse { path, holder: holder.unwrap_or_default() }
        }
        other => other,
    }
}

fn holder_text(opener: &Opener) -> String {
    let since = TELL.get().map_or_else(|| in_utc(opener.since_unix_ns), |tell| tell(opener.since_unix_ns));
    let (process, host) = (opener.process, printable(&opener.host));
    format!(": process {process} on {host}, its rank 0, has had it open since {since}")
}

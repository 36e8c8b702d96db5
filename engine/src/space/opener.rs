//! Who has a space open, as the lock file tells: for the error of those who find it in use.

use super::{format::Opener, lock_blocks::LockBlocks};
use crate::{device::Device, error::Error, ground::unix_ns, printable::printable};
use std::{
    process,
    time::{Duration, UNIX_EPOCH},
};

/// Notes that this process, on `host`, has the space on `device` open, whose locks it has. Where that cannot be written, others
/// are told less.
pub(crate) fn note_opener(device: &dyn Device, host: String) {
    let opener = Opener { host, process: process::id(), since_unix_ns: unix_ns() };
    let _ = LockBlocks::open(device).and_then(|blocks| blocks.write_opener(&opener));
}

/// `error`; where it says that the space on `device` is in use, with who has it.
pub(crate) fn with_opener(error: Error, device: &dyn Device) -> Error {
    match error {
        Error::InUse { path, holder } if holder.is_empty() => {
            let told =
                LockBlocks::open(device).ok().and_then(|blocks| blocks.opener()).and_then(|opener| told(&opener));
            Error::InUse { path, holder: told.unwrap_or_default() }
        }
        other => other,
    }
}

fn told(opener: &Opener) -> Option<String> {
    let since = UNIX_EPOCH.checked_add(Duration::from_nanos(opener.since_unix_ns))?;
    let since = humantime::format_rfc3339_seconds(since);
    let (process, host) = (opener.process, printable(&opener.host));
    Some(format!(": process {process} on {host}, its rank 0, has had it open since {since}"))
}

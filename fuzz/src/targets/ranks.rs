//! Ranks in slots: the records of a job and of a rank, and messages between hosts.

use crate::{Target, promises::comes_back};
use mainstay_ranks::fuzzing;

pub(super) static TARGETS: [Target; 3] = [
    Target::new("rank-job", job, 20_000),
    Target::new("rank-record", record, 20_000),
    Target::new("host-messages", messages, 20_000),
];

fn job(bytes: &[u8]) {
    comes_back(bytes, |bytes| fuzzing::job(bytes).ok());
}

fn record(bytes: &[u8]) {
    comes_back(bytes, |bytes| fuzzing::rank(bytes).ok());
}

/// Messages, each after its length in two bytes.
fn messages(bytes: &[u8]) {
    let (mut rest, mut messages) = (bytes, Vec::new());
    while let Some((length, after)) = rest.split_first_chunk() {
        let (message, after) = after.split_at(after.len().min(u16::from_le_bytes(*length).into()));
        messages.push(message);
        rest = after;
    }
    drop(fuzzing::messages(&messages));
}

//! Readers that are wrong on purpose, one for each promise.

use crate::{Target, promises::comes_back};

pub(super) static TARGETS: [Target; 5] = [
    Target::new("wrong-bound", bound, 2000),
    Target::new("wrong-sum", sum, 2000),
    Target::new("wrong-memory", memory, 2000),
    Target::new("wrong-time", time, 2000),
    Target::new("wrong-writer", writer, 2000),
];

fn length(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

/// Trusts a length.
fn bound(bytes: &[u8]) {
    let _ = &bytes[..length(bytes) as usize];
}

/// Adds a length to an offset.
fn sum(bytes: &[u8]) {
    let _ = length(bytes) + bytes.len() as u64;
}

/// Sets memory aside for a length.
fn memory(bytes: &[u8]) {
    drop(Vec::<u8>::with_capacity(length(bytes).min(1 << 30) as usize));
}

/// Goes on for as long as a length says.
fn time(bytes: &[u8]) {
    (0..length(bytes)).for_each(|number| {
        std::hint::black_box(number);
    });
}

/// Writes other bytes than it reads.
fn writer(bytes: &[u8]) {
    comes_back(bytes, |bytes| Some(bytes.split_last()?.1.to_vec()));
}

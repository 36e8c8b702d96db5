//! Changes of kept bytes. A seed gives the same input each time.

use fastrand::Rng;

/// No input is longer.
pub const BYTES_MAX: usize = 64 << 10;
/// Changes of one input.
const CHANGES_MAX: usize = 6;
/// Words that texts of Mainstay do not have, and that their readers must survive.
const WORDS: [&[u8]; 12] = [
    b"18446744073709551615",
    b"-1",
    b"9223372036854775808",
    b"1e999",
    b"null",
    b"[[[[[[[[",
    b"{\"a\":",
    b"\"\\ud800\"",
    b"\n",
    b"\0",
    b"= [[",
    b"\xff\xfe",
];

/// The input of a seed: first the kept ones as they are, then changed ones.
pub fn input(kept: &[Vec<u8>], seed: u64) -> Vec<u8> {
    if let Some(same) = kept.get(seed as usize) {
        return same.clone();
    }
    let mut random = Rng::with_seed(seed);
    let mut bytes = random.choice(kept).cloned().unwrap_or_default();
    for _ in 0..random.usize(1..=CHANGES_MAX) {
        change(&mut bytes, kept, &mut random);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, kept: &[Vec<u8>], random: &mut Rng) {
    let at = random.usize(..=bytes.len());
    let rest = bytes.len() - at;
    match random.u32(..12) {
        0 | 1 if rest > 0 => bytes[at] ^= 1 << random.u32(..8),
        2 if rest > 0 => bytes[at] = random.u8(..),
        3..6 => number(bytes, random),
        6 => bytes.truncate(at),
        7 => drop(bytes.drain(at..at + random.usize(..=rest.min(64)))),
        8 => {
            let part = bytes[at..at + random.usize(..=rest.min(256))].to_vec();
            let to = random.usize(..=bytes.len());
            drop(bytes.splice(to..to, part));
        }
        9 => {
            let other = random.choice(kept).map_or(&[][..], |other| other);
            let from = random.usize(..=other.len());
            let to = random.usize(from..=other.len());
            let end = if random.bool() { bytes.len() } else { bytes.len().min(at + to - from) };
            drop(bytes.splice(at..end, other[from..to].iter().copied()));
        }
        10 => drop(bytes.splice(at..at, random.choice(WORDS).unwrap_or_default().iter().copied())),
        _ => bytes.extend((0..random.usize(..64)).map(|_| random.u8(..))),
    }
}

/// Sets a number of 1 to 8 bytes, mostly where a record could have one.
fn number(bytes: &mut [u8], random: &mut Rng) {
    let width = 1 << random.u32(..4);
    if bytes.len() < width {
        return;
    }
    let at = random.usize(..=bytes.len() - width);
    let at = if random.u32(..4) > 0 { at / width * width } else { at };
    let mut old = [0; 8];
    old[..width].copy_from_slice(&bytes[at..at + width]);
    let (old, length) = (u64::from_le_bytes(old), bytes.len() as u64);
    let near = [old.wrapping_add(1), old.wrapping_sub(1), length, length + 1, length / 2];
    let far =
        [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 62, 1 << 32, u64::from(u32::MAX), 1 << 31, 1 << 24];
    let new = match random.u32(..4) {
        0 => random.choice(near).unwrap_or(old),
        1 | 2 => random.choice(far).unwrap_or(old),
        _ => random.u64(..) >> random.u32(..64),
    };
    bytes[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
}

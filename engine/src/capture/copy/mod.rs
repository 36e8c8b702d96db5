//! Copies between the program's memory and the chunks, by the fastest method on this processor.

#[cfg(target_arch = "x86_64")]
mod stream;
mod trial;

use trial::Trial;

/// Below this the caches help more than they cost.
const LARGE_BYTES_MIN: usize = 256 << 10;

type Way = fn(&[u8], &mut [u8]);

/// No method wins everywhere: four pages side by side take three quarters of the time of `memcpy` on one processor, and
/// five times as long on another.
#[cfg(target_arch = "x86_64")]
const WAYS: [Way; 3] = [stream::copy::<1>, stream::copy::<4>, plain];
#[cfg(not(target_arch = "x86_64"))]
const WAYS: [Way; 1] = [plain];

static TRIAL: Trial<{ WAYS.len() }> = Trial::new();

/// Copies all of `from` into `into`, which must have the same length.
pub(crate) fn copy(from: &[u8], into: &mut [u8]) {
    assert_eq!(from.len(), into.len());
    if from.len() < LARGE_BYTES_MIN {
        return plain(from, into);
    }
    TRIAL.run(from.len(), |way| WAYS[way](from, into));
}

fn plain(from: &[u8], into: &mut [u8]) {
    into.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_whatever_the_way_and_the_alignment() {
        let from: Vec<u8> = (0..LARGE_BYTES_MIN + 70_000).map(|i| (i * 31 + i / 251) as u8).collect();
        for way in WAYS.into_iter().chain([copy as Way]) {
            for (skip_from, skip_into) in [(0, 0), (1, 0), (0, 1), (7, 48), (63, 15)] {
                for bytes in [0, 1, LARGE_BYTES_MIN - 1, LARGE_BYTES_MIN, LARGE_BYTES_MIN + 16 * 4096 + 77] {
                    let mut into = vec![0xee; skip_into + bytes + 1];
                    way(&from[skip_from..][..bytes], &mut into[skip_into..][..bytes]);
                    assert_eq!(into[skip_into..][..bytes], from[skip_from..][..bytes]);
                    assert!(into[..skip_into].iter().chain(&into[skip_into + bytes..]).all(|byte| *byte == 0xee));
                }
            }
        }
    }
}

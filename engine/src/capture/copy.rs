//! The copy between the program's memory and the chunks.

/// Below this the caches help more than they cost.
#[cfg(any(target_arch = "x86_64", test))]
const STREAM_BYTES_MIN: usize = 256 << 10;

/// Copies past the caches: nothing reads a chunk again before it has left them anyway, and a store
/// that first fetches the line it overwrites costs half as much again. `memcpy` does the same, but only
/// for single copies far larger than a chunk.
pub(crate) fn copy(from: &[u8], into: &mut [u8]) {
    assert_eq!(from.len(), into.len());
    #[cfg(target_arch = "x86_64")]
    if from.len() >= STREAM_BYTES_MIN {
        return stream::copy(from, into);
    }
    into.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
mod stream {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    type Line = [__m128i; 4];
    const LINE: usize = size_of::<Line>();
    /// Pages copied side by side: the processor prefetches each on its own, and not across their ends.
    const PAGES: usize = 4;
    const PAGE: usize = 4096;

    #[allow(unsafe_code)]
    pub(super) fn copy(from: &[u8], into: &mut [u8]) {
        // SAFETY: any bytes are valid vectors, and vectors are valid bytes.
        let (head, lines, tail) = unsafe { into.align_to_mut::<Line>() };
        let (first, rest) = from.split_at(head.len());
        let (middle, last) = rest.split_at(lines.len() * LINE);
        head.copy_from_slice(first);
        tail.copy_from_slice(last);
        let (from, _) = middle.as_chunks::<LINE>();
        for (from, lines) in from.chunks(PAGES * PAGE / LINE).zip(lines.chunks_mut(PAGES * PAGE / LINE)) {
            if lines.len() == PAGES * PAGE / LINE {
                for at in 0..PAGE / LINE {
                    for page in 0..PAGES {
                        let at = page * PAGE / LINE + at;
                        copy_line(&from[at], &mut lines[at]);
                    }
                }
            } else {
                from.iter().zip(lines).for_each(|(from, line)| copy_line(from, line));
            }
        }
        // SAFETY: no conditions. Streamed stores are ordered before whatever hands the chunk on.
        unsafe { _mm_sfence() };
    }

    #[allow(unsafe_code)]
    #[inline(always)]
    fn copy_line(from: &[u8; LINE], into: &mut Line) {
        // SAFETY: 64 bytes are read from an array of as many, and `into` is aligned to its vectors.
        // Nobody reads `into` before the fence.
        unsafe {
            let from: *const __m128i = from.as_ptr().cast();
            let line = [
                _mm_loadu_si128(from),
                _mm_loadu_si128(from.add(1)),
                _mm_loadu_si128(from.add(2)),
                _mm_loadu_si128(from.add(3)),
            ];
            for (vector, slot) in line.into_iter().zip(into) {
                _mm_stream_si128(slot, vector);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_whatever_the_alignment() {
        let from: Vec<u8> = (0..STREAM_BYTES_MIN + 70_000).map(|i| (i * 31 + i / 251) as u8).collect();
        for (skip_from, skip_into) in [(0, 0), (1, 0), (0, 1), (7, 48), (63, 15)] {
            for bytes in [0, 1, STREAM_BYTES_MIN - 1, STREAM_BYTES_MIN, STREAM_BYTES_MIN + 16 * 4096 + 77] {
                let mut into = vec![0xee; skip_into + bytes + 1];
                copy(&from[skip_from..][..bytes], &mut into[skip_into..][..bytes]);
                assert_eq!(into[skip_into..][..bytes], from[skip_from..][..bytes]);
                assert!(into[..skip_into].iter().chain(&into[skip_into + bytes..]).all(|byte| *byte == 0xee));
            }
        }
    }
}

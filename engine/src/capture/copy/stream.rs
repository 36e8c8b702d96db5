//! Copies past the caches. A chunk leaves the caches before it is read again, and a store that first fetches its line
//! costs half as much again. `memcpy` also bypasses them, but only for single copies far larger than a chunk.

use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

type Line = [__m128i; 4];
const LINE: usize = size_of::<Line>();
const LINES_OF_PAGE: usize = 4096 / LINE;

/// `PAGES`: the number of pages copied side by side. Some processors prefetch each page separately, and not across its
/// end.
#[allow(unsafe_code)]
pub(super) fn copy<const PAGES: usize>(from: &[u8], into: &mut [u8]) {
    // SAFETY: any bytes are valid vectors, and vectors are valid bytes.
    let (head, lines, tail) = unsafe { into.align_to_mut::<Line>() };
    let (first, rest) = from.split_at(head.len());
    let (middle, last) = rest.split_at(lines.len() * LINE);
    head.copy_from_slice(first);
    tail.copy_from_slice(last);
    let (from, _) = middle.as_chunks::<LINE>();
    for (from, lines) in from.chunks(PAGES * LINES_OF_PAGE).zip(lines.chunks_mut(PAGES * LINES_OF_PAGE)) {
        if lines.len() == PAGES * LINES_OF_PAGE {
            for at in 0..LINES_OF_PAGE {
                for page in 0..PAGES {
                    let at = page * LINES_OF_PAGE + at;
                    copy_line(&from[at], &mut lines[at]);
                }
            }
        } else {
            from.iter().zip(lines).for_each(|(from, line)| copy_line(from, line));
        }
    }
    // SAFETY: no conditions. The fence orders streamed stores before the store that hands the chunk on.
    unsafe { _mm_sfence() };
}

#[allow(unsafe_code)]
#[inline(always)]
fn copy_line(from: &[u8; LINE], into: &mut Line) {
    // SAFETY: 64 bytes are read from an array of 64, and `into` is aligned to its vectors. Nothing reads `into` before
    // the fence.
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

//! Sizes of slots: small allocations share a slab with others of about their size.

pub(super) const ALIGNMENT: usize = 16;
/// Larger allocations have a segment of their own.
const SMALL_BYTES_MAX: usize = 128 << 10;
/// Sizes are this far apart up to eight times as much; beyond, they are at most a fifth apart.
const STEP: usize = 16;
/// Slots of a slab begin on a multiple of this.
const ALIGNMENT_MAX: usize = 4096;

/// The size of the slot for this many bytes; `None` if the allocation does not use slots.
pub(super) fn of(bytes: usize, alignment: usize) -> Option<usize> {
    if bytes > SMALL_BYTES_MAX || alignment > ALIGNMENT_MAX {
        return None;
    }
    // All sizes above a multiple of a power of two are multiples of it too.
    let bytes = bytes.max(1).next_multiple_of(alignment.max(STEP));
    let step = if bytes <= 8 * STEP { STEP } else { (1 << (bytes - 1).ilog2()) / 4 };
    Some(bytes.next_multiple_of(step)).filter(|slot| *slot <= SMALL_BYTES_MAX)
}

/// Whether slots have this size.
pub(super) fn is_one(slot: usize) -> bool {
    slot > 0 && of(slot, 1) == Some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_room_and_wastes_a_fifth_at_most_and_is_aligned() {
        for bytes in (0..5000).chain((5000..SMALL_BYTES_MAX).step_by(97)) {
            let slot = of(bytes, 1).unwrap();
            assert!(slot >= bytes && is_one(slot) && slot.is_multiple_of(16));
            assert!(bytes < 128 || slot * 4 <= bytes * 5 + 4 * 16, "{slot} for {bytes}");
            for alignment in [16, 64, 256, 4096] {
                if let Some(slot) = of(bytes, alignment) {
                    assert!(slot.is_multiple_of(alignment) && slot >= bytes && is_one(slot), "{bytes} at {alignment}");
                }
            }
        }
        assert_eq!([of(SMALL_BYTES_MAX + 1, 1), of(1, 8192), of(usize::MAX, 1)], [None; 3]);
    }
}

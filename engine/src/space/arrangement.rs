//! The arrangement of a new layout: the files that its portions go to, the distances between portions, and the parts of
//! a file that are ever written.
//!
//! Invariant: portions and slots begin on stripes of their own, so that two ranks never write to the same one.
//! Gaps that exist only for that take no blocks.

use super::{
    HOLDS_BYTES, SLOT_STRIDE, data_from,
    format::{BLOCK_BYTES, Header, PortionPlace},
};
use crate::ground::unix_ns;
use std::ops::Range;

/// Offsets of portions and their ends are multiples of at least this.
const PORTION_ALIGNMENT: u64 = 64 << 10;
/// A shorter gap is allocated with its neighbours. The gap behind a slot is longer: for shards of 20 MB it would be a
/// fifth of the blocks beside the data.
const GAP_MIN: u64 = 32 << 10;
const _: () = assert!(PORTION_ALIGNMENT.is_multiple_of(SLOT_STRIDE) && SLOT_STRIDE.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(SLOT_STRIDE - BLOCK_BYTES >= GAP_MIN, "the gap behind a slot takes blocks");

/// The ranks that share a file of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Per {
    /// Depends on the file system: one file for each node if writers of one file wait for each other, otherwise one
    /// file for all.
    #[default]
    Auto,
    /// One file for the job.
    App,
    /// One file for the ranks of each node.
    Node,
    /// One file for each rank.
    Rank,
}

/// A layout that is about to be made.
#[derive(Debug, Clone)]
pub(crate) struct Arrangement {
    pub(crate) layout_id: [u8; 16],
    pub(crate) layout_number: u64,
    /// Bytes of a stripe; 0 if the files have none.
    pub(crate) stripe_bytes: u64,
    /// Whether a user has set the size of the portions.
    pub(crate) is_sized: bool,
    /// The number of blocks of each rank's portion, by rank.
    pub(crate) blocks: Vec<u64>,
}

impl Arrangement {
    /// The header of the file with the portions of `ranks`, ascending; `takes_holds`: whether this file has the holds.
    pub(crate) fn header(&self, ranks: &[usize], takes_holds: bool) -> Header {
        let holds_at = Header::bytes_for(ranks.len());
        let holds_bytes = if takes_holds { HOLDS_BYTES } else { 0 };
        let slot_stride = self.slot_stride();
        let mut end = holds_at + holds_bytes;
        let portions = ranks.iter().map(|rank| {
            let at = round_up(end, PORTION_ALIGNMENT.max(slot_stride));
            let bytes = round_up(
                data_from(slot_stride).saturating_add(self.blocks[*rank].saturating_mul(BLOCK_BYTES)),
                PORTION_ALIGNMENT,
            );
            // A portion larger than any file is refused when the file is made.
            end = at.saturating_add(bytes);
            PortionPlace { rank: *rank as u32, at, bytes }
        });
        let portions: Vec<PortionPlace> = portions.collect();
        debug_assert!(slot_stride >= self.stripe_bytes, "two slots are on one stripe");
        let follows = |one: &PortionPlace, next: &PortionPlace| one.at.saturating_add(one.bytes) <= next.at;
        debug_assert!(portions.windows(2).all(|pair| follows(&pair[0], &pair[1])), "two portions overlap");
        Header {
            layout_id: self.layout_id,
            layout_number: self.layout_number,
            ranks: self.blocks.len() as u32,
            slot_stride,
            holds_at,
            holds_bytes,
            file_bytes: end,
            created_unix_ns: unix_ns(),
            space_id: [0; 16],
            is_sized: self.is_sized,
            portions,
        }
    }

    fn slot_stride(&self) -> u64 {
        SLOT_STRIDE.max(round_up(self.stripe_bytes, BLOCK_BYTES))
    }
}

/// Blocks for data, metadata and catalogues in a portion of `bytes` bytes, as a user counts them: with the smallest
/// distance between slots.
pub(crate) fn blocks_in(bytes: u64) -> u64 {
    round_up(bytes, PORTION_ALIGNMENT).saturating_sub(data_from(SLOT_STRIDE)) / BLOCK_BYTES
}

/// Bytes of the smallest portion for which `blocks_in` returns so many.
pub(crate) fn bytes_with(blocks: u64) -> u64 {
    round_up(data_from(SLOT_STRIDE).saturating_add(blocks.saturating_mul(BLOCK_BYTES)), PORTION_ALIGNMENT)
}

/// The parts of a file that are ever written, ascending. A slot on a stripe of its own has empty room behind it.
pub(crate) fn stretches(header: &Header) -> Vec<Range<u64>> {
    let slot_end = |at: u64| at.saturating_add(BLOCK_BYTES);
    let head = 0..header.holds_at.saturating_add(header.holds_bytes);
    let mut all = Vec::from([head]);
    for place in &header.portions {
        let second = place.at.saturating_add(header.slot_stride);
        let data = place.at.saturating_add(data_from(header.slot_stride));
        all.extend([
            place.at..slot_end(place.at),
            second..slot_end(second),
            data..place.at.saturating_add(place.bytes),
        ]);
    }
    let mut joined: Vec<Range<u64>> = Vec::new();
    for stretch in all {
        match joined.last_mut() {
            Some(last) if stretch.start.saturating_sub(last.end) < GAP_MIN => last.end = stretch.end,
            _ => joined.push(stretch),
        }
    }
    joined
}

fn round_up(bytes: u64, unit: u64) -> u64 {
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrangement(stripe_bytes: u64) -> Arrangement {
        Arrangement { layout_id: [7; 16], layout_number: 1, stripe_bytes, is_sized: false, blocks: vec![1000, 3, 2000] }
    }

    #[test]
    fn portions_and_slots_lie_on_stripes_of_their_own() {
        for stripe in [64 << 10, 1 << 20, 4 << 20, 6 << 20] {
            let header = arrangement(stripe).header(&[0, 1, 2], true);
            assert_eq!(header.slot_stride, stripe);
            let mut begins: Vec<u64> = Vec::new();
            for place in &header.portions {
                begins.extend([0, 1, 2].map(|n| place.at + n * stripe));
                assert!(place.bytes - data_from(stripe) >= [1000, 3, 2000][place.rank as usize] * BLOCK_BYTES);
            }
            assert!(begins.iter().all(|at| at.is_multiple_of(stripe)) && begins.is_sorted_by(|a, b| a < b));
            let table = header.build();
            let (block, table) = table.split_first_chunk().unwrap();
            assert_eq!(Header::parse(block, table).unwrap(), header);
        }
    }

    #[test]
    fn bytes_that_are_asked_for_so_many_blocks_give_them_and_64_kib_less_do_not() {
        for blocks in [1, 15, 16, 17, 989, 1 << 40] {
            let bytes = bytes_with(blocks);
            assert!(blocks_in(bytes) >= blocks && blocks_in(bytes - PORTION_ALIGNMENT) < blocks, "{blocks}");
        }
    }

    #[test]
    fn what_is_never_written_is_not_set_aside() {
        for (stripe, gaps) in [(0, 7), (64 << 10, 7), (4 << 20, 9)] {
            let header = arrangement(stripe).header(&[0, 1, 2], true);
            let stretches = stretches(&header);
            assert_eq!(stretches.len(), gaps + 1, "{stretches:?}");
            assert!(stretches.is_sorted_by(|a, b| a.end < b.start));
            assert_eq!(stretches.last().unwrap().end, header.file_bytes);
            let set_aside: u64 = stretches.iter().map(|stretch| stretch.end - stretch.start).sum();
            assert!(set_aside < 3003 * BLOCK_BYTES + (1 << 20), "{set_aside}");
        }
    }

    #[test]
    fn what_no_file_can_hold_is_no_overflow() {
        let huge = Arrangement { blocks: vec![u64::MAX, u64::MAX / 2, 1], ..arrangement(1 << 30) };
        let header = huge.header(&[0, 1, 2], false);
        assert_eq!((header.file_bytes, header.holds_bytes), (u64::MAX, 0));
        stretches(&header);
    }
}

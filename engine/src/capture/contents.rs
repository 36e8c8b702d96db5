//! The staged contents of a shard, known at t2. The extents of its items are offsets in the log. Each target places the
//! log in its own portion.

use crate::space::{
    format::{Annex, BLOCK_BYTES, Extent, HASH_BYTES, Item, Manifest, Run},
    free::Blocks,
};
use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The items of the shard, with extents in the log.
    pub(crate) items: Vec<Item>,
    /// The number of blocks of the log.
    pub(crate) blocks: u64,
    /// Blocks that older revisions of the same portion hold. They are numbered behind the log, beyond all blocks that
    /// could be staged. Empty unless only changes were staged.
    pub(crate) shared: Range<u64>,
    /// `shared` then numbers all whole blocks of the regions, region by region. The places in the base of blocks that
    /// were not staged are still to be filled in.
    pub(crate) is_outline: bool,
    pub(crate) annex: Annex,
}

/// Marks of runs in the encoded form: blocks of older revisions, and blocks of the regions.
const SHARED: u64 = 1;
const OUTLINED: u64 = 2;

impl Contents {
    /// The bytes of all items together.
    pub(crate) fn item_bytes(&self) -> u64 {
        self.items.iter().map(|item| item.bytes).sum()
    }

    /// Whether the extents of each item have as many bytes as the item.
    pub(crate) fn are_whole(&self) -> bool {
        self.items.iter().all(|item| bytes_of(&item.extents) == item.bytes)
    }

    /// The items as the manifest lists them if the log is stored in `runs` of a portion.
    pub(crate) fn laid(&self, runs: &[Blocks]) -> Vec<Item> {
        let mut end = 0;
        let begins: Vec<u64> = runs
            .iter()
            .map(|run| {
                let begins = end;
                end += run.count * BLOCK_BYTES;
                begins
            })
            .collect();
        let laid = |item: &Item| {
            let (mut extents, mut last) = (Vec::with_capacity(item.extents.len()), usize::MAX);
            for extent @ Extent { at, bytes } in &item.extents {
                if extent.is_zeros() {
                    extents.push(*extent);
                    last = usize::MAX;
                    continue;
                }
                let (mut at, mut rest) = (*at, *bytes);
                let mut index = begins.partition_point(|begins| *begins <= at).saturating_sub(1);
                while rest > 0 && index < runs.len() {
                    let (begins, run) = (begins[index], runs[index]);
                    let here = rest.min(begins + run.count * BLOCK_BYTES - at);
                    let lies = run.first * BLOCK_BYTES + (at - begins);
                    // An extent stays inside one run, even if two runs are adjacent.
                    if last == index {
                        extend(&mut extents, lies, here);
                    } else {
                        extents.push(Extent { at: lies, bytes: here });
                    }
                    (at, rest, last, index) = (at + here, rest - here, index, index + 1);
                }
            }
            Item { extents, ..item.clone() }
        };
        self.items.iter().map(laid).collect()
    }

    /// The same, if the blocks of older revisions were staged as well, in `blocks` blocks of the log. `places` gives
    /// their places, by offset behind the bytes staged before. `None` if some are missing.
    pub(crate) fn unled(self, blocks: u64, places: &[(u64, Extent)]) -> Option<Contents> {
        let own = self.blocks * BLOCK_BYTES;
        let unled = |item: Item| {
            let mut extents = Vec::with_capacity(item.extents.len());
            for extent @ Extent { mut at, mut bytes } in cut_at(&item.extents, own) {
                while bytes > 0 && at >= own && !extent.is_zeros() {
                    let offset = at - own;
                    let index = places.partition_point(|(begins, _)| *begins <= offset).checked_sub(1)?;
                    let (begins, place) = places[index];
                    let here = bytes.min((begins + place.bytes).checked_sub(offset).filter(|left| *left > 0)?);
                    extend(&mut extents, place.at + (offset - begins), here);
                    (at, bytes) = (at + here, bytes - here);
                }
                if bytes > 0 {
                    extend(&mut extents, at, bytes);
                }
            }
            debug_assert_eq!(bytes_of(&extents), bytes_of(&item.extents), "staging blocks again changes an item");
            Some(Item { extents, ..item })
        };
        let items = self.items.into_iter().map(unled).collect::<Option<_>>()?;
        Some(Contents { items, blocks, shared: 0..0, is_outline: false, annex: self.annex })
    }

    /// The contents of the shard of a `manifest`; its log is stored in the manifest's runs.
    pub(crate) fn of(manifest: Manifest) -> Contents {
        let Manifest { runs, items, annex, .. } = manifest;
        let log = LogPlaces::of(&runs);
        let in_log = |item: Item| {
            let mut extents = Vec::with_capacity(item.extents.len());
            for extent @ Extent { at, bytes } in &item.extents {
                match extent.is_zeros() {
                    true => extend(&mut extents, *at, *bytes),
                    false => log.pieces(*at, *bytes, |at, bytes| extend(&mut extents, at, bytes)),
                }
            }
            Item { extents, ..item }
        };
        let items = items.into_iter().map(in_log).collect();
        Contents { items, blocks: runs.iter().map(|run| run.blocks).sum(), shared: 0..0, is_outline: false, annex }
    }

    /// The form for other processes: a manifest. Its runs are the log and the runs of older revisions.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let run = |blocks: Range<u64>, hashes_at| Run {
            first_block: blocks.start,
            blocks: blocks.end - blocks.start,
            hashes_at,
            hashes_hash: [0; HASH_BYTES],
        };
        let runs = [run(0..self.blocks, 0), run(self.shared.clone(), if self.is_outline { OUTLINED } else { SHARED })];
        let runs = runs.into_iter().filter(|run| run.blocks > 0).collect();
        // In a manifest, an extent is inside one run.
        let cut = |item: &Item| Item { extents: cut_at(&item.extents, self.blocks * BLOCK_BYTES), ..item.clone() };
        let items = self.items.iter().map(cut).collect();
        Manifest { runs, items, annex: self.annex.clone(), frames: Vec::new() }.build()
    }

    /// `None` if the bytes contradict themselves, are an outline, or describe a log of more than `blocks_max` blocks.
    pub(crate) fn decode(encoded: &[u8], blocks_max: u64) -> Option<Contents> {
        let contents = Contents::decode_outline(encoded)?;
        let is_within = contents.blocks.max(contents.shared.end) <= blocks_max;
        (is_within && !contents.is_outline).then_some(contents)
    }

    /// The same, for a log of any size, and for an outline too.
    pub(crate) fn decode_outline(encoded: &[u8]) -> Option<Contents> {
        let bytes_max = i64::MAX as u64;
        let Manifest { runs, items, annex, .. } = Manifest::parse_with_zeros(encoded, bytes_max, bytes_max).ok()?;
        let is_shared = |run: &Run| [SHARED, OUTLINED].contains(&run.hashes_at);
        let (own, shared) = match runs[..] {
            [shared] if is_shared(&shared) => (None, Some(shared)),
            [own] => (Some(own), None),
            [own, shared] if is_shared(&shared) => (Some(own), Some(shared)),
            [] => (None, None),
            _ => return None,
        };
        let blocks = match own {
            None => 0,
            Some(Run { first_block: 0, blocks, hashes_at: 0, .. }) => blocks,
            Some(_) => return None,
        };
        let is_outline = shared.is_some_and(|run| run.hashes_at == OUTLINED);
        let shared = shared.map_or(0..0, |run| run.first_block..run.first_block + run.blocks);
        Some(Contents { items, blocks, shared, is_outline, annex })
    }
}

/// The places of a manifest's runs in the log: one behind the other.
pub(crate) struct LogPlaces {
    /// For each run: its first byte in the portion, its first byte in the log, and its bytes; in the order of the
    /// portion.
    runs: Vec<(u64, u64, u64)>,
}

impl LogPlaces {
    pub(crate) fn of(runs: &[Run]) -> LogPlaces {
        let mut end = 0;
        let place = |run: &Run| {
            let (begin, bytes) = (end, run.blocks * BLOCK_BYTES);
            end += bytes;
            (run.first_block * BLOCK_BYTES, begin, bytes)
        };
        let mut runs: Vec<_> = runs.iter().map(place).collect();
        runs.sort_unstable();
        LogPlaces { runs }
    }

    /// The offset in the log of the byte at `at` in the portion, which must be inside a run.
    pub(crate) fn of_byte(&self, at: u64) -> u64 {
        let (first, begin, _) = self.run_of(at);
        begin + (at - first)
    }

    /// The places of these blocks of the log in the portion, as ascending stretches.
    pub(crate) fn in_portion(&self, blocks: &[Range<u64>]) -> Vec<Range<u64>> {
        let of_run = |&(first, begin, bytes): &(u64, u64, u64)| {
            let (begin, end, first) = (begin / BLOCK_BYTES, (begin + bytes) / BLOCK_BYTES, first / BLOCK_BYTES);
            let from = blocks.partition_point(|range| range.end <= begin);
            let inside = blocks[from..].iter().take_while(move |range| range.start < end);
            inside.map(move |range| first + (range.start.max(begin) - begin)..first + (range.end.min(end) - begin))
        };
        self.runs.iter().flat_map(of_run).collect()
    }

    fn run_of(&self, at: u64) -> (u64, u64, u64) {
        self.runs[self.runs.partition_point(|(first, ..)| *first <= at) - 1]
    }

    /// Calls `each` with the offset in the log and the bytes of each part, run by run. The stretch must be inside runs.
    fn pieces(&self, mut at: u64, mut bytes: u64, mut each: impl FnMut(u64, u64)) {
        while bytes > 0 {
            let (first, begin, run_bytes) = self.run_of(at);
            let here = bytes.min(first + run_bytes - at);
            each(begin + (at - first), here);
            (at, bytes) = (at + here, bytes - here);
        }
    }
}

/// The bytes of all extents together.
pub(super) fn bytes_of(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.bytes).sum()
}

/// The same extents, but an extent that spans `place` in the log is split in two.
fn cut_at(extents: &[Extent], place: u64) -> Vec<Extent> {
    let parts = |extent: &Extent| {
        let Extent { at, bytes } = *extent;
        let before = if extent.is_zeros() { bytes } else { place.saturating_sub(at).min(bytes) };
        let behind = Extent { at: if before > 0 && before < bytes { place } else { at }, bytes: bytes - before };
        [Extent { at, bytes: before }, behind].into_iter().filter(|part| part.bytes > 0)
    };
    // Reserved at once: the program may wait for a list of very many extents.
    let mut cut = Vec::with_capacity(extents.len() + 1);
    cut.extend(extents.iter().flat_map(parts));
    cut
}

/// Adds an extent of `bytes` bytes at `at`, or makes the last one longer if it ends there.
pub(super) fn extend(extents: &mut Vec<Extent>, at: u64, bytes: u64) {
    match extents.last_mut() {
        Some(last) if last.is_zeros() && at == Extent::ZEROS => last.bytes += bytes,
        Some(last) if last.at + last.bytes == at && !last.is_zeros() => last.bytes += bytes,
        _ => extents.push(Extent { at, bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::format::{ElementType, ItemKind};

    #[test]
    fn what_was_laid_into_runs_is_in_the_log_again() {
        let block = |at: u64, bytes| Extent { at: at * BLOCK_BYTES, bytes: bytes * BLOCK_BYTES };
        let item = |name: &str, extents| Item {
            name: name.to_owned(),
            kind: ItemKind::Stream,
            bytes: 1,
            element: ElementType::Bytes,
            shape: Vec::new(),
            place: None,
            same_on_all_ranks: false,
            extents,
        };
        let zeros = |bytes| Extent { at: Extent::ZEROS, bytes };
        let behind_zeros = vec![zeros(5), block(5, 1), block(2, 2), zeros(7), block(4, 1), zeros(9)];
        let items = vec![item("a", vec![block(0, 2)]), item("b", behind_zeros)];
        let contents = Contents { items, blocks: 6, shared: 0..0, is_outline: false, annex: Annex::default() };
        // In the portion, the second run directly follows the first; the third is before both.
        let lies = [Blocks { first: 40, count: 3 }, Blocks { first: 43, count: 1 }, Blocks { first: 10, count: 2 }];
        let run = |blocks: &Blocks| Run {
            first_block: blocks.first,
            blocks: blocks.count,
            hashes_at: 0,
            hashes_hash: [0; 16],
        };
        let manifest =
            Manifest { runs: lies.iter().map(run).collect(), items: contents.laid(&lies), ..Manifest::default() };
        assert_eq!(Contents::of(manifest), contents);
    }
}

//! The log of a shard: the blocks of one rank's regions and streams, in the order of staging. A part is found by its
//! item, its offset in the item, and its size (paper 000, Figure 3b).
//!
//! The log holds no address of the program's memory: I/O threads use it after t2.

use super::{Contents, Description, Region, check_name, contents::extend};
use crate::{
    error::{Error, Result},
    space::format::{Annex, BLOCK_BYTES, ElementType, Extent, Item, ItemKind, Manifest},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Blocks of a stream with more parts than this are staged, not shared with older revisions. HDF5 makes about 2,700
/// parts.
const LED_PARTS_MAX: usize = 2500;

/// The items of a shard, and the places of their parts in the log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    items: Vec<Placed>,
    streams: HashMap<String, usize>,
    /// The number of parts of all streams together.
    parts: u64,
    parts_max: u64,
    /// Number of pieces so far. If parts overlap, the later one counts.
    handed: u64,
}

#[derive(Debug)]
struct Placed {
    kind: ItemKind,
    description: Arc<Description>,
    /// The length of the item; for a stream, the end of its furthest piece.
    bytes: u64,
    /// Ascending, without overlaps.
    parts: Vec<Part>,
    /// Parts that were laid out of order: they were gathered in a buffer, or overwrite others.
    late: Vec<Part>,
}

/// Consecutive bytes of an item that are consecutive in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    offset: u64,
    bytes: u64,
    at: u64,
    order: u64,
}

/// One piece or region from the program: bytes of one item, from `offset` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputPiece {
    item: usize,
    offset: u64,
    order: u64,
    /// The offset in the item of the first byte handed over in the same call.
    begins: u64,
    /// The alignment of the piece in the log.
    pub(crate) alignment: u64,
    /// Whether the piece is part of a larger one. It is then staged like the larger one, however short it is.
    pub(crate) is_part: bool,
}

impl InputPiece {
    /// The piece without its first `bytes` bytes.
    pub(crate) fn behind(self, bytes: u64) -> InputPiece {
        InputPiece { offset: self.offset + bytes, ..self }
    }

    /// The bytes of the same item from `offset` on, as part of the same call.
    pub(crate) fn at(self, offset: u64) -> InputPiece {
        InputPiece { offset, begins: self.begins.min(offset), ..self }
    }

    /// The number of the item, and the offset of the piece in it.
    pub(crate) fn place(&self) -> (usize, u64) {
        (self.item, self.offset)
    }

    /// The piece as part of a larger one. It begins in the log at this alignment, and is staged like the larger one.
    pub(crate) fn part(self, from: u64, alignment: u64) -> InputPiece {
        InputPiece { alignment, is_part: true, ..self.behind(from) }
    }
}

impl Log {
    /// An empty log. Its streams may have at most `parts_max` parts that do not follow one another.
    pub(crate) fn new(parts_max: u64) -> Log {
        Log { parts_max, ..Log::default() }
    }

    /// Adds a region; its bytes are handed over as one.
    pub(crate) fn region(&mut self, region: &Region) -> InputPiece {
        let description = region.description.clone();
        let (bytes, alignment) = (description.bytes, description.alignment());
        let kind = if region.is_put() { ItemKind::Object } else { ItemKind::Region };
        self.items.push(Placed { kind, description, bytes, parts: Vec::new(), late: Vec::new() });
        self.handed += 1;
        InputPiece { item: self.items.len() - 1, offset: 0, order: self.handed, begins: 0, alignment, is_part: false }
    }

    /// A piece of the stream `name`. The first piece creates the stream. A stream may not have the name of one of
    /// `regions`.
    pub(crate) fn piece(&mut self, name: &str, offset: u64, bytes: u64, regions: &[Region]) -> Result<InputPiece> {
        let item = match self.streams.get(name) {
            Some(item) => *item,
            None => {
                check_name(name)?;
                if regions.iter().any(|region| region.description.name == name) {
                    return Err(Error::DuplicateName { name: name.to_owned() });
                }
                self.items.push(Placed::stream(name));
                self.streams.insert(name.to_owned(), self.items.len() - 1);
                // The record and the name of a stream also take room in the list.
                self.parts += (Manifest::ITEM_BYTES + name.len() as u64).div_ceil(Manifest::EXTENT_BYTES);
                self.items.len() - 1
            }
        };
        let refused = |why: String| Error::argument(format!("piece of {name:?} at offset {offset}"), why);
        let end = offset.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| refused(format!("{bytes} bytes end beyond the largest possible file")))?;
        if self.parts >= self.parts_max {
            return Err(refused(self.list_full()));
        }
        self.handed += 1;
        self.items[item].bytes = self.items[item].bytes.max(end);
        Ok(InputPiece { item, offset, order: self.handed, begins: offset, alignment: 1, is_part: false })
    }

    /// The name of the piece's item.
    pub(crate) fn name(&self, handed: &InputPiece) -> &str {
        &self.items[handed.item].description.name
    }

    /// Whether a further stretch of this stream may be shared with an older revision: the list has room and stays
    /// short.
    pub(crate) fn can_lead(&self, handed: &InputPiece) -> bool {
        let item = &self.items[handed.item];
        item.kind != ItemKind::Stream
            || item.parts.len() + item.late.len() < LED_PARTS_MAX
                && self.parts + Manifest::RUN_EXTENTS < self.parts_max / 2
    }

    /// Like `lay`, for bytes that are not staged: they are at `at` in an older revision, or are zeros.
    pub(crate) fn lay_elsewhere(&mut self, handed: &InputPiece, from: u64, bytes: u64, at: u64) {
        let parts = self.parts;
        self.lay(handed, from, bytes, at);
        // A run of an older revision also takes room in the list.
        self.parts += (self.parts - parts) * Manifest::RUN_EXTENTS;
    }

    /// An item for shared bytes that are staged after all. It is removed before the contents are built.
    pub(crate) fn begin_unled(&mut self) -> InputPiece {
        self.items.push(Placed { kind: ItemKind::Region, ..Placed::stream("") });
        self.handed += 1;
        let alignment = BLOCK_BYTES;
        InputPiece { item: self.items.len() - 1, offset: 0, order: self.handed, begins: 0, alignment, is_part: true }
    }

    /// The places of these bytes: offset among them, place in the log, and size.
    pub(crate) fn end_unled(&mut self) -> Vec<(u64, Extent)> {
        let parts = self.items.pop().map_or_else(Vec::new, |item| item.resolved());
        parts.into_iter().map(|part| (part.offset, Extent { at: part.at, bytes: part.bytes })).collect()
    }

    /// The length of the stream `name`; 0 if it does not exist.
    pub(crate) fn stream_bytes(&self, name: &str) -> u64 {
        self.streams.get(name).map_or(0, |item| self.items[*item].bytes)
    }

    /// An error if the list cannot hold all pieces. Buffered bytes are counted only when they leave the buffer.
    pub(crate) fn check_parts(&self) -> Result<()> {
        let fits = self.streams.is_empty() || self.parts <= self.parts_max;
        if fits { Ok(()) } else { Err(Error::argument("pieces", self.list_full())) }
    }

    fn list_full(&self) -> String {
        format!(
            "the list of pieces is full ({} that do not follow one another); write larger pieces, or in order, or \
             announce more bytes to begin",
            self.parts_max
        )
    }

    /// Records the place `at` in the log of `bytes` bytes of the piece, `from` bytes behind its beginning.
    pub(crate) fn lay(&mut self, handed: &InputPiece, from: u64, bytes: u64, at: u64) {
        let item = &mut self.items[handed.item];
        let offset = handed.offset + from;
        item.bytes = item.bytes.max(offset + bytes);
        let part = Part { offset, bytes, at, order: handed.order };
        let is_late = item.parts.last().is_some_and(|last| offset < last.end());
        let parts = if is_late { &mut item.late } else { &mut item.parts };
        let is_first = offset == handed.begins;
        if !parts.last_mut().is_some_and(|last| last.goes_on_in(&part, is_first)) && bytes > 0 {
            parts.push(part);
            self.parts += u64::from(item.kind == ItemKind::Stream);
        }
    }

    /// The skipped stretches of all streams; they are written as zeros.
    pub(crate) fn gaps(&mut self) -> Vec<(InputPiece, u64)> {
        let mut gaps = Vec::new();
        for (index, item) in self.items.iter().enumerate().filter(|(_, item)| item.kind == ItemKind::Stream) {
            let (mut end, mut parts) = (0, item.all());
            parts.sort_unstable_by_key(|part| part.offset);
            for part in
                parts.iter().map(|part| (part.offset, part.offset + part.bytes)).chain([(item.bytes, item.bytes)])
            {
                if part.0 > end {
                    self.handed += 1;
                    let (item, offset, order) = (index, end, self.handed);
                    let handed = InputPiece { item, offset, order, begins: offset, alignment: 1, is_part: false };
                    gaps.push((handed, part.0 - end));
                }
                end = end.max(part.1);
            }
        }
        gaps
    }

    /// The contents of the log, which has this many `blocks`.
    pub(crate) fn contents(&self, blocks: u64, annex: Annex) -> Contents {
        let item = |item: &Placed| {
            let extents = item.in_order().unwrap_or_else(|| extents_of(item.resolved()));
            let description = &item.description;
            Item {
                name: description.name.clone(),
                kind: item.kind,
                element: description.element,
                bytes: item.bytes,
                shape: if item.kind == ItemKind::Stream { vec![item.bytes] } else { description.shape.clone() },
                place: description.place.clone(),
                same_on_all_ranks: description.same_on_all_ranks,
                extents,
            }
        };
        Contents { items: self.items.iter().map(item).collect(), blocks, shared: 0..0, is_outline: false, annex }
    }
}

impl Placed {
    fn stream(name: &str) -> Placed {
        let description = Description {
            name: name.to_owned(),
            element: ElementType::Bytes,
            shape: Vec::new(),
            place: None,
            same_on_all_ranks: false,
            bytes: 0,
        };
        Placed {
            kind: ItemKind::Stream,
            description: Arc::new(description),
            bytes: 0,
            parts: Vec::new(),
            late: Vec::new(),
        }
    }

    fn all(&self) -> Vec<Part> {
        [&self.parts[..], &self.late].concat()
    }

    /// The places of the item's bytes, in order; `None` if the late parts do not ascend, or overlap others.
    fn in_order(&self) -> Option<Vec<Extent>> {
        let (mut parts, mut late) = (self.parts.iter().peekable(), self.late.iter().peekable());
        let (mut extents, mut end) = (Vec::with_capacity(self.parts.len() + self.late.len()), 0);
        loop {
            let is_late = late.peek().is_some_and(|late| parts.peek().is_none_or(|part| late.offset < part.offset));
            let Some(part) = (if is_late { late.next() } else { parts.next() }) else { return Some(extents) };
            if part.offset < end {
                return None;
            }
            end = part.end();
            extend(&mut extents, part.at, part.bytes);
        }
    }

    /// The parts in the order of the item's bytes. Each byte is in the part that was handed over last.
    fn resolved(&self) -> Vec<Part> {
        let mut parts = self.all();
        parts.sort_by_key(|part| part.offset);
        if parts.windows(2).all(|pair| pair[0].end() <= pair[1].offset) {
            return parts;
        }
        parts.sort_by_key(|part| part.order);
        let mut laid: BTreeMap<u64, Part> = BTreeMap::new();
        for part in parts {
            cut(&mut laid, part.offset, part.offset + part.bytes);
            laid.insert(part.offset, part);
        }
        let laid: Vec<Part> = laid.into_values().collect();
        debug_assert!(laid.windows(2).all(|pair| pair[0].end() <= pair[1].offset), "a byte is in two parts");
        laid
    }
}

impl Part {
    fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Whether `next` continues this part; if so, extends it. No piece may have come in between that could overlap.
    /// `is_first`: no part of the same call is before `next` in the item, so none overlaps this part.
    fn goes_on_in(&mut self, next: &Part, is_first: bool) -> bool {
        let are_zeros = self.at == Extent::ZEROS && next.at == Extent::ZEROS;
        let follows = self.end() == next.offset
            && (are_zeros || self.at + self.bytes == next.at)
            && (next.order == self.order || is_first && next.order == self.order + 1);
        if follows {
            (self.bytes, self.order) = (self.bytes + next.bytes, next.order);
        }
        follows
    }
}

fn extents_of(parts: Vec<Part>) -> Vec<Extent> {
    let mut extents = Vec::new();
    parts.iter().for_each(|part| extend(&mut extents, part.at, part.bytes));
    extents
}

/// Removes the bytes between `from` and `to` from the parts in `laid`.
fn cut(laid: &mut BTreeMap<u64, Part>, from: u64, to: u64) {
    let before = laid.range(..from).next_back().map(|(_, part)| *part);
    let inside: Vec<Part> = laid.range(from..to).map(|(_, part)| *part).collect();
    for part in before.into_iter().chain(inside) {
        let end = part.offset + part.bytes;
        if end <= from {
            continue;
        }
        laid.remove(&part.offset);
        if part.offset < from {
            laid.insert(part.offset, Part { bytes: from - part.offset, ..part });
        }
        if end > to {
            let gone = to - part.offset;
            // Zeros have no place in the log.
            let at = if part.at == Extent::ZEROS { part.at } else { part.at + gone };
            laid.insert(to, Part { offset: to, bytes: part.bytes - gone, at, ..part });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        capture::LogRuns,
        space::{format::BLOCK, free::Blocks},
    };

    fn blocks(first: u64, count: u64) -> Blocks {
        Blocks { first, count }
    }

    /// Parts that are laid after others, even after later pieces, as a buffer does.
    #[derive(Default)]
    struct Gathered(Vec<(InputPiece, u64, usize, u8)>);

    impl Gathered {
        fn leave(&mut self, shard: &mut Log, log: &mut Vec<u8>) {
            for (handed, from, bytes, value) in self.0.drain(..) {
                shard.lay(&handed, from, bytes as u64, log.len() as u64);
                log.resize(log.len() + bytes, value);
            }
        }
    }

    /// Writes pieces at random; the extents must lead to the last bytes written.
    #[test]
    fn every_byte_is_found_where_it_was_written_last() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let runs = [blocks(10, 2), blocks(40, 3), blocks(100, 500)];
            let (mut shard, mut log, mut wanted) = (Log::new(1 << 20), Vec::new(), Vec::new());
            let mut gathered = Gathered::default();
            for round in 0..random.usize(1..40) {
                // Pieces that begin and end at the edges of others are merged with them.
                let unit = [1, 500][random.usize(0..2)];
                let (offset, bytes) = (random.usize(0..20_000) / unit * unit, random.usize(0..3000) / unit * unit);
                let handed = shard.piece("a", offset as u64, bytes as u64, &[]).unwrap();
                // Some are apart in the log, and a piece may be in two places.
                log.resize(log.len() + random.usize(0..2) * random.usize(0..50), 0);
                let half = random.usize(0..=bytes) / unit * unit;
                for (from, to) in [(0, half), (half, bytes)] {
                    if random.bool() {
                        gathered.0.push((handed, from as u64, to - from, round as u8 + 1));
                        continue;
                    }
                    shard.lay(&handed, from as u64, (to - from) as u64, log.len() as u64);
                    log.resize(log.len() + to - from, round as u8 + 1);
                    log.resize(log.len() + random.usize(0..2), 0);
                }
                wanted.resize(wanted.len().max(offset + bytes), 0);
                wanted[offset..offset + bytes].fill(round as u8 + 1);
                if random.u8(0..4) == 0 {
                    gathered.leave(&mut shard, &mut log);
                }
            }
            gathered.leave(&mut shard, &mut log);
            for (handed, bytes) in shard.gaps() {
                shard.lay(&handed, 0, bytes, log.len() as u64);
                log.resize(log.len() + bytes as usize, 0);
            }
            let mut portion = vec![0xee; 600 * BLOCK];
            let mut rest = &log[..];
            for piece in LogRuns::from(runs.to_vec()).pieces(0, log.len() as u64) {
                let (now, later) = rest.split_at(piece.bytes as usize);
                portion[piece.at as usize..][..now.len()].copy_from_slice(now);
                rest = later;
            }
            let blocks = log.len().div_ceil(BLOCK) as u64;
            let encoded = shard.contents(blocks, Annex::default()).encode();
            let contents = Contents::decode(&encoded, blocks).expect("as encoded");
            assert!(Contents::decode(&encoded, blocks - 1).is_none(), "seed {seed}");
            let item = &contents.laid(&runs)[0];
            assert_eq!(item.bytes, wanted.len() as u64, "seed {seed}");
            let found: Vec<u8> = item
                .extents
                .iter()
                .flat_map(|extent| portion[extent.at as usize..][..extent.bytes as usize].to_vec())
                .collect();
            assert_eq!(found, wanted, "seed {seed}");
        }
    }

    #[test]
    fn pieces_in_order_make_one_extent() {
        let mut shard = Log::new(10);
        for round in 0..1000 {
            let handed = shard.piece("a", round * 7, 7, &[]).unwrap();
            shard.lay(&handed, 0, 7, 100 + round * 7);
        }
        assert_eq!(shard.contents(2, Annex::default()).items[0].extents, [Extent { at: 100, bytes: 7000 }]);
        assert!(shard.gaps().is_empty());
    }

    #[test]
    fn too_many_scattered_pieces_are_refused() {
        let mut shard = Log::new(10);
        let written = (0..20_u64).take_while(|round| match shard.piece("a", round * 100, 7, &[]) {
            Ok(handed) => {
                shard.lay(&handed, 0, 7, round * 7);
                true
            }
            Err(error) => {
                assert!(error.to_string().contains("larger pieces"), "{error}");
                false
            }
        });
        assert!((5..10).contains(&written.count()));
    }
}

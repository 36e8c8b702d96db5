//! The counts that grow with the ranks, not with their logarithm. The list only becomes shorter, and its numbers smaller.

use super::counts::Quantity::{self, BytesRead, BytesWritten, CollectiveBytes, Memory, MemoryHighest, Metadata};

pub struct Exception {
    phase: &'static str,
    quantity: Quantity,
    /// The most that each further rank adds.
    pub each: f64,
    pub why: &'static str,
}

impl Exception {
    pub fn is_of(&self, phase: &str, quantity: Quantity) -> bool {
        (self.phase, self.quantity) == (phase, quantity)
    }
}

const fn exception(phase: &'static str, quantity: Quantity, each: f64, why: &'static str) -> Exception {
    Exception { phase, quantity, each, why }
}

const HOLDERS: &str = "each rank chooses the holders of all shards, from the nodes of all ranks";
const TABLE: &str = "each rank has the table of all portions of the space, and the holders of all shards";
const MAPPINGS: &str = "a list of the mappings of the process: here all ranks are one process";
const ROOM: &str = "rank 0 reserves the room of all portions of the space";
const PLACES: &str = "if a rank lacks its shard, all ranks report their shards and copies";
const LAYOUT: &str = "the maker of a layout arranges the portions of all ranks";

/// As the table in docs/decisions/0041-growth-with-ranks.md.
pub const EXCEPTIONS: &[Exception] = &[
    exception("open", CollectiveBytes, 7.0, HOLDERS),
    exception("open", Memory, 20.0, HOLDERS),
    exception("open", MemoryHighest, 460.0, HOLDERS),
    exception("restore", Memory, 22.0, HOLDERS),
    exception("restore", MemoryHighest, 1300.0, MAPPINGS),
    exception("first save", Metadata, 2.0, ROOM),
    exception("first save", BytesWritten, 24.0, TABLE),
    exception("first save", Memory, 48.0, TABLE),
    exception("first save", MemoryHighest, 230.0, LAYOUT),
    exception("save", Memory, 48.0, TABLE),
    exception("save", MemoryHighest, 48.0, TABLE),
    exception("recover", CollectiveBytes, 18.0, HOLDERS),
    exception("recover", MemoryHighest, 460.0, HOLDERS),
    exception("go back", CollectiveBytes, 55.0, PLACES),
    exception("go back", Memory, 20.0, TABLE),
    exception("go back", MemoryHighest, 1300.0, MAPPINGS),
    exception("save again", BytesRead, 24.0, TABLE),
    exception("save again", Memory, 48.0, TABLE),
    exception("save again", MemoryHighest, 48.0, TABLE),
    exception("close", Memory, 9.0, HOLDERS),
    exception("close", MemoryHighest, 48.0, TABLE),
    exception("open again", CollectiveBytes, 7.0, HOLDERS),
    exception("open again", BytesRead, 24.0, TABLE),
    exception("open again", Memory, 48.0, TABLE),
    exception("open again", MemoryHighest, 460.0, HOLDERS),
    exception("come back", Memory, 48.0, TABLE),
    exception("come back", MemoryHighest, 1300.0, MAPPINGS),
];

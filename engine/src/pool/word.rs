//! The word that holds a chunk's owner and state. Each change of state is one compare-and-exchange of this word, so a
//! dying process leaves every chunk in one state or the next.

/// The word of a chunk without an owner. In a new file every chunk has this word.
pub(super) const FREE: u64 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkState {
    Filling = 1,
    /// The chunk holds a segment that is still to be written.
    Full,
    /// The chunk is being written, in its turn.
    Writing,
    /// The chunk is written, but still held until it is hashed.
    Written,
}

/// A word other than `FREE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) state: ChunkState,
    pub(super) member: u16,
    /// Tag of the shard that the contents belong to, among the member's shards.
    pub(super) tag: u32,
}

/// The meaning of a word read from the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordRead {
    Free,
    Taken(Word),
    /// No member writes such a word.
    Garbage,
}

impl Word {
    pub(super) fn bits(self) -> u64 {
        self.state as u64 | u64::from(self.member) << 16 | u64::from(self.tag) << 32
    }

    /// Whether the contents are complete: filled, and not given back.
    pub(super) fn is_filled(self) -> bool {
        self.state != ChunkState::Filling
    }

    /// Whether the chunk is being written, or waits to be.
    pub(super) fn is_in_line(self) -> bool {
        matches!(self.state, ChunkState::Full | ChunkState::Writing)
    }
}

impl WordRead {
    pub(super) fn of(bits: u64, members: u32) -> WordRead {
        let state = match bits & 0xffff {
            _ if bits == FREE => return WordRead::Free,
            1 => ChunkState::Filling,
            2 => ChunkState::Full,
            3 => ChunkState::Writing,
            4 => ChunkState::Written,
            _ => return WordRead::Garbage,
        };
        let word = Word { state, member: (bits >> 16) as u16, tag: (bits >> 32) as u32 };
        if u32::from(word.member) < members { WordRead::Taken(word) } else { WordRead::Garbage }
    }
}

//! A reader of foreign bytes, and its bounds.

/// A reader that must survive any bytes.
pub struct Target {
    pub name: &'static str,
    /// Repairs the checksums, so that the reader reads on.
    pub repair: fn(&mut Vec<u8>),
    /// Reads the bytes. Panics if the reader breaks a promise.
    pub read: fn(&[u8]),
    pub memory: MemoryMax,
    /// The number of inputs in `make test`.
    pub count: u64,
}

/// The memory that a reader may take: so many bytes, and so many for each byte of its input.
#[derive(Debug, Clone, Copy)]
pub struct MemoryMax {
    pub fixed: usize,
    pub for_each: usize,
}

impl MemoryMax {
    /// The bound of most readers. Decoders may set memory aside before they know that the bytes end early.
    pub const USUAL: MemoryMax = MemoryMax { fixed: 4 << 20, for_each: 64 };

    pub fn at_most(self, bytes: usize) -> usize {
        self.fixed + self.for_each * bytes
    }
}

impl Target {
    /// A target with the usual bounds. Nothing is repaired.
    pub const fn new(name: &'static str, read: fn(&[u8]), count: u64) -> Target {
        Target { name, repair: |_| (), read, memory: MemoryMax::USUAL, count }
    }

    pub const fn repaired(self, repair: fn(&mut Vec<u8>)) -> Target {
        Target { repair, ..self }
    }

    pub const fn with_memory(self, memory: MemoryMax) -> Target {
        Target { memory, ..self }
    }
}

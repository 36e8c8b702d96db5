//! The counts of one rank, by phase of a job.

use super::allocated::live_and_highest;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Of a job that saves, loses a node, goes on, and ends, and of the next job, which restores.
pub const PHASES: [&str; 10] =
    ["open", "restore", "first save", "save", "recover", "go back", "save again", "close", "open again", "come back"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// The steps of messages, one after the other, of all collective calls: log2 P for each of these.
    Steps,
    /// Bytes that collective calls bring.
    CollectiveBytes,
    /// Messages to another rank.
    Messages,
    /// Bytes of messages from other ranks.
    MessageBytes,
    /// Requests to a file system other than reads, writes and syncs of open files.
    Metadata,
    /// Names in lists of directories.
    Names,
    BytesRead,
    BytesWritten,
    /// Memory that stays.
    Memory,
    /// The most memory at any time.
    MemoryHighest,
}

pub const QUANTITIES: [Quantity; 10] = [
    Quantity::Steps,
    Quantity::CollectiveBytes,
    Quantity::Messages,
    Quantity::MessageBytes,
    Quantity::Metadata,
    Quantity::Names,
    Quantity::BytesRead,
    Quantity::BytesWritten,
    Quantity::Memory,
    Quantity::MemoryHighest,
];

impl Quantity {
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Steps => "steps",
            Quantity::CollectiveBytes => "bytes of collectives",
            Quantity::Messages => "messages",
            Quantity::MessageBytes => "bytes of messages",
            Quantity::Metadata => "metadata requests",
            Quantity::Names => "names listed",
            Quantity::BytesRead => "bytes read",
            Quantity::BytesWritten => "bytes written",
            Quantity::Memory => "memory",
            Quantity::MemoryHighest => "highest memory",
        }
    }

    /// Growth that is not counted: from longer numbers, and from threads that meet at other moments.
    pub fn tolerance(self) -> f64 {
        match self {
            Quantity::Steps | Quantity::Messages | Quantity::Metadata | Quantity::Names => 4.0,
            Quantity::CollectiveBytes | Quantity::MessageBytes => 64.0,
            Quantity::BytesRead | Quantity::BytesWritten => 4096.0,
            Quantity::Memory | Quantity::MemoryHighest => 4096.0,
        }
    }
}

type Counts = BTreeMap<Quantity, u64>;

/// Counts for one rank. A clone counts into the same place.
#[derive(Debug, Clone, Default)]
pub struct Counter {
    now: Arc<Mutex<Counts>>,
}

impl Counter {
    pub fn add(&self, quantity: Quantity, count: u64) {
        *self.now.lock().unwrap().entry(quantity).or_default() += count;
    }

    /// The counts since the last call.
    fn take(&self) -> Counts {
        std::mem::take(&mut *self.now.lock().unwrap())
    }
}

/// The highest counts of all ranks.
#[derive(Debug, Default)]
pub struct Most(Mutex<BTreeMap<(&'static str, Quantity), u64>>);

impl Most {
    /// This rank has ended `phase`.
    pub fn ended(&self, phase: &'static str, counter: &Counter) {
        let mut counts = counter.take();
        let [live, highest] = live_and_highest();
        counts.extend([(Quantity::Memory, live), (Quantity::MemoryHighest, highest)]);
        let mut all = self.0.lock().unwrap();
        for (quantity, count) in counts {
            let most = all.entry((phase, quantity)).or_default();
            *most = count.max(*most);
        }
    }

    pub fn of(&self, phase: &'static str, quantity: Quantity) -> u64 {
        self.0.lock().unwrap().get(&(phase, quantity)).copied().unwrap_or(0)
    }
}

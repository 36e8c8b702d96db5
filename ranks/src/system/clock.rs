//! The clocks of a rank. A restart does not turn them back.

use super::{Arguments, System, kernel};
use crate::{address::Slot, memory};
use serde::{Deserialize, Serialize};
use std::io;

/// The offsets of the rank's clocks from those of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clocks {
    monotonic: Offset,
    /// The processor time of the process, with that of the processes before it.
    processor: Offset,
    /// The address of the variable with the first offset, in the rank's own clocks.
    pub ahead_at: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Offset {
    ahead_ns: i64,
    /// The rank's clock when it was saved.
    saved_at_ns: i64,
}

impl Offset {
    fn saved(self, clock: i32) -> Offset {
        Offset { saved_at_ns: now_ns(clock) + self.ahead_ns, ..self }
    }

    fn brought_back(self, clock: i32) -> Offset {
        Offset { ahead_ns: self.saved_at_ns - now_ns(clock), ..self }
    }
}

const SECOND_NS: i64 = 1_000_000_000;

fn now_ns(clock: i32) -> i64 {
    let mut time = [0i64; 2];
    kernel::call(libc::SYS_clock_gettime, [clock as u64, (&raw mut time) as u64, 0, 0, 0, 0]);
    time[0] * SECOND_NS + time[1]
}

impl Clocks {
    pub fn saved(&self) -> Clocks {
        Clocks {
            monotonic: self.monotonic.saved(libc::CLOCK_MONOTONIC),
            processor: self.processor.saved(libc::CLOCK_PROCESS_CPUTIME_ID),
            ..*self
        }
    }

    /// The clocks go on where they stood, in a process that has its own.
    pub fn brought_back(self, slot: Slot) -> io::Result<Clocks> {
        let monotonic = self.monotonic.brought_back(libc::CLOCK_MONOTONIC);
        let processor = self.processor.brought_back(libc::CLOCK_PROCESS_CPUTIME_ID);
        if self.ahead_at != 0 {
            memory::put(slot, self.ahead_at, &monotonic.ahead_ns)?;
        }
        Ok(Clocks { monotonic, processor, ..self })
    }

    fn ahead_of(&self, clock: u64) -> i64 {
        match clock as i32 {
            libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => {
                self.monotonic.ahead_ns
            }
            libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => self.processor.ahead_ns,
            _ => 0,
        }
    }
}

impl System {
    pub(super) fn clock_gettime(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let [clock, into, ..] = arguments;
        let ahead = self.clocks.ahead_of(clock);
        let result = kernel::result(kernel::call(number, arguments))?;
        if ahead != 0 && into != 0 {
            let [seconds, nanoseconds]: [i64; 2] = memory::get(self.slot, into as usize)?;
            let time = seconds * SECOND_NS + nanoseconds + ahead;
            memory::put(self.slot, into as usize, &[time.div_euclid(SECOND_NS), time.rem_euclid(SECOND_NS)])?;
        }
        Ok(result)
    }
}

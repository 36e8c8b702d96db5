//! The clocks of a rank. A restart does not turn them back.

use super::{Arguments, System, kernel};
use crate::{memory, slot::Slot};
use serde::{Deserialize, Serialize};
use std::io;

/// What the rank's clocks are ahead of those of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clocks {
    /// Nanoseconds that the rank's monotonic clocks are ahead of this machine's.
    ahead_ns: i64,
    /// The rank's monotonic clock when it was saved.
    saved_at_ns: i64,
    /// The address of the variable in the rank's own clocks.
    pub ahead_at: usize,
}

const SECOND_NS: i64 = 1_000_000_000;

fn now_ns(clock: u64) -> i64 {
    let mut time = [0i64; 2];
    kernel::call(libc::SYS_clock_gettime, [clock, (&raw mut time) as u64, 0, 0, 0, 0]);
    time[0] * SECOND_NS + time[1]
}

impl Clocks {
    pub fn saved(&self) -> Clocks {
        Clocks { saved_at_ns: now_ns(libc::CLOCK_MONOTONIC as u64) + self.ahead_ns, ..*self }
    }

    /// The clocks go on where they stood, on a machine that has its own.
    pub fn brought_back(self, slot: Slot) -> io::Result<Clocks> {
        let ahead_ns = self.saved_at_ns - now_ns(libc::CLOCK_MONOTONIC as u64);
        if self.ahead_at != 0 {
            memory::put(slot, self.ahead_at, &ahead_ns)?;
        }
        Ok(Clocks { ahead_ns, ..self })
    }

    fn of(&self, clock: u64) -> i64 {
        match clock as i32 {
            libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => {
                self.ahead_ns
            }
            _ => 0,
        }
    }
}

impl System {
    pub(super) fn clock_gettime(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let [clock, into, ..] = arguments;
        let ahead = self.clocks.of(clock);
        let result = kernel::result(kernel::call(number, arguments))?;
        if ahead != 0 && into != 0 {
            let [seconds, nanoseconds]: [i64; 2] = memory::get(self.slot, into as usize)?;
            let time = seconds * SECOND_NS + nanoseconds + ahead;
            memory::put(self.slot, into as usize, &[time.div_euclid(SECOND_NS), time.rem_euclid(SECOND_NS)])?;
        }
        Ok(result)
    }
}

//! The time of day, as records tell it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

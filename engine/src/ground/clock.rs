//! Time: the only place that asks the system for it, and that waits.

use super::world;
use nix::time::{ClockId, clock_gettime};
use std::{
    ops::{Add, Sub},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A moment of this process, which only grows. It replaces `Instant` of `std`, with the functions that Mainstay uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Instant {
        Instant(match world() {
            Some(world) => world.now(),
            None => clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from),
        })
    }

    pub(crate) fn elapsed(self) -> Duration {
        Instant::now() - self
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, time: Duration) -> Instant {
        Instant(self.0 + time)
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// The time since `earlier`; zero if `earlier` is later.
    fn sub(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Stops this thread for `time`.
pub(crate) fn sleep(time: Duration) {
    match world() {
        Some(world) => drop(world.wait("a time", Some(world.now() + time), &mut || false)),
        None => thread::sleep(time),
    }
}

/// Lets other threads and processes run, before this thread checks its condition for the `tries`th time.
pub(crate) fn pause(tries: u32) {
    const SHORT: u32 = 100;
    if let Some(world) = world() {
        return world.pause(tries);
    }
    if tries < SHORT { thread::yield_now() } else { sleep(Duration::from_micros(50)) }
}

/// The processor time of this process, in µs.
pub(crate) fn processor_us() -> u64 {
    if let Some(world) = world() {
        return world.now().as_micros() as u64;
    }
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
    time.as_micros() as u64
}

/// The processor time of this thread: the cost of its work, however many others want the processor.
pub(crate) fn thread_time() -> Duration {
    if let Some(world) = world() {
        return world.now();
    }
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The time of day for records: nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    if let Some(world) = world() {
        return world.unix_ns();
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// The files below `folder`, except tests, that use the time of `std` or sleep.
    fn found_in(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() && !entry.ends_with("tests") {
                found_in(&entry, found);
            } else if entry.extension().is_some_and(|end| end == "rs") && !entry.ends_with("tests.rs") {
                let text = fs::read_to_string(&entry).unwrap();
                let code = text.split("\nmod tests {").next().unwrap();
                let imports = code.match_indices("use std::").filter_map(|(at, _)| code[at..].split(';').next());
                let taken = ["Instant", "SystemTime"];
                if imports.into_iter().any(|import| taken.iter().any(|time| import.contains(time)))
                    || ["time::Instant", "time::SystemTime", "thread::sleep"].iter().any(|time| code.contains(time))
                {
                    found.push(entry.display().to_string());
                }
            }
        }
    }

    #[test]
    fn nothing_else_in_the_engine_takes_the_time() {
        let (source, mut found) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), Vec::new());
        found_in(&source, &mut found);
        let clock = source.join("ground/clock.rs").display().to_string();
        assert_eq!(found, [clock], "take `Instant`, `sleep` and `unix_ns` from `crate::ground`");
    }
}

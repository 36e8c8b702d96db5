//! Time: the one place that asks the system for it, and that waits for it to pass.

use nix::time::{ClockId, clock_gettime};
use std::{
    ops::{Add, Sub},
    thread,
    time::{self, Duration, SystemTime, UNIX_EPOCH},
};

/// A moment of this process, which only grows; it stands for `Instant` of `std`, and has what we use of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(time::Instant);

impl Instant {
    pub(crate) fn now() -> Instant {
        Instant(time::Instant::now())
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
        self.0.saturating_duration_since(earlier.0)
    }
}

/// Lets `time` pass on this thread.
pub(crate) fn sleep(time: Duration) {
    thread::sleep(time);
}

/// Lets other threads and processes go on before this one asks for the `tries`th time what it waits for.
pub(crate) fn pause(tries: u32) {
    const SHORT: u32 = 100;
    if tries < SHORT { thread::yield_now() } else { sleep(Duration::from_micros(50)) }
}

/// The processor time that this process has had, in µs.
pub(crate) fn processor_us() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
    time.as_micros() as u64
}

/// The time of day, as records tell it: nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// The files below `folder`, tests excepted, that take the time of `std`, or let it pass.
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

//! Times for people: in the local time zone, from TZ, or in UTC. Documents give nanoseconds since 1970.

use jiff::{Timestamp, tz::TimeZone};
use mainstay_engine::printable;
use std::{borrow::Cow, sync::OnceLock};

/// The zone of all printed times; set before the first is printed.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Prints all times in UTC from now on.
pub fn tell_in_utc() {
    let _ = ZONE.set(TimeZone::UTC);
}

fn zone() -> &'static TimeZone {
    ZONE.get_or_init(TimeZone::system)
}

/// `2026-03-01 17:04:59`.
pub fn when(unix_ns: u64) -> String {
    when_in(zone(), unix_ns)
}

/// `2026-03-01 17:04:59 (Europe/Berlin)`.
pub fn when_and_where(unix_ns: u64) -> String {
    format!("{} ({})", when(unix_ns), zone_name())
}

/// The head of a column of times: `saved (Europe/Berlin)`.
pub fn column(what: &str) -> String {
    format!("{what} ({})", zone_name())
}

/// `UTC`, `Europe/Berlin`, or `local time` if the zone has no name.
pub fn zone_name() -> Cow<'static, str> {
    name_of(zone())
}

fn when_in(zone: &TimeZone, unix_ns: u64) -> String {
    // Any number of 64 bits is a time before the year 2555.
    let time = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or(Timestamp::MAX);
    zone.to_datetime(time).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn name_of(zone: &TimeZone) -> Cow<'_, str> {
    match zone.iana_name() {
        // Without a zone from the system, it is UTC.
        _ if zone.is_unknown() => "UTC".into(),
        Some("UTC" | "Etc/UTC") => "UTC".into(),
        Some(name) => printable(name),
        None => "local time".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // As `date -u -d @N` prints them.
        let all = [0, 951_782_400, 951_868_799, 1_709_251_199, 4_107_542_400];
        let all = all.map(|seconds| when_in(&TimeZone::UTC, seconds * SECOND_NS + 999_999_999));
        let expected = [
            "1970-01-01 00:00:00",
            "2000-02-29 00:00:00",
            "2000-02-29 23:59:59",
            "2024-02-29 23:59:59",
            "2100-03-01 00:00:00",
        ];
        assert_eq!(all, expected);
        assert_eq!(&when_in(&TimeZone::UTC, u64::MAX)[..4], "2554");
    }

    #[test]
    fn zones_have_their_own_time() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let all = [1_743_296_399, 1_743_296_400].map(|seconds| when_in(&berlin, seconds * SECOND_NS));
        assert_eq!(all, ["2025-03-30 01:59:59", "2025-03-30 03:00:00"]);
        assert_eq!(
            [name_of(&berlin), name_of(&TimeZone::UTC), name_of(&TimeZone::unknown())],
            ["local time", "UTC", "UTC"]
        );
    }
}

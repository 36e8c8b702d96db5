//! Spans of time as people write them: `90s`, `30m`, `12h`, `7d`, `2w`.

use std::time::Duration;

pub fn parse(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[number.len()..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err("give a whole number and a unit: 90s, 30m, 12h, 7d or 2w".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| format!("{number:?} is not a whole number"))?;
    // Further than that nobody's clock goes.
    let span = number.checked_mul(seconds).filter(|seconds| *seconds <= 200 * 365 * 86_400);
    span.map(Duration::from_secs).ok_or_else(|| "it is longer than 200 years".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_are_a_span() {
        let seconds = |text| parse(text).map(|span| span.as_secs());
        let all = ["0s", "90s", "30m", "30min", "12h", "7d", "2w"].map(seconds);
        assert_eq!(all, [0, 90, 1800, 1800, 43_200, 604_800, 1_209_600].map(Ok));
        for text in ["", "7", "d", "1.5h", "-1s", "1 h", "7d7d", "1y", "99999999999w", "18446744073709551615w", "７d"]
        {
            assert!(parse(text).is_err(), "{text:?} was taken");
        }
    }
}

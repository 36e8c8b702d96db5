//! Numbers, times and tables as people read them.

use comfy_table::{CellAlignment, Table, presets};
pub use mainstay_engine::count;
use mainstay_engine::printable;

const SECOND_NS: u64 = 1_000_000_000;

/// `256 MiB`, `1.5 KiB`, `17 B`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    in_units(bytes as f64, &UNITS.map(|unit| (unit, 1024.0)))
}

/// `3.1 ms`, `2.5 s`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(&str, f64); 5] =
        [("ns", 1000.0), ("µs", 1000.0), ("ms", 1000.0), ("s", 60.0), ("min", f64::INFINITY)];
    if ns == 0 { "0 ms".to_owned() } else { in_units(ns as f64, &UNITS) }
}

/// Picks the largest unit in which the printed number is at least 1. `units`: each with the factor to the next one.
fn in_units(mut value: f64, units: &[(&str, f64)]) -> String {
    let mut unit = 0;
    while unit + 1 < units.len() && as_printed(value) >= units[unit].1 {
        value /= units[unit].1;
        unit += 1;
    }
    format!("{} {}", number(value), units[unit].0)
}

/// The value as `number` prints it.
fn as_printed(value: f64) -> f64 {
    if value < 99.95 { (10.0 * value).round() / 10.0 } else { value.round() }
}

/// Age: `1.2 s`, `5 min`, `3.5 h`, `12 days`.
pub fn age(ns: u64) -> String {
    const HOUR_NS: u64 = 3600 * SECOND_NS;
    match ns {
        0..SECOND_NS => format!("{} s", number((ns / 100_000_000) as f64 / 10.0)),
        SECOND_NS..HOUR_NS => duration(ns),
        _ if ns < 48 * HOUR_NS => format!("{} h", number(ns as f64 / HOUR_NS as f64)),
        _ => format!("{} days", number(ns as f64 / (24 * HOUR_NS) as f64)),
    }
}

/// `rank 3`, `ranks 0 to 1, 4`, from ranges: each the first rank and the one after the last.
pub fn ranks(stretches: &[(u32, u32)]) -> String {
    const SHOWN_MAX: usize = 8;
    let stretch = |(from, below): &(u32, u32)| match below - from {
        1 => from.to_string(),
        _ => format!("{from} to {}", below - 1),
    };
    let mut words: Vec<String> = stretches.iter().take(SHOWN_MAX).map(stretch).collect();
    if stretches.len() > SHOWN_MAX {
        words.push("…".to_owned());
    }
    let is_one = matches!(stretches, [(from, below)] if below - from == 1);
    format!("{} {}", if is_one { "rank" } else { "ranks" }, words.join(", "))
}

/// A place: "on the level disk", "on the levels memory; space".
pub fn on_levels(levels: &[String]) -> String {
    format!("on the {} {}", if levels.len() == 1 { "level" } else { "levels" }, levels.join("; "))
}

/// Each on a line of its own.
pub fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("{text}\n")).collect()
}

/// As `duration`, and `?` if it was not recorded.
pub fn duration_if_known(ns: Option<u64>) -> String {
    ns.map_or("?".to_owned(), duration)
}

/// At most one digit after the point, and none if it adds nothing.
pub fn number(value: f64) -> String {
    let text = format!("{value:.*}", usize::from(value < 99.95));
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// The first eight digits, enough to distinguish two.
pub fn id(id: &[u8; 16]) -> String {
    crate::document::hex(id)[..8].to_owned()
}

/// The beginning of a text from a space, in one line.
pub fn line(text: &str) -> String {
    const CHARACTERS_MAX: usize = 100;
    let mut line = printable(&text.chars().take(CHARACTERS_MAX).collect::<String>()).into_owned();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        line.push('…');
    }
    line
}

#[derive(Debug, Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

/// Lines of a table below its head, each indented.
pub fn table(columns: &[(&str, Align)], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    let rows = rows.into_iter().map(|row| row.into_iter().map(|cell| printable(&cell).into_owned()));
    table.load_style(presets::NOTHING).set_header(columns.iter().map(|(name, _)| *name)).add_rows(rows);
    for (column, (_, align)) in table.column_iter_mut().zip(columns) {
        column.set_padding((1, 1)).set_cell_alignment(match align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        });
    }
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        let all = [0, 17, 1023, 1024, 1536, 1_048_575, 256 << 20, 100 << 30, u64::MAX].map(bytes);
        assert_eq!(all, ["0 B", "17 B", "1023 B", "1 KiB", "1.5 KiB", "1 MiB", "256 MiB", "100 GiB", "16 EiB"]);
    }

    #[test]
    fn durations_read_well() {
        let all = [0, 7, 1500, 3_140_000, 2_500_000_000, 90_000_000_000].map(duration);
        assert_eq!(all, ["0 ms", "7 ns", "1.5 µs", "3.1 ms", "2.5 s", "1.5 min"]);
        let next_to_another_unit = [999_499, 999_500, 59_949_999_999, 59_950_000_000].map(duration);
        assert_eq!(next_to_another_unit, ["999 µs", "1 ms", "59.9 s", "1 min"]);
    }

    #[test]
    fn ages_and_ranks_read_well() {
        let all = [0, 40_000_000, 1_500_000_000, 600 * SECOND_NS, 3 * 3600 * SECOND_NS, 1_000_000 * SECOND_NS].map(age);
        assert_eq!(all, ["0 s", "0 s", "1.5 s", "10 min", "3 h", "11.6 days"]);
        let all = [&[(3, 4)][..], &[(0, 2), (4, 5)], &[(0, 64)]].map(ranks);
        assert_eq!(all, ["rank 3", "ranks 0 to 1, 4", "ranks 0 to 63"]);
    }
}

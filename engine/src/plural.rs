//! Counts of things, in words.

/// `1 rank`, `3 ranks`, `2 recoveries`, `2 copies`.
pub fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn one_thing_is_no_plural() {
        let all = [(1, "rank"), (0, "rank"), (2, "rank"), (1, "copy"), (2, "copy")];
        let all = all.map(|(number, noun)| count(number, noun));
        assert_eq!(all, ["1 rank", "0 ranks", "2 ranks", "1 copy", "2 copies"]);
    }
}

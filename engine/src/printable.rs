//! Printing text from outside, such as the name of a file: characters that a terminal would obey, or not show, are
//! escaped. Every path and every name in a message goes through here.

use std::{borrow::Cow, os::unix::ffi::OsStrExt, path::Path};

/// Maximum length of a text that is `shortened`.
const CHARACTERS_MAX: usize = 2000;

/// Returns `text` as one line with only visible characters: control characters, line breaks, characters without width
/// and those that change the direction of writing are escaped, as in `\u{1b}` and `\n`. Nothing else changes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_seen) {
        return Cow::Borrowed(text);
    }
    let mut seen = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_seen(c) { seen.push(c) } else { seen.extend(c.escape_debug()) }
    }
    Cow::Owned(seen)
}

/// The beginning of a text that may be long, printable.
pub fn shortened(text: &str) -> String {
    printable(&text.chars().take(CHARACTERS_MAX).collect::<String>()).into_owned()
}

/// A path as printed by `printable`. A byte that is not UTF-8 is shown as `\xff`.
pub fn printable_path(path: &Path) -> String {
    let mut seen = String::new();
    for part in path.as_os_str().as_bytes().utf8_chunks() {
        seen += &printable(part.valid());
        part.invalid().iter().for_each(|byte| seen += &format!("\\x{byte:02x}"));
    }
    seen
}

/// Characters that Rust itself would not escape in the middle of a text, and quotes and backslashes, which are
/// harmless.
pub fn is_seen(c: char) -> bool {
    match c {
        ' '..='~' => true,
        _ if c.is_ascii() => false,
        // An accent counts as visible only after a letter, where `escape_debug` leaves it.
        _ => ['a', c].iter().collect::<String>().escape_debug().count() == 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn what_a_terminal_would_obey_or_hide_is_escaped() {
        let cases = [
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("bell\x07", "bell\\u{7}"),
            ("two\nlines\r\t", "two\\nlines\\r\\t"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\x7f\0", "\\u{7f}\\0"),
            ("abc\u{202e}def", "abc\\u{202e}def"),
            ("zero\u{200b}width\u{200d}\u{200c}\u{feff}\u{ad}", "zero\\u{200b}width\\u{200d}\\u{200c}\\u{feff}\\u{ad}"),
            ("\u{2028}\u{2029}\u{2066}\u{61c}", "\\u{2028}\\u{2029}\\u{2066}\\u{61c}"),
        ];
        for (raw, seen) in cases {
            assert_eq!(printable(raw), seen);
            assert_eq!(printable_path(Path::new(raw)), seen);
        }
    }

    #[test]
    fn what_can_be_read_stays() {
        for text in ["/home/me/my space", "größe 4 × 7 − t2−t1 µs …", "e\u{301}", "\"it's\" a\\b", "数値/наука", ""]
        {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text:?}");
            assert_eq!(printable_path(Path::new(text)), text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_told() {
        let path = Path::new(OsStr::from_bytes(b"a\xffb\xc3/\x1b\xe2\x82"));
        assert_eq!(printable_path(path), "a\\xffb\\xc3/\\u{1b}\\xe2\\x82");
    }
}

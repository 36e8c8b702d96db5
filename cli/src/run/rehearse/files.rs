//! Files of both runs, compared byte by byte.

use crate::exit::Failure;
use mainstay_engine::{printable, printable_path};
use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

/// Length of a shown line.
const SHOWN: usize = 60;

/// The place of the first difference, in words; `None` if there is none.
pub fn difference(calm: &Path, killed: &Path, name: &Path) -> Result<Option<String>, Failure> {
    let failed = |e: io::Error| Failure::refused(format!("reading {} failed: {e}", printable_path(name)));
    let one = File::open(calm).map_err(|_| {
        Failure::usage(format!("--compare {}: the undisturbed run has no such file", printable_path(name)))
    })?;
    let other = match File::open(killed) {
        Ok(other) => other,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Ok(Some("the run that was killed has no such file".to_owned()));
        }
        Err(e) => return Err(failed(e)),
    };
    first_difference(BufReader::new(one), BufReader::new(other)).map_err(failed)
}

fn first_difference(mut one: impl BufRead, mut other: impl BufRead) -> io::Result<Option<String>> {
    let (mut line, mut at) = (1_u64, 0_u64);
    // The line so far, to show it.
    let mut begin = Vec::new();
    loop {
        let (a, b) = (one.fill_buf()?, other.fill_buf()?);
        let length = a.len().min(b.len());
        if length == 0 && a.len() == b.len() {
            return Ok(None);
        }
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        for byte in &a[..same] {
            if *byte == b'\n' {
                line += 1;
                begin.clear();
            } else if begin.len() < SHOWN {
                begin.push(*byte);
            }
        }
        at += same as u64;
        if same < length || length == 0 {
            let shown = [&a[same..], &b[same..]].map(|rest| shown(&begin, rest));
            return Ok(Some(match shown {
                [Some(a), Some(b)] => format!("from line {line} on: {a} and {b}"),
                _ => format!("from byte {at} on"),
            }));
        }
        one.consume(same);
        other.consume(same);
    }
}

/// A line that goes on with `rest`; `None` if it is no text.
fn shown(begin: &[u8], rest: &[u8]) -> Option<String> {
    if begin.is_empty() && rest.is_empty() {
        return Some("its end".to_owned());
    }
    let rest = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut bytes = [begin, rest].concat();
    bytes.truncate(SHOWN);
    let text = match str::from_utf8(&bytes) {
        Ok(text) => text,
        // The cut may be inside a character.
        Err(error) if error.error_len().is_none() => str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    (!text.contains('\0')).then(|| format!("{:?}", printable(text)))
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn the_first_difference_is_told_by_line_or_byte() {
        let told = |a: &[u8], b: &[u8]| first_difference(a, b).unwrap();
        assert_eq!(told(b"a\nb\n", b"a\nb\n"), None);
        assert_eq!(told(b"", b""), None);
        assert_eq!(told(b"a\nbc\nd\n", b"a\nbx\nd\n").as_deref(), Some("from line 2 on: \"bc\" and \"bx\""));
        assert_eq!(told(b"a\n", b"a\na\n").as_deref(), Some("from line 2 on: its end and \"a\""));
        assert_eq!(told(b"\0\xff\x01", b"\0\xff\x02").as_deref(), Some("from byte 2 on"));
    }
}

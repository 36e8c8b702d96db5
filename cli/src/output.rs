//! Writing to standard output. A reader may stop early (`mainstay ls | head -1`): that is no error.
//!
//! Invariant: a terminal only gets visible characters, whatever a space, a file or its name contains.

use mainstay_engine::{is_seen, printable};
use serde::Serialize;
use std::{
    env,
    io::{self, IsTerminal, Write},
};

/// Prints a page. Line breaks stay; other invisible characters are escaped.
pub fn text(text: &str) -> io::Result<()> {
    ignore_gone(text_read(text))
}

/// Like `text`, but fails if the reader is gone.
pub fn text_read(text: &str) -> io::Result<()> {
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    write_all(lines.join("\n").as_bytes())
}

/// Prints alarms, one a line, in red on a terminal.
pub fn alarms(alarms: &[String]) -> io::Result<()> {
    let (red, plain) = if is_in_colour() { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    let line = |alarm: &String| format!("{red}ALARM   {}{plain}\n", printable(alarm));
    ignore_gone(write_all(alarms.iter().map(line).collect::<String>().as_bytes()))
}

/// Clears the terminal before the next of several pages.
pub fn begin_page(is_first: bool) -> io::Result<()> {
    let begin = match io::stdout().is_terminal() {
        true => "\x1b[H\x1b[2J",
        false if is_first => "",
        false => "\n",
    };
    ignore_gone(write_all(begin.as_bytes()))
}

fn is_in_colour() -> bool {
    io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Prints bytes unchanged, such as a path of any characters, for a program that reads them.
pub fn bytes(bytes: &[u8]) -> io::Result<()> {
    ignore_gone(write_all(bytes))
}

pub fn json(document: &impl Serialize) -> io::Result<()> {
    ignore_gone(json_read(document))
}

/// Like `json`, but fails if the reader is gone.
pub fn json_read(document: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(document)?;
    write_all((json_seen(&text) + "\n").as_bytes())
}

/// The same document. Invisible characters are only inside texts, where JSON can escape each.
fn json_seen(document: &str) -> String {
    let mut seen = String::with_capacity(document.len());
    for c in document.chars() {
        match c {
            '\n' => seen.push(c),
            _ if is_seen(c) => seen.push(c),
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| seen += &format!("\\u{unit:04x}")),
        }
    }
    seen
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

fn ignore_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_stays_the_same_and_shows_all_its_characters() {
        let text = "\u{1b}[31m \u{7} \u{7f}\n\u{202e}\u{200b} \u{e0001} \"größe\" \u{9b}";
        let document = serde_json::to_string_pretty(&[text]).unwrap();
        let seen = json_seen(&document);
        assert!(seen.chars().all(|c| c == '\n' || is_seen(c)), "{seen:?}");
        assert!(seen.contains("\\u202e\\u200b \\udb40\\udc01 \\\"größe\\\""), "{seen}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&seen).unwrap(), [text]);
    }
}

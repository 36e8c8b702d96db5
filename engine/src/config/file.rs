//! The file `mainstay.toml`. Its contents are untrusted until it has been read to the end.

use super::{Choice, Key, Value, value::shortened};
use crate::{
    error::{Error, Result},
    ground::files::{Open, read_from},
    printable::{printable, printable_path},
};
use std::{collections::BTreeMap, fs, io, path::Path};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Tables that other parts of Mainstay read: no settings of a session.
const TABLES: [&str; 1] = ["files"];

/// A line of such a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableLine {
    pub key: String,
    /// The value, or those of a list.
    pub values: Vec<String>,
    /// `keep in /home/me/mainstay.toml, line 3`
    pub place: String,
}

/// The settings in a file, and the line of each key.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub choice: Choice,
    pub lines: BTreeMap<&'static str, usize>,
}

/// Reads the file, if there is one. An error names the file, and if possible the line and the key.
pub(super) fn read(path: &Path, must_exist: bool) -> Result<Option<Settings>> {
    bytes_of(path, must_exist)?.map(|bytes| parse(path, &bytes)).transpose()
}

/// Reads a table of another part of Mainstay. Each value is a text, a number, or a list of these.
pub(super) fn table(path: &Path, must_exist: bool, name: &str) -> Result<Vec<TableLine>> {
    let Some(bytes) = bytes_of(path, must_exist)? else { return Ok(Vec::new()) };
    let all = table_in(path, &bytes)?.into_inner();
    let Some(DeValue::Table(table)) = all.get(name).map(|value| value.get_ref()) else { return Ok(Vec::new()) };
    let mut lines: Vec<_> = table.iter().collect();
    lines.sort_by_key(|(name, _)| name.span().start);
    let read = lines.into_iter().map(|(name, value)| {
        let place = place(name.get_ref(), path, line_at(&bytes, name.span().start));
        let values = match value.get_ref() {
            DeValue::Array(list) => list.iter().map(|value| word(value.get_ref())).collect(),
            value => word(value).map(|word| vec![word]),
        };
        let wrong = || Error::argument(place.clone(), "it takes a text, a number, or a list of texts");
        Ok(TableLine { key: name.get_ref().to_string(), values: values.ok_or_else(wrong)?, place })
    });
    read.collect()
}

fn word(value: &DeValue) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string()),
        _ => None,
    }
}

fn bytes_of(path: &Path, must_exist: bool) -> Result<Option<Vec<u8>>> {
    match text_of(path) {
        Ok(bytes) => bytes.map(Some),
        // A dangling link is not a missing file.
        Err(e) if e.kind() == io::ErrorKind::NotFound && !must_exist && fs::symlink_metadata(path).is_err() => Ok(None),
        Err(e) => Err(wrong(path, format!("the settings cannot be read: {e}"))),
    }
}

fn text_of(path: &Path) -> io::Result<Result<Vec<u8>>> {
    let bytes = read_from(Open::to_read().through_links().file(path)?, FILE_BYTES_MAX + 1)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Ok(Err(wrong(path, "the settings are larger than 1 MiB: is this the right file?")));
    }
    Ok(Ok(bytes))
}

fn line_at(bytes: &[u8], at: usize) -> usize {
    1 + bytes[..at.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count()
}

fn table_in<'a>(path: &Path, bytes: &'a [u8]) -> Result<Spanned<DeTable<'a>>> {
    let line_at = |at: usize| line_at(bytes, at);
    let at_line = |line: usize, why: String| Error::argument(format!("{}, line {line}", printable_path(path)), why);
    let text = std::str::from_utf8(bytes).map_err(|e| {
        at_line(line_at(e.valid_up_to()), "a byte that is not UTF-8; save the file as UTF-8".to_owned())
    })?;
    DeTable::parse(text).map_err(|e| {
        let span = e.span().unwrap_or_default();
        let line = line_at(span.start);
        match e.message() {
            "duplicate key" => {
                let name = text.get(span).unwrap_or_default();
                Error::argument(place(name, path, line), "the key is there a second time; leave one")
            }
            other => at_line(line, format!("this is no TOML: {}", printable(other))),
        }
    })
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Settings> {
    let line_at = |at: usize| line_at(bytes, at);
    let mut entries: Vec<_> = table_in(path, bytes)?.into_inner().into_iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut settings = Settings::default();
    for (name, value) in entries {
        let line = line_at(name.span().start);
        if matches!(value.get_ref(), DeValue::Table(_)) && TABLES.contains(&&**name.get_ref()) {
            continue;
        }
        let refuse = |why| Error::argument(place(name.get_ref(), path, line), why);
        // The name of an intended table may equal the name of a setting.
        let is_table = match Key::named(name.get_ref()) {
            Some(_) => "a table; settings belong to no table",
            None => "no such setting, but a table; settings belong to no table",
        };
        let meant = match value.get_ref() {
            DeValue::Table(table) => meant_in(&[name.get_ref()], table),
            _ => None,
        };
        if let Some(key) = meant {
            let right = format!("did you mean {key}? Write {key} = … before any [table]");
            return Err(refuse(format!("{is_table}; {right}")));
        }
        let unknown = || match value.get_ref() {
            DeValue::Table(_) => format!("{is_table}; `mainstay config` lists all"),
            _ => Key::unknown(name.get_ref()),
        };
        let key = Key::named(name.get_ref()).ok_or_else(|| refuse(unknown()))?;
        settings.choice.read(key, given(value.get_ref())).map_err(refuse)?;
        settings.lines.insert(key.name, line);
    }
    Ok(settings)
}

/// Settings belong to no table. Returns the first line of this table, or of one within it, that is a setting with or
/// without the names of the tables in front.
fn meant_in(outer: &[&str], table: &DeTable) -> Option<&'static str> {
    let mut lines: Vec<_> = table.iter().collect();
    lines.sort_by_key(|(name, _)| name.span().start);
    lines.into_iter().find_map(|(name, value)| {
        let path = [outer, &[name.get_ref()]].concat();
        match value.get_ref() {
            DeValue::Table(table) => meant_in(&path, table),
            _ => (0..path.len()).find_map(|from| Key::named(&path[from..].join("_"))).map(|key| key.name),
        }
    })
}

fn given<'a>(value: &'a DeValue) -> Value<'a> {
    match value {
        DeValue::String(text) => Value::Text(text),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Other("a number of so many digits"),
        },
        DeValue::Float(number) => number.as_str().parse().map_or(Value::Other("such a number"), Value::Float),
        DeValue::Boolean(true) => Value::Other("true"),
        DeValue::Boolean(false) => Value::Other("false"),
        DeValue::Datetime(_) => Value::Other("a date or time of day"),
        DeValue::Array(_) => Value::Other("a list"),
        DeValue::Table(_) => Value::Other("a table"),
    }
}

/// `keep in /home/me/mainstay.toml, line 3`; a name may hold any character.
pub(super) fn place(name: &str, path: &Path, line: usize) -> String {
    format!("{} in {}, line {line}", shortened(name).escape_debug(), printable_path(path))
}

fn wrong(path: &Path, why: impl Into<String>) -> Error {
    Error::argument(printable_path(path), why)
}

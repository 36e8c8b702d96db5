//! Files beside the layouts, and outside a space: status, journal, levels, settings, traces.

use crate::{
    Target,
    promises::{comes_back, told},
    scratch::scratch,
};
use mainstay_engine::{
    Choice, Config, Surroundings,
    predict::{Reader, Writer},
    status::{Journal, Status},
};
use std::{collections::BTreeMap, ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::PathBuf};

pub(super) static TARGETS: [Target; 7] = [
    Target::new("status", status, 5_000),
    Target::new("journal", journal, 5_000),
    Target::new("levels", levels, 10_000),
    Target::new("salvaged", salvaged, 3_000),
    Target::new("settings", settings, 5_000),
    Target::new("environment", environment, 1_000),
    Target::new("trace", trace, 20_000),
];

/// A folder with the bytes as the file of this name.
fn folder_with(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = scratch(&format!("with-{name}"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
    folder
}

fn status(bytes: &[u8]) {
    told(Status::read(&folder_with("status", bytes)));
}

fn journal(bytes: &[u8]) {
    let journal = told(Journal::read(&folder_with("journal", bytes))).flatten().unwrap();
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(journal.entries.len() + journal.passed_over <= lines, "it has more events than lines");
}

fn levels(bytes: &[u8]) {
    comes_back(bytes, |bytes| {
        mainstay_engine::fuzzing::levels(&String::from_utf8_lossy(bytes)).map(String::into_bytes)
    });
}

fn salvaged(bytes: &[u8]) {
    assert!(mainstay_engine::fuzzing::gone_over(&folder_with("salvaged", bytes)), "the same ranks count twice");
}

fn settings(bytes: &[u8]) {
    let surroundings = Surroundings { directory: folder_with("mainstay.toml", bytes), variables: BTreeMap::new() };
    told(Config::resolve_in(&Choice::default(), &surroundings));
    told(surroundings.table("files"));
}

/// Lines `NAME=value`.
fn environment(bytes: &[u8]) {
    let variable = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let name = format!("MAINSTAY_{}", String::from_utf8_lossy(&line[..at]));
        (name != "MAINSTAY_CONFIG").then(|| (name, OsStr::from_bytes(&line[at + 1..]).to_owned()))
    };
    let variables = bytes.split(|byte| *byte == b'\n').filter_map(variable).collect();
    let surroundings = Surroundings { directory: scratch("nowhere"), variables };
    surroundings.unknown();
    told(Config::resolve_in(&Choice::default(), &surroundings));
}

fn trace(bytes: &[u8]) {
    comes_back(bytes, |bytes| {
        let mut written = Vec::new();
        let mut writer = Writer::new(&mut written);
        for record in Reader::new(bytes, "trace") {
            writer.write(&told(record)?).unwrap();
        }
        Some(written)
    });
}

//! The table `[files]` of mainstay.toml. It completes the options of the command line.

use crate::{
    arguments::{FileOptions, FileTable},
    exit::Failure,
};
use clap::{CommandFactory, Parser};
use mainstay_engine::{Surroundings, TableLine};

/// The patterns and the options. A list of the command line replaces that of the table.
pub fn completed(matches: &[String], options: &FileOptions) -> Result<(Vec<String>, FileOptions), Failure> {
    let lines = Surroundings::here().table("files")?;
    lines.iter().try_for_each(check)?;
    let words = lines.iter().flat_map(words);
    let table = FileTable::try_parse_from(words).map_err(|error| Failure::usage(message(&error)))?;
    let list = |given: &[String], table: Vec<String>| if given.is_empty() { table } else { given.to_vec() };
    let (given, table, matches) = (options, table.options, list(matches, table.matches));
    // The helper has another working directory.
    let stage = given.stage.clone().or(table.stage).map(std::path::absolute).transpose();
    let stage = stage.map_err(|e| Failure::usage(format!("--stage: {e}")))?;
    let options = FileOptions {
        exclude: list(&given.exclude, table.exclude),
        keep: given.keep.or(table.keep),
        sets: list(&given.sets, table.sets),
        count: given.count.or(table.count),
        damaged: given.damaged.or(table.damaged),
        fsync: given.fsync.or(table.fsync),
        catch: given.catch.or(table.catch),
        room: given.room.or(table.room),
        stage,
    };
    Ok((matches, options))
}

/// A line of the table, as words of the command line.
fn words(line: &TableLine) -> impl Iterator<Item = String> {
    line.values.iter().map(|value| format!("--{}={value}", line.key))
}

fn check(line: &TableLine) -> Result<(), Failure> {
    let refuse = |why: String| Failure::usage(format!("{}: {why}", line.place));
    let command = FileTable::command();
    let keys: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    if !keys.contains(&&*line.key) {
        return Err(refuse(format!("[files] has no such setting; it takes {}", keys.join(", "))));
    }
    FileTable::try_parse_from(words(line)).map(drop).map_err(|error| refuse(message(&error)))
}

/// The first line of clap's message.
fn message(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

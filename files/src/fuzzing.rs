//! The readers of foreign bytes that no public function reaches alone, for `mainstay-fuzz`.

use crate::{
    copy,
    manifest::Manifest,
    member::finished,
    options::Options,
    server::read_request,
    stage::{Id, Stage},
};
use std::{
    fs::{self, File},
    io,
    path::Path,
    time::SystemTime,
};

/// Whether the bytes are a request of a program to the helper.
pub fn is_request(bytes: &[u8]) -> bool {
    read_request(bytes).is_some()
}

/// The number of lines in an answer of the helper.
pub fn answered(bytes: &[u8]) -> usize {
    let answer = finished(bytes);
    answer.failures.len() + answer.remarks.len()
}

/// The options in a message, written again.
pub fn options(text: &str) -> String {
    Options::from_text(text).to_text()
}

/// Whether the file fits the manifest at `path`.
pub fn fits(path: &Path, file: &File) -> io::Result<bool> {
    Manifest::open(path)?.fits(file)
}

/// Writes the manifest of a file.
pub fn write_manifest(path: &Path, file: &File) -> io::Result<()> {
    let bytes = file.metadata()?.len();
    crate::manifest::write(path, Id::after(None, 1), bytes, SystemTime::UNIX_EPOCH, &copy::hash_all(file, bytes)?)
}

/// The folder with the records of a stage.
pub const RECORDS: [&str; 4] = ["records", "whole", "holders", "failed"];

/// Reads a staged file in the stage at `path`, with these bytes in place of each of its records. Returns the record, written
/// again.
pub fn record(path: &Path, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let (stage, id) = (Stage::make(Some(path))?, Id::after(None, 1));
    let paths = RECORDS.map(|folder| path.join(folder).join(id.to_string()));
    let read = paths.iter().try_for_each(|path| fs::write(path, bytes)).and_then(|()| {
        let _ = (stage.replaced(id), stage.noted_holders(id), stage.failure(id));
        let record = stage.read_record(id)?;
        stage.write_record(id, &record)?;
        fs::read(&paths[0])
    });
    paths.iter().try_for_each(fs::remove_file)?;
    read
}

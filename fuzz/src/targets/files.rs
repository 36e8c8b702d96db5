//! Restart files of unchanged programs: requests and answers, records of the stage, manifests of generations.

use crate::{Target, scratch::scratch};
use mainstay_files::fuzzing;
use mainstay_format::{HASH_BYTES, hash};
use std::fs::{self, File};

pub(super) static TARGETS: [Target; 3] = [
    Target::new("file-requests", requests, 20_000),
    Target::new("file-records", records, 3_000),
    Target::new("file-manifest", manifest, 10_000).repaired(|bytes| repair_manifest(bytes)),
];

/// The length of the file of the manifests.
pub(crate) const FILE_BYTES: usize = 3 * 4096 + 100;

fn requests(bytes: &[u8]) {
    fuzzing::is_request(bytes);
    fuzzing::answered(bytes);
    let written = fuzzing::options(&String::from_utf8_lossy(bytes));
    assert_eq!(fuzzing::options(&written), written);
}

fn records(bytes: &[u8]) {
    let path = scratch("stage");
    if let Ok(written) = fuzzing::record(&path, bytes) {
        assert_eq!(fuzzing::record(&path, &written).unwrap(), written);
    }
}

fn repair_manifest(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(HASH_BYTES) {
        let sum = hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum);
    }
}

fn manifest(bytes: &[u8]) {
    let (path, file) = (scratch("hashes"), scratch("restart"));
    fs::write(&path, bytes).unwrap();
    if !file.exists() {
        fs::write(&file, [7; FILE_BYTES]).unwrap();
    }
    drop(fuzzing::fits(&path, &File::open(file).unwrap()));
}

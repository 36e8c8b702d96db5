//! Programs: for the variables of the running one, for slots, and for the library that redirects files.

use crate::{MemoryMax, Target, scratch::scratch};
use std::{
    fs::{self, File},
    path::PathBuf,
};

pub(super) static TARGETS: [Target; 3] = [
    Target::new("variables", variables, 8_000).with_memory(MEMORY),
    Target::new("program", program, 4_000).with_memory(MEMORY),
    Target::new("preloaded", preloaded, 4_000).with_memory(MEMORY),
];

/// The first bytes of a file are read at once, and a list of addresses is stored in bits.
const MEMORY: MemoryMax = MemoryMax { fixed: 512 << 10, for_each: 64 };

fn variables(bytes: &[u8]) {
    drop(mainstay_engine::fuzzing::variables(bytes));
}

fn program(bytes: &[u8]) {
    drop(mainstay_ranks::fuzzing::program(&File::open(written(bytes)).unwrap()));
}

fn preloaded(bytes: &[u8]) {
    drop(mainstay_files::program(&written(bytes)));
}

fn written(bytes: &[u8]) -> PathBuf {
    let path = scratch("program");
    fs::write(&path, bytes).unwrap();
    path
}

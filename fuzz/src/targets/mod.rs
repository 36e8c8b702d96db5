//! All targets, a file for each family.

mod beside;
mod blocks;
mod elf;
mod files;
mod manifest;
mod messages;
pub(crate) mod pool;
mod ranks;
pub(crate) mod space;
mod wrong;

pub(crate) use files::FILE_BYTES;

use crate::Target;
use mainstay_engine::{ErrorKind, Result};

/// The readers of Mainstay.
pub fn all() -> impl Iterator<Item = &'static Target> {
    let families: [&'static [Target]; 9] = [
        &blocks::TARGETS,
        &manifest::TARGETS,
        &space::TARGETS,
        &beside::TARGETS,
        &pool::TARGETS,
        &messages::TARGETS,
        &ranks::TARGETS,
        &files::TARGETS,
        &elf::TARGETS,
    ];
    families.into_iter().flatten()
}

/// Readers that are wrong on purpose. The judge must find the fault of each.
pub fn wrong() -> impl Iterator<Item = &'static Target> {
    wrong::TARGETS.iter()
}

/// Bytes that were read and written again are read again, as the same.
fn comes_back(bytes: &[u8], read: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    if let Some(written) = read(bytes) {
        assert_eq!(read(&written), Some(written), "it changes when it is written and read again");
    }
}

/// No bytes are a fault of Mainstay.
fn told<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(|error| assert_ne!(error.kind(), ErrorKind::Internal, "{error}")).ok()
}

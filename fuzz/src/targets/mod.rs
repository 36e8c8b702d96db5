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

//! Facts of this process that a simulated world sets.

use super::world;
use std::{env, ffi::OsString, io, process};

/// Fills `bytes` with random numbers of the system.
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    match world() {
        Some(world) => {
            world.random(bytes);
            Ok(())
        }
        None => getrandom::fill(bytes).map_err(io::Error::from),
    }
}

/// The environment variable `name`.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    world().map_or_else(|| env::var_os(name), |world| world.variable(name))
}

pub(crate) fn process_id() -> u32 {
    world().map_or_else(process::id, |world| world.process_id())
}

//! The program that saves the kept spaces, and comes back from changed ones.
#![allow(unsafe_code)]

use crate::scratch::scratch;
use mainstay_engine::{Config, Region, Session};
use mainstay_format::BLOCK;

/// The program's memory: noise, numbers that compress well, and zeros.
pub(crate) struct Memory(pub(crate) [Vec<u8>; 3]);

impl Memory {
    pub(crate) fn new(blocks: usize) -> Memory {
        let mut random = fastrand::Rng::with_seed(1);
        let noise = (0..BLOCK + 700).map(|_| random.u8(..)).collect();
        Memory([noise, (0..blocks * BLOCK).map(|at| (at / 512) as u8).collect(), vec![0; 2 * BLOCK]])
    }

    pub(crate) fn protect(&mut self, session: &mut Session) -> mainstay_engine::Result<()> {
        for (name, memory) in ["noise", "field", "zeros"].into_iter().zip(&mut self.0) {
            // SAFETY: the memory lives longer than the session.
            session.protect(unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64)? })?;
        }
        Ok(())
    }
}

/// Small settings, so that files are short.
pub(crate) fn config() -> Config {
    Config {
        keep: 2,
        portion_bytes: 1 << 20,
        pool_bytes: Some(64 << 10),
        chunk_bytes: Some(16 << 10),
        pool_directory: scratch("made-pools"),
        ..Config::default()
    }
}

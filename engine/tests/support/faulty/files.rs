//! Names and contents of files, cheap to copy.

use std::{collections::BTreeMap, sync::Arc};

const BLOCK: usize = 4096;

#[derive(Clone, Default)]
pub struct Files {
    pub names: BTreeMap<String, usize>,
    contents: BTreeMap<usize, Contents>,
}

/// Missing blocks are zeros.
#[derive(Clone, Default)]
struct Contents {
    bytes: u64,
    blocks: BTreeMap<u64, Arc<[u8; BLOCK]>>,
}

impl Files {
    pub fn allocate(&mut self, file: usize, bytes: u64) {
        self.contents.insert(file, Contents { bytes, ..Contents::default() });
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.contents.keys().map(|file| *file as u64)
    }

    pub fn bytes(&self, file: usize) -> u64 {
        self.contents.get(&file).map_or(0, |contents| contents.bytes)
    }

    /// Returns the number of bytes that were read.
    pub fn read(&self, file: usize, at: u64, buffer: &mut [u8]) -> usize {
        let Some(contents) = self.contents.get(&file) else { return 0 };
        let bytes = (contents.bytes.saturating_sub(at)).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < bytes {
            let (block, from) = place(at + done as u64);
            let part = (BLOCK - from).min(bytes - done);
            match contents.blocks.get(&block) {
                Some(found) => buffer[done..done + part].copy_from_slice(&found[from..from + part]),
                None => buffer[done..done + part].fill(0),
            }
            done += part;
        }
        bytes
    }

    pub fn write(&mut self, file: usize, at: u64, bytes: &[u8]) {
        let contents = self.contents.entry(file).or_default();
        let mut done = 0;
        while done < bytes.len() {
            let (block, from) = place(at + done as u64);
            let part = (BLOCK - from).min(bytes.len() - done);
            let found = contents.blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(found)[from..from + part].copy_from_slice(&bytes[done..done + part]);
            done += part;
        }
        contents.bytes = contents.bytes.max(at + bytes.len() as u64);
    }
}

fn place(at: u64) -> (u64, usize) {
    (at / BLOCK as u64, (at % BLOCK as u64) as usize)
}

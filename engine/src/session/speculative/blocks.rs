//! The blocks of watched memory between two checkpoints: which are written, and which are saved since.
//!
//! Invariants: a block reported as written no longer counts as saved, even while its copy is under way. A block is
//! identified by its address, in whichever region.

use crate::{
    capture::{WrittenOf, page_bytes},
    predict::{Numbering, Page},
    space::format::BLOCK,
};
use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum BlockState {
    /// Not written since the checkpoint.
    #[default]
    Clean,
    /// Written, and expected to be written again.
    Dirty,
    /// Written, and in the queue of blocks to save.
    Waiting,
    /// Being saved.
    Copying,
    /// Saved, at this offset in the portion.
    Saved(u64),
}

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    address: usize,
    state: BlockState,
    /// The last look that found it written.
    look: u64,
}

#[derive(Debug, Default)]
pub(super) struct Blocks {
    numbers: Numbering,
    blocks: Vec<Block>,
    queue: VecDeque<Page>,
    /// Blocks found written since the last tick of the predictor.
    written: Vec<Page>,
    /// Number of looks that are over; `look + 1` is the one under way.
    look: u64,
    /// Blocks written since the checkpoint.
    pub(super) dirty: u64,
    /// Blocks that were saved, or being saved, and then written again.
    pub(super) wasted: u64,
}

impl Blocks {
    /// Notes the written ranges of a look.
    pub(super) fn note_written(&mut self, looked_at: &[WrittenOf]) {
        for WrittenOf { watched, written } in looked_at {
            let count = watched.len() / BLOCK;
            for range in written {
                let first = range.start.saturating_sub(watched.start) / BLOCK;
                let end = range.end.saturating_sub(watched.start).div_ceil(BLOCK).min(count);
                (first..end).for_each(|block| self.found(watched, watched.start + block * BLOCK));
            }
        }
    }

    fn found(&mut self, watched: &Range<usize>, address: usize) {
        let Some(page) = self.number(address) else { return };
        let block = &mut self.blocks[page as usize];
        if block.address != address {
            // Other memory was at this address before.
            *block = Block { address, ..Block::default() };
        }
        match std::mem::replace(&mut block.state, BlockState::Dirty) {
            BlockState::Clean => self.dirty += 1,
            BlockState::Copying | BlockState::Saved(_) => self.wasted += 1,
            BlockState::Dirty | BlockState::Waiting => {}
        }
        // A page that reaches beyond the watched range is always reported as written.
        let (page_bytes, end) = (page_bytes(), address + BLOCK);
        let is_whole = address / page_bytes * page_bytes >= watched.start
            && end.checked_next_multiple_of(page_bytes).is_some_and(|end| end <= watched.end);
        if is_whole && block.look != self.look + 1 {
            block.look = self.look + 1;
            self.written.push(page);
        }
    }

    /// The address of a block by its number.
    pub(super) fn address(&self, page: Page) -> usize {
        self.blocks.get(page as usize).map_or(0, |block| block.address)
    }

    /// The number of the block at `address`.
    fn number(&mut self, address: usize) -> Option<Page> {
        let page = self.numbers.number((address / BLOCK) as u64)?;
        if page as usize >= self.blocks.len() {
            self.blocks.resize(page as usize + 1, Block::default());
        }
        Some(page)
    }

    /// The blocks found written since the last call, each once.
    pub(super) fn take_written(&mut self) -> Vec<Page> {
        self.look += 1;
        std::mem::take(&mut self.written)
    }

    /// Queues these blocks for saving, if they were written and are not saved yet. Ignores all other numbers.
    pub(super) fn settled(&mut self, pages: &[Page]) {
        for page in pages {
            if let Some(block) = self.blocks.get_mut(*page as usize).filter(|block| block.state == BlockState::Dirty) {
                block.state = BlockState::Waiting;
                self.queue.push_back(*page);
            }
        }
    }

    /// As `settled`, for the whole blocks in `range`, in memory that begins at `start`.
    pub(super) fn settled_between(&mut self, start: usize, range: Range<usize>) {
        let (first, end) = ((range.start - start).div_ceil(BLOCK), (range.end - start) / BLOCK);
        for address in (first..end).map(|block| start + block * BLOCK) {
            let page = self.number(address);
            let is_it = |page: &Page| self.blocks[*page as usize].address == address;
            if let Some(page) = page.filter(is_it) {
                self.settled(&[page]);
            }
        }
    }

    /// Takes at most `most` waiting blocks for copying, with their addresses.
    pub(super) fn take_waiting(&mut self, most: usize) -> Vec<(Page, usize)> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(page) = self.queue.pop_front()
        {
            let block = &mut self.blocks[page as usize];
            if block.state == BlockState::Waiting {
                block.state = BlockState::Copying;
                taken.push((page, block.address));
            }
        }
        taken
    }

    /// Number of blocks that wait to be saved, or are being saved.
    pub(super) fn waiting(&self) -> u64 {
        let is_waiting = |block: &&Block| matches!(block.state, BlockState::Waiting | BlockState::Copying);
        self.blocks.iter().filter(is_waiting).count() as u64
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Notes that the block was copied and saved at offset `lies`. `None`: it could not be read.
    pub(super) fn copied(&mut self, (page, address): (Page, usize), lies: Option<u64>) {
        let block = &mut self.blocks[page as usize];
        if block.state == BlockState::Copying && block.address == address {
            block.state = lies.map_or(BlockState::Dirty, BlockState::Saved);
        }
    }

    /// The blocks that are saved and were not written since: offset in the portion by address.
    pub(super) fn saved(&self) -> HashMap<usize, u64> {
        let saved = self.blocks.iter().filter_map(|block| match block.state {
            BlockState::Saved(at) => Some((block.address, at)),
            _ => None,
        });
        let saved: HashMap<usize, u64> = saved.collect();
        let are_saved = self.blocks.iter().filter(|block| matches!(block.state, BlockState::Saved(_)));
        debug_assert_eq!(saved.len(), are_saved.count(), "two blocks have one address");
        saved
    }

    /// Empties the queue.
    pub(super) fn give_up_waiting(&mut self) {
        for page in self.queue.drain(..) {
            let block = &mut self.blocks[page as usize];
            if block.state == BlockState::Waiting {
                block.state = BlockState::Dirty;
            }
        }
    }

    /// Gives up all saved blocks, and empties the queue.
    pub(super) fn give_up(&mut self) {
        self.queue.clear();
        for block in self.blocks.iter_mut().filter(|block| block.state != BlockState::Clean) {
            block.state = BlockState::Dirty;
        }
    }

    /// Begins anew after a checkpoint: no block is written yet.
    pub(super) fn begin(&mut self) {
        self.queue.clear();
        self.written.clear();
        self.blocks.iter_mut().for_each(|block| block.state = BlockState::Clean);
        (self.dirty, self.wasted) = (0, 0);
        self.look += 1;
    }
}

//! The blocks of what is watched, between two checkpoints: which of them have been written, and which saved since.
//!
//! What must hold: a block that is told to have been written is not saved, whatever is under way with it; a block is what
//! lies at its address, whichever region that is.

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
enum State {
    #[default]
    Clean,
    Dirty,
    Waiting,
    Copying,
    /// Where it lies in the portion.
    Saved(u64),
}

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    address: usize,
    state: State,
    /// The last look that found it written.
    look: u64,
}

#[derive(Debug, Default)]
pub(super) struct Blocks {
    numbers: Numbering,
    blocks: Vec<Block>,
    queue: VecDeque<Page>,
    /// What was found written since the predictor was last told.
    written: Vec<Page>,
    look: u64,
    /// Those that were written since the checkpoint.
    pub(super) dirty: u64,
    /// Those that were saved, or just about to be, and then written.
    pub(super) wasted: u64,
}

impl Blocks {
    /// Notes what was `told`.
    pub(super) fn told(&mut self, told: &[WrittenOf]) {
        for WrittenOf { watched, written } in told {
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
            // Something else lay here.
            *block = Block { address, ..Block::default() };
        }
        match std::mem::replace(&mut block.state, State::Dirty) {
            State::Clean => self.dirty += 1,
            State::Copying | State::Saved(_) => self.wasted += 1,
            State::Dirty | State::Waiting => {}
        }
        // A page that reaches beyond what is watched is told always.
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

    /// What was found written since this was last asked, each block once.
    pub(super) fn take_written(&mut self) -> Vec<Page> {
        self.look += 1;
        std::mem::take(&mut self.written)
    }

    /// These blocks are to be saved, if they were written and are not saved yet; whatever else is named is passed over.
    pub(super) fn settled(&mut self, pages: &[Page]) {
        for page in pages {
            if let Some(block) = self.blocks.get_mut(*page as usize).filter(|block| block.state == State::Dirty) {
                block.state = State::Waiting;
                self.queue.push_back(*page);
            }
        }
    }

    /// The same of the whole blocks that lie in `range`, of memory that begins at `start`.
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

    /// Takes at most so many blocks that wait, with their addresses, to be copied.
    pub(super) fn take_waiting(&mut self, most: usize) -> Vec<(Page, usize)> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(page) = self.queue.pop_front()
        {
            let block = &mut self.blocks[page as usize];
            if block.state == State::Waiting {
                block.state = State::Copying;
                taken.push((page, block.address));
            }
        }
        taken
    }

    /// How many blocks are to be saved, or just are.
    pub(super) fn waiting(&self) -> u64 {
        let is_waiting = |block: &&Block| matches!(block.state, State::Waiting | State::Copying);
        self.blocks.iter().filter(is_waiting).count() as u64
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The block has been copied, and saved where it `lies`; `None`: it could not be read.
    pub(super) fn copied(&mut self, (page, address): (Page, usize), lies: Option<u64>) {
        let block = &mut self.blocks[page as usize];
        if block.state == State::Copying && block.address == address {
            block.state = lies.map_or(State::Dirty, State::Saved);
        }
    }

    /// The blocks that are saved and were not written since: by their addresses, where they lie.
    pub(super) fn saved(&self) -> HashMap<usize, u64> {
        let saved = self.blocks.iter().filter_map(|block| match block.state {
            State::Saved(at) => Some((block.address, at)),
            _ => None,
        });
        saved.collect()
    }

    /// Nothing waits any more.
    pub(super) fn give_up_waiting(&mut self) {
        for page in self.queue.drain(..) {
            let block = &mut self.blocks[page as usize];
            if block.state == State::Waiting {
                block.state = State::Dirty;
            }
        }
    }

    /// What was saved is lost, and nothing waits any more.
    pub(super) fn give_up(&mut self) {
        self.queue.clear();
        for block in self.blocks.iter_mut().filter(|block| block.state != State::Clean) {
            block.state = State::Dirty;
        }
    }

    /// Begins anew after a checkpoint: nothing was written yet.
    pub(super) fn begin(&mut self) {
        self.queue.clear();
        self.written.clear();
        self.blocks.iter_mut().for_each(|block| block.state = State::Clean);
        (self.dirty, self.wasted) = (0, 0);
        self.look += 1;
    }
}

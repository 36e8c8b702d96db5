//! Numbers the pages of an address space, which are far apart: each page gets the next number when it is first seen.

use super::predictor::Page;
use std::collections::HashMap;

const TOGETHER: u64 = 512;

/// The numbers of pages. Adjacent pages are looked up together.
#[derive(Debug, Default)]
pub struct Numbering {
    parts: HashMap<u64, Box<[Page; TOGETHER as usize]>>,
    count: Page,
}

const NONE: Page = Page::MAX;

impl Numbering {
    /// The number of the page at `address`, in pages. `None` if all numbers are used up.
    pub fn number(&mut self, address: u64) -> Option<Page> {
        let part = self.parts.entry(address / TOGETHER).or_insert_with(|| Box::new([NONE; TOGETHER as usize]));
        let number = &mut part[(address % TOGETHER) as usize];
        if *number == NONE {
            let next = self.count;
            self.count = next.checked_add(1)?;
            *number = next;
        }
        Some(*number)
    }

    /// The number of pages that have a number.
    pub fn count(&self) -> Page {
        self.count
    }
}

//! What a predictor is told, and what it says; what most of them remember of pages.

/// A page, by a number that grows from 0 on: what is remembered of pages lies in arrays.
pub type Page = u32;

/// A moment at which pages may be saved early, with what was written since the one before.
#[derive(Debug, Clone, Copy)]
pub struct Tick<'a> {
    /// Of the program's processor time, or of the clock, from any beginning.
    pub at_us: u64,
    /// Whether the program itself said so, at the end of an iteration: what it writes comes again from here on.
    pub is_mark: bool,
    /// Each page once.
    pub written: &'a [Page],
    /// How many pages can have been saved in the background since the tick before.
    pub capacity: u64,
}

/// Names the pages that will not be written again before the next checkpoint.
pub trait Predictor: Send {
    /// Adds the pages that are settled at `tick` to `settled`; pages that were named before may be among them.
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>);

    /// A checkpoint has been taken at the last tick: an interval ends, and the next begins.
    fn checkpoint(&mut self);
}

/// What is remembered of each page; pages that were never seen have the default.
#[derive(Debug, Default)]
pub(super) struct PerPage<T>(Vec<T>);

impl<T: Default> PerPage<T> {
    pub(super) fn at(&mut self, page: Page) -> &mut T {
        let index = page as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, T::default);
        }
        &mut self.0[index]
    }

    /// `None` of a page beyond all that were seen.
    pub(super) fn seen(&mut self, page: Page) -> Option<&mut T> {
        self.0.get_mut(page as usize)
    }
}

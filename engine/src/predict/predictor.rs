//! The interface of predictors, and the memory that most of them keep of pages.

/// The number of a page. Numbers grow from 0 on, because predictors keep arrays of pages.
pub type Page = u32;

/// A moment at which pages may be saved early, with the pages written since the moment before.
#[derive(Debug, Clone, Copy)]
pub struct Tick<'a> {
    /// The program's processor time, or the clock, from any beginning.
    pub at_us: u64,
    /// Whether the program marked this moment, as the end of an iteration: its writes repeat from here on.
    pub is_mark: bool,
    /// Each page once.
    pub written: &'a [Page],
    /// The number of pages that could be saved in the background since the tick before.
    pub capacity: u64,
}

/// Names the pages that will not be written again before the next checkpoint.
pub trait Predictor: Send {
    /// Adds the pages that are settled at `tick` to `settled`, possibly with pages that were added before.
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>);

    /// A checkpoint was taken at the last tick: an interval ends, and the next begins.
    fn checkpoint(&mut self);
}

/// The memory of each page; pages that were never seen have the default.
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

    /// `None` for a page beyond all pages seen.
    pub(super) fn seen(&mut self, page: Page) -> Option<&mut T> {
        self.0.get_mut(page as usize)
    }
}

//! What the program has changed since it was last saved, as the kernel tells it page by page.

mod pages;

pub(crate) use pages::PageTracker;

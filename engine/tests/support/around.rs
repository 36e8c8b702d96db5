//! A group with a test around each all-reduce.

use mainstay_engine::{Result, group::Group};

/// Each all-reduce goes to the test as a closure, and the test calls it.
pub struct Around<F> {
    pub group: Box<dyn Group>,
    pub around: F,
}

impl<F: Fn(&mut dyn FnMut() -> Result<()>) -> Result<()> + Send> Group for Around<F> {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn ranks_here(&self) -> usize {
        self.group.ranks_here()
    }

    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        (self.around)(&mut || self.group.all_max(values))
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.group.all_gather(mine)
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        self.group.broadcast(root, bytes)
    }
}

//! A rank with a dead view sends nothing more to the others, as a killed process does not.

use super::View;
use mainstay_engine::{
    Error, Result,
    group::{Group, ThreadGroup},
};
use std::{cell::RefCell, sync::Arc};

pub struct Mortal {
    rank: usize,
    size: usize,
    view: Arc<View>,
    group: RefCell<Option<ThreadGroup>>,
}

impl Mortal {
    pub fn new(group: ThreadGroup, view: Arc<View>) -> Mortal {
        Mortal { rank: group.rank(), size: group.size(), view, group: RefCell::new(Some(group)) }
    }

    fn alive<T>(&self, call: impl FnOnce(&ThreadGroup) -> Result<T>) -> Result<T> {
        if self.view.is_dead() {
            self.group.take();
        }
        match &*self.group.borrow() {
            Some(group) => call(group),
            None => Err(Error::GroupFailed { what: "this rank is dead".to_owned() }),
        }
    }
}

impl Group for Mortal {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn ranks_here(&self) -> usize {
        self.size
    }

    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        self.alive(|group| group.all_max(values))
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.alive(|group| group.all_gather(mine))
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        self.alive(|group| group.broadcast(root, bytes))
    }
}

//! The free blocks of a portion beside its revisions.

use super::Kept;
use crate::space::{BlockSet, free::FreeMap, pays};
use std::{cmp::Reverse, sync::Arc};

/// The free blocks of a portion beside revisions, for lists of revisions that recur while a checkpoint looks for room.
#[derive(Debug)]
pub(super) struct FreeMaps {
    from: u64,
    to: u64,
    known: Vec<(Vec<Arc<Kept>>, FreeMap)>,
    /// The free blocks beside a saved shard and all newer ones, newest first. Each list lacks one more of the oldest,
    /// as they go.
    saved: Vec<(Arc<Kept>, BlockSet)>,
}

/// Number of lists that recur in turn.
const FREE_MAPS_MAX: usize = 4;

impl FreeMaps {
    /// For a portion with the blocks `from..to`.
    pub(super) fn new((from, to): (u64, u64)) -> FreeMaps {
        FreeMaps { from, to, known: Vec::new(), saved: Vec::new() }
    }

    pub(super) fn beside<'a>(&mut self, kept: impl Iterator<Item = &'a Arc<Kept>>) -> FreeMap {
        let mut list: Vec<Arc<Kept>> = Vec::new();
        for kept in kept {
            if !list.iter().any(|other| Arc::ptr_eq(other, kept)) {
                list.push(kept.clone());
            }
        }
        list.sort_by_key(Arc::as_ptr);
        // A list keeps its revisions alive, so no other can get the same address.
        let is_it =
            |(known, _): &(Vec<Arc<Kept>>, FreeMap)| known.iter().map(Arc::as_ptr).eq(list.iter().map(Arc::as_ptr));
        if let Some(index) = self.known.iter().position(is_it) {
            self.known[index..].rotate_left(1);
        } else {
            let free = self.free_beside(&list);
            if self.known.len() == FREE_MAPS_MAX {
                self.known.remove(0);
            }
            self.known.push((list, free));
        }
        self.known.last().expect("just put there").1.clone()
    }

    fn free_beside(&mut self, list: &[Arc<Kept>]) -> FreeMap {
        let range = self.from..self.to;
        let are_listed = list.iter().all(|kept| kept.is_listed());
        if are_listed && !pays(list.iter().map(|kept| kept.blocks.len()).sum(), range.clone()) {
            return FreeMap::new(range.start, range.end, list.iter().flat_map(|kept| kept.blocks.iter().copied()));
        }
        let (imagined, mut saved): (Vec<_>, Vec<_>) = list.iter().partition(|kept| kept.is_imagined());
        saved.sort_by_key(|kept| Reverse(kept.key()));
        let known = self.saved.iter().zip(&saved).take_while(|((known, _), kept)| Arc::ptr_eq(known, kept)).count();
        if known < saved.len() {
            self.saved.truncate(known);
        }
        for kept in &saved[known..] {
            let mut free = self.saved.last().map_or_else(|| BlockSet::all(range.clone()), |(_, free)| free.clone());
            kept.take_from(&mut free, range.clone());
            self.saved.push(((*kept).clone(), free));
        }
        let last = saved.len().checked_sub(1).map(|last| self.saved[last].1.clone());
        let mut free = last.unwrap_or_else(|| BlockSet::all(range.clone()));
        imagined.iter().for_each(|kept| kept.take_from(&mut free, range.clone()));
        FreeMap::of(free)
    }
}

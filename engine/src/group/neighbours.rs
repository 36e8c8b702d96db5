//! Which ranks see the same directory. Found by looking, not by comparing host names: a directory may be local to each
//! node, or shared by all.
//!
//! A *mark* is a file that a rank makes for an instant, for the others to see. It takes two looks, however many ranks
//! and nodes there are: all look for the mark of rank 0, and unless everyone sees it, each makes one and lists those that
//! it sees. No rank asks the others what they see: a list is no longer than the ranks that share the directory.

use super::{Group, agree};
use crate::error::Result;

/// A directory in which ranks leave marks.
pub(crate) trait Place {
    /// A mark that this rank has made.
    type Mark;
    /// Makes the mark of this rank.
    fn mark(&self, rank: usize) -> Result<Self::Mark>;
    /// Whether the mark of `rank` is there. A mark that is there and cannot be opened is an error.
    fn sees(&self, rank: usize) -> Result<bool>;
    /// Ranks whose marks are there, in any order.
    fn list(&self) -> Result<Vec<usize>>;
    /// Removes a mark. That it is gone is none.
    fn remove(&self, mark: Self::Mark) -> Result<()>;
}

/// The ranks that see the same as this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neighbours {
    /// Ascending; this rank is among them.
    ranks: Vec<usize>,
}

impl Neighbours {
    /// Errors: the same on all ranks, if a mark cannot be made, looked for or removed. Collective.
    pub(crate) fn find(group: &dyn Group, place: &impl Place) -> Result<Neighbours> {
        let mut mark = None;
        let found = look(group, place, &mut mark);
        // Everyone has looked, or knows that somebody could not.
        let removed = mark.map_or(Ok(()), |mark| place.remove(mark));
        let ranks = found?;
        agree(group, removed)?;
        Ok(Neighbours { ranks })
    }

    /// The lowest of them.
    pub(crate) fn leader(&self) -> usize {
        self.ranks[0]
    }

    pub(crate) fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    pub(crate) fn contains(&self, rank: usize) -> bool {
        self.ranks.binary_search(&rank).is_ok()
    }

    /// How many of them are lower than `rank`.
    pub(crate) fn index_of(&self, rank: usize) -> usize {
        self.ranks.partition_point(|other| *other < rank)
    }

    /// In parts of at most `most`, the one that `rank` is in.
    pub(crate) fn part_of(&self, rank: usize, most: usize) -> Neighbours {
        let parts = self.ranks.chunks(most.max(1));
        Neighbours { ranks: parts.filter(|part| part.contains(&rank)).flatten().copied().collect() }
    }
}

/// The ranks that see what this one sees; `mark`: its own, if it has made one.
fn look<P: Place>(group: &dyn Group, place: &P, mark: &mut Option<P::Mark>) -> Result<Vec<usize>> {
    const FIRST: usize = 0;
    let (rank, size) = (group.rank(), group.size());
    // Kept whatever the others say: it has to go again.
    let mut make = |makes: bool| if makes { place.mark(rank).map(|made| *mark = Some(made)) } else { Ok(()) };
    agree(group, make(rank == FIRST))?;
    let sees = agree(group, if rank == FIRST { Ok(true) } else { place.sees(FIRST) })?;
    let mut unseen = [u64::from(!sees)];
    group.all_max(&mut unseen)?;
    if unseen[0] == 0 {
        return Ok((0..size).collect());
    }
    agree(group, make(rank != FIRST))?;
    agree(group, seen(place, rank, size))
}

/// Whose marks are there; this rank's own, if somebody took it away meanwhile, all the same.
fn seen(place: &impl Place, rank: usize, size: usize) -> Result<Vec<usize>> {
    let mut ranks = place.list()?;
    ranks.retain(|other| *other < size && *other != rank);
    ranks.push(rank);
    ranks.sort_unstable();
    ranks.dedup();
    // One that is listed and cannot be opened is an error on all ranks, not another node.
    if ranks[0] != rank {
        place.sees(ranks[0])?;
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::{Error, ErrorKind},
        group::ThreadGroup,
    };
    use std::{
        cell::Cell,
        collections::BTreeSet,
        sync::{Mutex, MutexGuard},
        thread,
    };

    /// The marks of all directories, by directory and rank.
    type Marks = Mutex<BTreeSet<(usize, usize)>>;

    /// A rank's view: it is in one directory.
    struct Seat<'a> {
        marks: &'a Marks,
        directory: usize,
        made: Cell<usize>,
        is_full: bool,
        removes: bool,
    }

    impl Seat<'_> {
        fn marks(&self) -> MutexGuard<'_, BTreeSet<(usize, usize)>> {
            self.marks.lock().unwrap()
        }
    }

    impl Place for Seat<'_> {
        type Mark = (usize, usize);

        fn mark(&self, rank: usize) -> Result<(usize, usize)> {
            if self.is_full {
                return Err(Error::argument("directory", "it is full"));
            }
            self.made.set(self.made.get() + 1);
            assert!(self.marks().insert((self.directory, rank)), "one mark a rank");
            Ok((self.directory, rank))
        }

        fn sees(&self, rank: usize) -> Result<bool> {
            Ok(self.marks().contains(&(self.directory, rank)))
        }

        fn list(&self) -> Result<Vec<usize>> {
            Ok(self.marks().iter().rev().filter(|mark| mark.0 == self.directory).map(|mark| mark.1).collect())
        }

        fn remove(&self, mark: (usize, usize)) -> Result<()> {
            assert!(self.marks().remove(&mark));
            if self.removes { Ok(()) } else { Err(Error::argument("directory", "it keeps the mark")) }
        }
    }

    /// Counts what the ranks tell each other.
    struct Counted {
        group: ThreadGroup,
        calls: Cell<usize>,
    }

    impl Group for Counted {
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
            self.calls.set(self.calls.get() + 1);
            self.group.all_max(values)
        }
        fn all_gather(&self, _mine: &[u8]) -> Result<Vec<Vec<u8>>> {
            panic!("what all ranks tell all others grows with the square of them");
        }
        fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
            self.group.broadcast(root, bytes)
        }
        fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
            self.group.send(to, bytes)
        }
        fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
            self.group.receive(from, into)
        }
    }

    struct Found {
        neighbours: Result<Neighbours>,
        calls: usize,
        made: usize,
    }

    /// What each rank finds, given its directory; `full`: where no mark can be made; `kept`: by whom none is removed.
    fn find(directories: &[usize], full: Option<usize>, kept: Option<usize>) -> Vec<Found> {
        let marks = Marks::default();
        let found = thread::scope(|scope| {
            let ranks: Vec<_> = ThreadGroup::new(directories.len())
                .into_iter()
                .zip(directories)
                .map(|(group, &directory)| {
                    let marks = &marks;
                    scope.spawn(move || {
                        let (is_full, removes) = (full == Some(directory), kept != Some(group.rank()));
                        let seat = Seat { marks, directory, made: Cell::new(0), is_full, removes };
                        let group = Counted { group, calls: Cell::new(0) };
                        let neighbours = Neighbours::find(&group, &seat);
                        let found = Found { neighbours, calls: group.calls.get(), made: seat.made.get() };
                        // Nobody leaves before all have come to their end.
                        let _ = group.group.all_max(&mut []);
                        found
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert!(marks.into_inner().unwrap().is_empty(), "no mark stays");
        found
    }

    #[test]
    fn those_in_one_directory_find_each_other() {
        for directories in [vec![0], vec![0; 5], vec![0, 1], vec![0, 0, 1, 1], vec![3, 1, 2, 1, 3, 1, 0]] {
            for (rank, found) in find(&directories, None, None).into_iter().enumerate() {
                let alike = (0..directories.len()).filter(|other| directories[*other] == directories[rank]);
                assert_eq!(
                    found.neighbours.unwrap().ranks,
                    alike.collect::<Vec<_>>(),
                    "rank {rank} of {directories:?}"
                );
            }
        }
    }

    #[test]
    fn where_all_see_the_same_one_mark_does() {
        let made: Vec<usize> = find(&[7; 6], None, None).into_iter().map(|found| found.made).collect();
        assert_eq!(made, [1, 0, 0, 0, 0, 0]);
    }

    /// There was a round for each node.
    #[test]
    fn how_often_ranks_talk_does_not_grow_with_the_nodes() {
        let calls = |nodes: usize| {
            let directories: Vec<usize> = (0..2 * nodes).map(|rank| rank % nodes).collect();
            find(&directories, None, None).into_iter().map(|found| found.calls).max()
        };
        assert_eq!(calls(2), Some(6));
        assert_eq!(calls(48), Some(6));
    }

    #[test]
    fn a_mark_that_cannot_be_made_is_told_to_all() {
        for full in [0, 1] {
            for found in find(&[0, 0, 1, 2], Some(full), None) {
                assert_eq!(found.neighbours.unwrap_err().kind(), ErrorKind::InvalidArgument);
            }
        }
    }

    #[test]
    fn a_mark_that_stays_is_told_to_all() {
        for (directories, kept) in [([0, 0, 0], 0), ([0, 1, 1], 2)] {
            for found in find(&directories, None, Some(kept)) {
                assert_eq!(found.neighbours.unwrap_err().kind(), ErrorKind::InvalidArgument);
            }
        }
    }

    #[test]
    fn a_part_is_that_of_the_rank() {
        let all = Neighbours { ranks: vec![1, 3, 4, 8, 9] };
        let part = |rank, most| all.part_of(rank, most).ranks;
        assert_eq!([part(1, 2), part(4, 2), part(9, 2)], [vec![1, 3], vec![4, 8], vec![9]]);
        assert_eq!([part(3, 0), part(3, 5)], [vec![3], vec![1, 3, 4, 8, 9]]);
        assert_eq!([1, 4, 9].map(|rank| all.index_of(rank)), [0, 2, 4]);
    }
}

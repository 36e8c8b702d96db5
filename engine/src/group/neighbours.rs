//! Finds the ranks that see the same directory. Ranks look instead of comparing host names, because a directory may be
//! local to each node, or shared by all.
//!
//! A *mark* is a file that a rank makes for a moment, for the others to see. Two looks suffice for any number of ranks
//! and nodes. First, all ranks look for the mark of rank 0. Unless every rank sees it, each makes a mark and lists the
//! marks that it sees. Ranks do not exchange these lists; a list has only the ranks that share the directory. If a
//! directory has no room for so many marks, the ranks make them one by one.

use super::{Group, agree};
use crate::error::{Error, ErrorKind, Result};

/// A directory in which ranks leave marks.
pub(crate) trait Place {
    /// A mark that this rank has made.
    type Mark;
    /// Makes the mark of this rank.
    fn mark(&self, rank: usize) -> Result<Self::Mark>;
    /// Whether the mark of `rank` exists. An error if it exists but cannot be opened.
    fn sees(&self, rank: usize) -> Result<bool>;
    /// The ranks with marks, in any order.
    fn list(&self) -> Result<Vec<usize>>;
    /// Removes a mark. A missing mark is not an error.
    fn remove(&self, mark: Self::Mark) -> Result<()>;
    /// The error if the mark of `rank` is gone although `rank` has not removed it. Ranks that looked then saw too
    /// little.
    fn gone(&self, rank: usize) -> Error;
}

/// The ranks that see the same directory as this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neighbours {
    /// The ranks in ascending order, including this one.
    ranks: Vec<usize>,
}

impl Neighbours {
    /// Finds the neighbours of this rank. An error is the same on all ranks: a mark cannot be made, found or removed,
    /// or has disappeared. Collective.
    pub(crate) fn find(group: &dyn Group, place: &impl Place) -> Result<Neighbours> {
        let mut mark = None;
        let found = look(group, place, &mut mark);
        // Every rank has looked by now, or knows that one could not.
        let removed = mark.map_or(Ok(()), |mark| place.remove(mark));
        let ranks = found?;
        agree(group, removed)?;
        Ok(Neighbours { ranks })
    }

    /// The lowest of these ranks.
    pub(crate) fn leader(&self) -> usize {
        self.ranks[0]
    }

    pub(crate) fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    pub(crate) fn contains(&self, rank: usize) -> bool {
        self.ranks.binary_search(&rank).is_ok()
    }

    /// The number of these ranks that are lower than `rank`.
    pub(crate) fn index_of(&self, rank: usize) -> usize {
        self.ranks.partition_point(|other| *other < rank)
    }

    /// Splits these ranks into parts of at most `most`; returns the part with `rank`.
    pub(crate) fn part_of(&self, rank: usize, most: usize) -> Neighbours {
        let parts = self.ranks.chunks(most.max(1));
        Neighbours { ranks: parts.filter(|part| part.contains(&rank)).flatten().copied().collect() }
    }
}

/// The ranks that see this rank's directory. `mark` gets this rank's own mark, if it has made one.
fn look<P: Place>(group: &dyn Group, place: &P, mark: &mut Option<P::Mark>) -> Result<Vec<usize>> {
    const FIRST: usize = 0;
    let (rank, size) = (group.rank(), group.size());
    if size == 1 {
        // There are no other ranks, so no mark is needed.
        return Ok(vec![rank]);
    }
    // The mark is kept whatever the others report, because it must be removed again.
    let mut make = |makes: bool| if makes { place.mark(rank).map(|made| *mark = Some(made)) } else { Ok(()) };
    agree(group, make(rank == FIRST))?;
    let sees = agree(group, if rank == FIRST { Ok(true) } else { place.sees(FIRST) })?;
    let mut unseen = [u64::from(!sees)];
    group.all_max(&mut unseen)?;
    if unseen[0] == 0 {
        return Ok((0..size).collect());
    }
    let made = make(rank != FIRST);
    let mut full = [u64::from(made.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull))];
    group.all_max(&mut full)?;
    if full[0] > 0 {
        return one_by_one(group, place, mark);
    }
    agree(group, made)?;
    agree(group, seen(place, rank, size))
}

/// The ranks with marks in the directory, including this rank.
fn seen(place: &impl Place, rank: usize, size: usize) -> Result<Vec<usize>> {
    let mut ranks = place.list()?;
    ranks.retain(|other| *other < size);
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.binary_search(&rank).is_err() {
        return Err(place.gone(rank));
    }
    // A mark that is listed but cannot be opened is an error on all ranks, not another node.
    if ranks[0] != rank {
        place.sees(ranks[0])?;
    }
    Ok(ranks)
}

/// Like `look`, with one mark at a time: that of the lowest rank that no other has seen yet. It takes a round for each
/// directory.
fn one_by_one<P: Place>(group: &dyn Group, place: &P, mark: &mut Option<P::Mark>) -> Result<Vec<usize>> {
    let (rank, size) = (group.rank(), group.size());
    let remove = |mark: &mut Option<P::Mark>| agree(group, mark.take().map_or(Ok(()), |mark| place.remove(mark)));
    remove(mark)?;
    let mut leader = None;
    loop {
        let mut waiting = [if leader.is_none() { (size - rank) as u64 } else { 0 }];
        group.all_max(&mut waiting)?;
        if waiting[0] == 0 {
            break;
        }
        let first = size - waiting[0] as usize;
        let made = if rank == first { place.mark(rank).map(|made| *mark = Some(made)) } else { Ok(()) };
        agree(group, made)?;
        let sees = match leader {
            None => place.sees(first),
            Some(_) => Ok(false),
        };
        let is_kept = |sees: bool| if sees || rank != first { Ok(sees) } else { Err(place.gone(rank)) };
        if agree(group, sees.and_then(is_kept))? {
            leader = Some(first);
        }
        remove(mark)?;
    }
    let mut leaders = vec![0; size];
    leaders[rank] = leader.map_or(0, |leader| leader as u64);
    group.all_max(&mut leaders)?;
    Ok((0..size).filter(|other| leaders[*other] == leaders[rank]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::ThreadGroup;
    use std::{
        cell::Cell,
        collections::BTreeSet,
        io,
        sync::{Mutex, MutexGuard},
        thread,
    };

    /// The marks of all directories, by directory and rank.
    type Marks = Mutex<BTreeSet<(usize, usize)>>;

    /// A rank's view of its directory.
    struct Seat<'a> {
        marks: &'a Marks,
        directory: usize,
        made: Cell<usize>,
        /// The number of marks for which the directory has room.
        room: usize,
        removes: bool,
        /// Whether this rank's mark disappears as soon as it is made.
        is_robbed: bool,
    }

    impl Seat<'_> {
        fn marks(&self) -> MutexGuard<'_, BTreeSet<(usize, usize)>> {
            self.marks.lock().unwrap()
        }
    }

    impl Place for Seat<'_> {
        type Mark = (usize, usize);

        fn mark(&self, rank: usize) -> Result<(usize, usize)> {
            let mut marks = self.marks();
            if marks.iter().filter(|mark| mark.0 == self.directory).count() >= self.room {
                return Err(Error::io("making", "a mark", io::Error::from_raw_os_error(libc::ENOSPC)));
            }
            self.made.set(self.made.get() + 1);
            assert!(self.is_robbed || marks.insert((self.directory, rank)), "one mark a rank");
            Ok((self.directory, rank))
        }

        fn sees(&self, rank: usize) -> Result<bool> {
            Ok(self.marks().contains(&(self.directory, rank)))
        }

        fn list(&self) -> Result<Vec<usize>> {
            Ok(self.marks().iter().rev().filter(|mark| mark.0 == self.directory).map(|mark| mark.1).collect())
        }

        fn remove(&self, mark: (usize, usize)) -> Result<()> {
            assert!(self.marks().remove(&mark) || self.is_robbed);
            if self.removes { Ok(()) } else { Err(Error::argument("directory", "it keeps the mark")) }
        }

        fn gone(&self, rank: usize) -> Error {
            Error::InUse { path: "directory".to_owned(), holder: format!(": the mark of rank {rank} is gone") }
        }
    }

    /// Counts the messages between ranks.
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
            panic!("data from all ranks to all others grows with the square of their number");
        }
        fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
            self.group.broadcast(root, bytes)
        }
    }

    struct Met {
        neighbours: Result<Neighbours>,
        calls: usize,
        made: usize,
    }

    /// Unusual directories.
    #[derive(Clone, Copy)]
    struct Odd {
        /// A directory with room for only so many marks.
        tight: Option<(usize, usize)>,
        /// A rank that does not remove its mark.
        keeps: Option<usize>,
        /// A rank that loses its mark.
        robbed: Option<usize>,
    }

    const NONE: Odd = Odd { tight: None, keeps: None, robbed: None };

    /// The result of each rank in its directory.
    fn find(directories: &[usize], odd: Odd) -> Vec<Met> {
        let marks = Marks::default();
        let found = thread::scope(|scope| {
            let ranks: Vec<_> = ThreadGroup::new(directories.len())
                .into_iter()
                .zip(directories)
                .map(|(group, &directory)| {
                    let marks = &marks;
                    scope.spawn(move || {
                        let room = odd.tight.filter(|tight| tight.0 == directory).map_or(usize::MAX, |tight| tight.1);
                        let [removes, is_robbed] = [odd.keeps != Some(group.rank()), odd.robbed == Some(group.rank())];
                        let seat = Seat { marks, directory, made: Cell::new(0), room, removes, is_robbed };
                        let group = Counted { group, calls: Cell::new(0) };
                        let neighbours = Neighbours::find(&group, &seat);
                        let found = Met { neighbours, calls: group.calls.get(), made: seat.made.get() };
                        // No rank leaves before all are done.
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

    const SPREAD: [&[usize]; 5] = [&[0], &[0; 5], &[0, 1], &[0, 0, 1, 1], &[3, 1, 2, 1, 3, 1, 0]];

    fn find_each_other(directories: &[usize], odd: Odd) {
        for (rank, found) in find(directories, odd).into_iter().enumerate() {
            let alike = (0..directories.len()).filter(|other| directories[*other] == directories[rank]);
            let alike: Vec<usize> = alike.collect();
            assert_eq!(found.neighbours.unwrap().ranks, alike, "rank {rank} of {directories:?}");
        }
    }

    #[test]
    fn those_in_one_directory_find_each_other() {
        SPREAD.into_iter().for_each(|directories| find_each_other(directories, NONE));
    }

    /// Story: all ranks of a node made their marks at once, and the start failed on a full disk with room for one
    /// mark.
    #[test]
    fn room_for_one_mark_is_enough() {
        for directories in SPREAD {
            for tight in directories {
                find_each_other(directories, Odd { tight: Some((*tight, 1)), ..NONE });
            }
        }
    }

    #[test]
    fn where_all_see_the_same_one_mark_does() {
        let made: Vec<usize> = find(&[7; 6], NONE).into_iter().map(|found| found.made).collect();
        assert_eq!(made, [1, 0, 0, 0, 0, 0]);
    }

    /// Story: finding the neighbours took a round for each node.
    #[test]
    fn how_often_ranks_talk_does_not_grow_with_the_nodes() {
        let calls = |nodes: usize| {
            let directories: Vec<usize> = (0..2 * nodes).map(|rank| rank % nodes).collect();
            find(&directories, NONE).into_iter().map(|found| found.calls).max()
        };
        assert_eq!(calls(2), Some(7));
        assert_eq!(calls(48), Some(7));
    }

    fn all_are_told(directories: &[usize], odd: Odd, kind: ErrorKind) {
        for found in find(directories, odd) {
            assert_eq!(found.neighbours.unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn a_mark_that_cannot_be_made_is_told_to_all() {
        for full in [0, 1] {
            all_are_told(&[0, 0, 1, 2], Odd { tight: Some((full, 0)), ..NONE }, ErrorKind::DiskFull);
        }
    }

    #[test]
    fn a_mark_that_stays_is_told_to_all() {
        for (directories, kept) in [([0, 0, 0], 0), ([0, 1, 1], 2)] {
            all_are_told(&directories, Odd { keeps: Some(kept), ..NONE }, ErrorKind::InvalidArgument);
        }
    }

    /// Story: a job that opens the space removes the marks of others. A rank without its mark was then taken for one of
    /// another node, by itself and the other ranks.
    #[test]
    fn a_mark_that_is_gone_is_told_to_all() {
        for robbed in 0..4 {
            all_are_told(&[0, 1, 0, 1], Odd { robbed: Some(robbed), ..NONE }, ErrorKind::InUse);
            all_are_told(
                &[0, 1, 0, 1],
                Odd { robbed: Some(robbed & 1), tight: Some((1, 1)), ..NONE },
                ErrorKind::InUse,
            );
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

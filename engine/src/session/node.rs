//! The node: the ranks that share a pool. Ranks find each other by marks in the pool directory instead of comparing
//! host names: ranks of one node see each other's marks. `MAINSTAY_NODE` separates ranks that see each other's marks
//! but are to count as different nodes.
//!
//! Invariant: the ranks of a node compute the same id and open the same pool.

use crate::{
    config::Config,
    error::{Error, ErrorKind, Result},
    ground::variable,
    group::{Group, Neighbours, Place, agree},
    pool::{self, Mark, Pool, Shape, ceiling, is_in_sight, mark_gone},
    space::format::{BLOCK_BYTES, hash},
};
use std::{os::unix::ffi::OsStrExt, path::Path};

/// Number of attempts to find the nodes, if another process removes marks.
const TRIES: u32 = 3;

pub(super) struct Node {
    here: Neighbours,
    /// The id of the node's pool.
    id: [u8; 16],
}

impl Node {
    /// `id` is drawn for this search, the same on all ranks. Collective.
    pub(super) fn find(group: &dyn Group, config: &Config, id: [u8; 16]) -> Result<Node> {
        let marked = Marked::of(group, config, id);
        // At most as many ranks share a pool as the group counts on this node.
        let here = marked.find(group)?.part_of(group.rank(), ranks_here(group));
        Ok(Node { id: hash(&[b"pool", &marked.id_of(here.leader())[..]].concat()), here })
    }

    pub(super) fn leader(&self) -> usize {
        self.here.leader()
    }

    /// Makes the pool of the node, at first with only its tables. It never gets chunks unless `with_chunks`.
    /// Collective.
    pub(super) fn make_pool(&self, group: &dyn Group, config: &Config, with_chunks: bool) -> Result<Pool> {
        let (directory, rank) = (&config.pool_directory, group.rank());
        let leads = rank == self.leader();
        let shape = || match with_chunks {
            true => shape(config, self.here.ranks().len()),
            false => Shape::of_tables(self.here.ranks().len()),
        };
        let made = agree(group, leads.then(|| Pool::create(directory, self.id, &shape())).transpose())?;
        let joined = made.map_or_else(|| Pool::join(directory, self.id, self.here.index_of(rank) as u32), Ok);
        agree(group, joined)
    }
}

/// A directory of pools in which ranks leave marks. Only ranks with the same label see each other's marks.
struct Marked<'a> {
    directory: &'a Path,
    /// The common beginning of the ids of these ranks' marks.
    begin: [u8; 12],
}

fn ranks_here(group: &dyn Group) -> usize {
    group.ranks_here().max(1)
}

impl Marked<'_> {
    fn of<'a>(group: &dyn Group, config: &'a Config, id: [u8; 16]) -> Marked<'a> {
        let label = variable("MAINSTAY_NODE").unwrap_or_default();
        let node = hash(&[&id, &(ranks_here(group) as u64).to_le_bytes()[..], label.as_bytes()].concat());
        Marked { directory: &config.pool_directory, begin: std::array::from_fn(|byte| node[byte]) }
    }

    fn id_of(&self, rank: usize) -> [u8; 16] {
        let mut id = [0; 16];
        id[..12].copy_from_slice(&self.begin);
        id[12..].copy_from_slice(&(rank as u32).to_be_bytes());
        id
    }

    /// The ranks with marks that this rank sees.
    ///
    /// A process that cleans up a mark without a lock may remove the new mark made in its place. So the search is
    /// repeated if missing marks are the only error. Collective.
    fn find(&self, group: &dyn Group) -> Result<Neighbours> {
        let mut tried = 1;
        loop {
            let error = match Neighbours::find(group, self) {
                Err(error) if tried < TRIES => error,
                found => return found,
            };
            // All ranks have failed, but each may have another reason.
            let mut other = [u64::from(error.kind() != ErrorKind::Damaged)];
            group.all_max(&mut other)?;
            if other == [1] {
                return Err(error);
            }
            tried += 1;
        }
    }

    fn rank_of(&self, id: [u8; 16]) -> Option<usize> {
        let rank = id.strip_prefix(&self.begin)?;
        Some(u32::from_be_bytes(rank.try_into().ok()?) as usize)
    }
}

impl Place for Marked<'_> {
    type Mark = Mark;

    fn mark(&self, rank: usize) -> Result<Mark> {
        Mark::make(self.directory, self.id_of(rank))
    }

    /// A mark that cannot be opened does not count, because a pool could not be opened either.
    fn sees(&self, rank: usize) -> Result<bool> {
        Ok(is_in_sight(self.directory, self.id_of(rank)))
    }

    fn list(&self) -> Result<Vec<usize>> {
        Ok(pool::list(self.directory)?.into_iter().filter_map(|found| self.rank_of(found.id)).collect())
    }

    fn remove(&self, mark: Mark) -> Result<()> {
        mark.remove()
    }

    fn gone(&self, rank: usize) -> Error {
        mark_gone(self.directory, self.id_of(rank))
    }
}

fn shape(config: &Config, members: usize) -> Shape {
    let bytes = config.pool_bytes.unwrap_or_else(|| ceiling(&config.pool_directory));
    let suits = config.chunk_bytes.unwrap_or_else(|| chunk_bytes_for(bytes, members));
    let grows = config.pool_bytes.is_none();
    let is_fixed = !grows || config.chunk_bytes.is_some();
    Shape {
        bytes,
        grows,
        chunk_bytes: if is_fixed { suits } else { suits.min(CHUNK_LEAST) },
        chunk_bytes_max: suits,
        members: members as u32,
        held: config.pool_held,
        writes_max: config.writes_at_once(),
    }
}

/// The smallest chunk. Smaller writes cost more than the room that they save is worth.
const CHUNK_LEAST: u64 = 256 << 10;

/// The default chunk size: the published one (000), or the power of two that gives each rank two chunks.
///
/// A rank's last chunk is seldom full, and its rest is wasted. With large chunks, ranks wait although the pool is
/// larger than all their data.
fn chunk_bytes_for(pool_bytes: u64, ranks: usize) -> u64 {
    const PUBLISHED: u64 = 4 << 20;
    let share = (pool_bytes / (2 * ranks as u64)).clamp(CHUNK_LEAST, PUBLISHED);
    // Even a tiny pool has one chunk to fill while another is written.
    (1 << share.ilog2()).min(pool_bytes / 2 / BLOCK_BYTES * BLOCK_BYTES).max(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::ThreadGroup;
    use std::{cell::Cell, fs, thread};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn the_pool_has_two_chunks_for_each_rank_where_none_are_set() {
        let found = [
            (64 * MIB, 1, 4 * MIB),
            (64 * MIB, 8, 4 * MIB),
            (64 * MIB, 9, 2 * MIB),
            (64 * MIB - 1, 8, 2 * MIB),
            (64 * MIB, 64, 512 * KIB),
            (64 * MIB, 1000, 256 * KIB),
            (80_000_000, 32, MIB),
            (1 << 40, 64, 4 * MIB),
            (u64::MAX, 1, 4 * MIB),
            // The pool has less than two of the smallest chunks for each rank.
            (512 * KIB, 4, 256 * KIB),
            (300 * KIB, 1, 148 * KIB),
            (2 * BLOCK_BYTES, 3, BLOCK_BYTES),
            (3 * BLOCK_BYTES + 1, 1, BLOCK_BYTES),
        ];
        for (pool_bytes, ranks, expected) in found {
            assert_eq!(chunk_bytes_for(pool_bytes, ranks), expected, "{ranks} ranks, a pool of {pool_bytes} bytes");
        }
    }

    /// A mark and the pool had the same name, so a leftover mark kept the pool from being made.
    #[test]
    fn a_pool_has_a_name_of_its_own_beside_the_marks() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let config = Config { pool_directory: folder.path().into(), pool_bytes: Some(MIB), ..Config::default() };
        let (group, id) = (crate::group::Solo, [7; 16]);
        let node = Node::find(&group, &config, id).unwrap();
        let marked = Marked::of(&group, &config, id);
        let mark = marked.mark(0).unwrap();
        let pool = node.make_pool(&group, &config, true).unwrap();
        marked.remove(mark).unwrap();
        assert!(pool::path(folder.path(), pool.id()).exists());
    }

    /// A group that calls `meddle` after each of the first `times` collectives.
    struct Meddling<'a> {
        group: ThreadGroup,
        meddle: &'a (dyn Fn() + Sync),
        times: Cell<u32>,
    }

    impl Group for Meddling<'_> {
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
            self.group.all_max(values)?;
            if self.times.get() > 0 {
                self.times.set(self.times.get() - 1);
                (self.meddle)();
            }
            Ok(())
        }
        fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
            self.group.all_gather(mine)
        }
        fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
            self.group.broadcast(root, bytes)
        }
    }

    /// The ranks or the error that two ranks on two nodes find. The directory of the first rank is cleared `times`
    /// times. If `replaced`, the second rank's directory becomes a file once its mark is there.
    fn found_beside_a_cleaner(times: u32, replaced: bool) -> [std::result::Result<Vec<usize>, ErrorKind>; 2] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let directories = ["cleared", "second"].map(|name| folder.path().join(name));
        directories.iter().for_each(|directory| fs::create_dir(directory).unwrap());
        let clear = || {
            let marks = fs::read_dir(&directories[0]).unwrap().map(|entry| entry.unwrap().path());
            marks.for_each(|mark| drop(fs::remove_file(mark)));
        };
        let replace = || {
            if replaced && fs::read_dir(&directories[1]).is_ok_and(|marks| marks.count() > 0) {
                fs::remove_dir_all(&directories[1]).unwrap();
                fs::write(&directories[1], "").unwrap();
            }
        };
        let meddles: [&(dyn Fn() + Sync); 2] = [&clear, &replace];
        let mut groups = ThreadGroup::new(2).into_iter();
        let found = thread::scope(|scope| {
            let ranks = [0, 1].map(|rank| {
                let (group, directory) = (groups.next().unwrap(), &directories[rank]);
                scope.spawn(move || {
                    let times = Cell::new(if rank == 0 { times } else { u32::MAX });
                    let group = Meddling { group, meddle: meddles[rank], times };
                    let marked = Marked { directory, begin: [7; 12] };
                    let found = marked.find(&group).map(|here| here.ranks().to_vec()).map_err(|error| error.kind());
                    // Neither rank leaves before the other has finished.
                    let _ = group.group.all_max(&mut []);
                    found
                })
            });
            ranks.map(|rank| rank.join().unwrap())
        });
        assert!(directories.iter().all(|left| fs::read_dir(left).map_or(true, |mut left| left.next().is_none())));
        found
    }

    /// A failed attempt takes seven collectives.
    #[test]
    fn a_mark_that_is_cleared_away_now_and_then_is_made_again() {
        let [first, second] = found_beside_a_cleaner(12, false);
        assert_eq!((first, second), (Ok(vec![0]), Ok(vec![1])));
        let [first, second] = found_beside_a_cleaner(u32::MAX, false);
        assert_eq!((first, second), (Err(ErrorKind::Damaged), Err(ErrorKind::Damaged)));
    }

    /// The rank without a mark tried again, and waited for the other rank, which had given up.
    #[test]
    fn where_another_rank_has_failed_for_another_reason_all_give_up() {
        let [first, second] = found_beside_a_cleaner(u32::MAX, true);
        assert_eq!((first, second), (Err(ErrorKind::Damaged), Err(ErrorKind::Io)));
    }

    #[test]
    fn what_is_set_counts() {
        let set = Config { pool_bytes: Some(64 * MIB), ..Config::default() };
        let chunk = |config: &Config| {
            let shape = shape(config, 64);
            (shape.chunk_bytes, shape.chunk_bytes_max)
        };
        assert_eq!(chunk(&set), (512 * KIB, 512 * KIB));
        for pool_bytes in [set.pool_bytes, None] {
            let config = Config { chunk_bytes: Some(32 * MIB), pool_bytes, ..Config::default() };
            assert_eq!(chunk(&config), (32 * MIB, 32 * MIB));
        }
    }

    #[test]
    fn chunks_of_a_pool_that_sizes_itself_fit_the_shards() {
        let shape = shape(&Config::default(), 1);
        assert!(shape.grows && shape.chunk_bytes < shape.chunk_bytes_max);
    }
}

//! Other ranks than those that saved, each on a node of its own, read only the data that they need: from their own copy
//! if they have one, and otherwise only that part of a shard, from any rank that has it whole.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use super::other_ranks::cut;
use crate::support::{
    bounded,
    program::Mark,
    spread::{Part, value},
};
use mainstay_engine::{
    Config, Error, LevelKind, LevelPlan, MemoryAfter, Region, Restored, Session,
    device::{Device, Disk},
    group::{Group, Incoming, Message, Outgoing, Tested, ThreadGroup},
};
use std::{
    fs,
    ops::Range,
    path::Path,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};
use tempfile::TempDir;

/// A region that is equal on all ranks, and is stored in every shard.
const STEP: [u8; 8] = *b"the step";

fn alike(step: &mut [u8; 8]) -> Region {
    // SAFETY: the callers keep `step` for as long as the session.
    unsafe { Region::new("step", step.as_mut_ptr(), 8) }.unwrap()
}

/// Nodes with memory for their own shards and for copies, and an empty space.
struct Nodes {
    memory: Vec<[TempDir; 2]>,
    pfs: TempDir,
}

/// Counts the bytes that ranks send each other in the background.
struct Counted {
    group: ThreadGroup,
    sent: Arc<AtomicU64>,
}

impl Nodes {
    fn new(count: usize) -> Nodes {
        let folder = || TempDir::new_in("/dev/shm").unwrap();
        Nodes { memory: (0..count).map(|_| [folder(), folder()]).collect(), pfs: folder() }
    }

    /// Runs a rank on each of the nodes `seats`, all of which end at once. Returns the number of bytes that they sent
    /// each other.
    fn job(&self, seats: &[usize], work: impl Fn(usize, &mut Session) + Sync) -> u64 {
        let (sent, end) = (Arc::new(AtomicU64::new(0)), Barrier::new(seats.len()));
        let device = |folder: &TempDir| Arc::new(Disk::make(folder.path()).unwrap()) as Arc<dyn Device>;
        let live = |group: ThreadGroup| {
            let rank = group.rank();
            let memory = &self.memory[seats[rank]];
            let plan = |kind, folder, every, copies| {
                let device = device(folder);
                LevelPlan { kind, device, every, keep: 1, copies, former: Vec::new() }
            };
            let plans = vec![
                plan(LevelKind::Memory, &memory[0], 1, vec![device(&memory[1])]),
                plan(LevelKind::Pfs, &self.pfs, 0, Vec::new()),
            ];
            let config = Config { io_threads: 1, memory_after: MemoryAfter::Kept, ..Config::default() };
            let group = Counted { group, sent: sent.clone() };
            let mut session = Session::open_levels(Box::new(group), plans, config).unwrap();
            work(rank, &mut session);
            end.wait();
        };
        bounded("a job on several nodes", || {
            thread::scope(|scope| {
                let ranks = ThreadGroup::new(seats.len()).into_iter();
                let ranks: Vec<_> = ranks.map(|group| scope.spawn(|| live(group))).collect();
                ranks.into_iter().for_each(|rank| rank.join().unwrap());
            });
        });
        sent.load(Ordering::Relaxed)
    }

    /// Saves an array with these sides, with one box on each node.
    fn save(&self, sides: &[u64], boxes: &[Vec<Range<u64>>], mark: Mark) {
        let seats: Vec<usize> = (0..boxes.len()).collect();
        self.job(&seats, |rank, session| {
            let (mut part, mut step) = (Part::new(sides, boxes[rank].clone()), STEP);
            session.protect(part.region("array").unwrap()).unwrap();
            session.protect(alike(&mut step)).unwrap();
            part.fill(|number| value(mark, number));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        });
    }

    /// Ranks on `seats` restore these boxes, which must be as they were saved. Returns the number of bytes that they
    /// sent each other.
    fn restore(
        &self,
        (seats, sides): (&[usize], &[u64]),
        boxes: &[Vec<Range<u64>>],
        mark: Mark,
        came: impl Fn(Result<Option<Restored>, Error>) -> bool + Sync,
    ) -> u64 {
        self.job(seats, |rank, session| {
            let (mut part, mut step) = (Part::new(sides, boxes[rank].clone()), [0; 8]);
            session.protect(part.region("array").unwrap()).unwrap();
            session.protect(alike(&mut step)).unwrap();
            if came(session.restore()) {
                let is_right = part.holds(|number| value(mark, number)) && step == STEP;
                assert!(is_right, "{sides:?} as {boxes:?} on {seats:?}, rank {rank}");
            }
        })
    }
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

    fn all_max(&self, values: &mut [u64]) -> Result<(), Error> {
        self.group.all_max(values)
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.group.all_gather(mine)
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        self.group.broadcast(root, bytes)
    }

    fn start_send(&self, to: usize, bytes: Outgoing) -> Result<Message, Error> {
        self.sent.fetch_add((*bytes).as_ref().len() as u64, Ordering::Relaxed);
        self.group.start_send(to, bytes)
    }

    fn start_receive(&self, from: usize, into: Incoming) -> Result<Message, Error> {
        self.group.start_receive(from, into)
    }

    fn test(&self, message: Message) -> Result<Tested, Error> {
        self.group.test(message)
    }
}

fn whole(sides: &[u64]) -> Vec<Range<u64>> {
    sides.iter().map(|side| 0..*side).collect()
}

/// A line of `cells` cells in `count` parts of equal length.
fn slabs(cells: u64, count: u64) -> Vec<Vec<Range<u64>>> {
    let slab = |part: u64| cells * part / count..cells * (part + 1) / count;
    (0..count).map(|part| vec![slab(part)]).collect()
}

fn all_came(came: Result<Option<Restored>, Error>) -> bool {
    let restored = came.unwrap().unwrap();
    assert_eq!((restored.revision, restored.skipped), (1, Vec::new()));
    true
}

/// Any node may be lost, or none, and any number of nodes may follow.
#[test]
fn any_boxes_come_back_as_any_others_on_other_nodes() {
    let mut random = fastrand::Rng::with_seed(17);
    for round in 0..30 {
        let longest = [120_000, 300, 40];
        let sides: Vec<u64> = (0..random.usize(1..4)).map(|_| 0).collect();
        let sides: Vec<u64> = sides.iter().map(|_| random.u64(1..longest[sides.len() - 1])).collect();
        let before = random.usize(2..7);
        let mut seats: Vec<usize> = (0..before).collect();
        if before > 2 {
            // Nothing is lost, because the copy is on another node.
            seats.remove(random.usize(..before));
        }
        match random.usize(..3) {
            0 => seats.extend(before..before + random.usize(1..4)),
            // No rank reports data on a node without a rank, so every node must have one.
            1 => random.shuffle(&mut seats),
            _ => {}
        }
        let (nodes, mark) = (Nodes::new(before + 3), Mark { run: 1, step: round });
        nodes.save(&sides, &cut(whole(&sides), before, &mut random), mark);
        let wanted = cut(whole(&sides), seats.len(), &mut random);
        nodes.restore((&seats, &sides), &wanted, mark, all_came);
    }
}

/// Each rank got whole shards, even if it held a copy of them.
#[test]
fn no_more_of_a_shard_is_sent_than_a_rank_reads() {
    const CELLS: u64 = 1 << 20;
    let mark = Mark { run: 1, step: 1 };
    for lost in 0..4 {
        let nodes = Nodes::new(4);
        nodes.save(&[CELLS], &slabs(CELLS, 4), mark);
        let seats: Vec<usize> = (0..4).filter(|node| *node != lost).collect();
        let sent = nodes.restore((&seats, &[CELLS]), &slabs(CELLS, 3), mark, all_came);
        // Besides its own shard, each rank reads a twelfth, a sixth or a quarter of the array.
        let most = CELLS * 8 / 2 + (64 << 10);
        assert!(sent <= most, "without node {lost}: {sent} bytes, and {most} are needed at most");
    }
}

/// Changes one bit of the cell in the files below `folder`. Returns the number of places.
fn damage(folder: &Path, mark: Mark, cell: u64) -> usize {
    let pattern: Vec<u8> = [cell, cell + 1].iter().flat_map(|number| value(mark, *number).to_le_bytes()).collect();
    let mut found = 0;
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found += damage(&path, mark, cell);
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        let places: Vec<usize> =
            bytes.windows(16).enumerate().filter(|(_, at)| *at == pattern).map(|(place, _)| place).collect();
        places.iter().for_each(|place| bytes[*place] ^= 4);
        found += places.len();
        if !places.is_empty() {
            fs::write(&path, bytes).unwrap();
        }
    }
    found
}

/// The reader of the cell may be the owner of the shard, a rank with a copy, or a rank that gets parts. The other copy
/// has the cell whole.
#[test]
fn damage_in_what_is_read_in_part_is_noticed_and_the_other_copy_is_read() {
    const CELLS: u64 = 1 << 16;
    let mark = Mark { run: 1, step: 1 };
    for shard in 0..4 {
        let is_told = |copy: usize| {
            let nodes = Nodes::new(5);
            nodes.save(&[CELLS], &slabs(CELLS, 4), mark);
            let cell = CELLS / 4 * shard + CELLS / 8;
            let damaged: usize = nodes.memory.iter().map(|memory| damage(memory[copy].path(), mark, cell)).sum();
            assert_eq!(damaged, 1, "shard {shard}, copy {copy}");
            let told = AtomicU64::new(0);
            nodes.restore((&[0, 1, 2, 3, 4], &[CELLS]), &slabs(CELLS, 5), mark, |came| {
                let restored = came.unwrap().unwrap();
                assert_eq!(restored.revision, 1);
                let is_of_it = |what: &&String| what.starts_with(&format!("shard {shard}: "));
                assert_eq!(restored.skipped.iter().filter(is_of_it).count(), restored.skipped.len(), "{restored:?}");
                told.fetch_max(restored.skipped.len() as u64, Ordering::Relaxed);
                true
            });
            told.into_inner() > 0
        };
        // The rank read one of the two.
        let told = [is_told(0), is_told(1)];
        assert!(told[0] || told[1], "damage in shard {shard} was not told");
    }
}

/// If both copies are damaged, no wrong bytes come back.
#[test]
fn damage_in_both_copies_of_what_is_read_in_part_is_an_error() {
    const CELLS: u64 = 1 << 14;
    let mark = Mark { run: 1, step: 1 };
    let nodes = Nodes::new(4);
    nodes.save(&[CELLS], &slabs(CELLS, 4), mark);
    let damaged: usize =
        nodes.memory.iter().flatten().map(|folder| damage(folder.path(), mark, CELLS / 4 + CELLS / 8)).sum();
    assert_eq!(damaged, 2);
    nodes.restore((&[0, 1, 2], &[CELLS]), &slabs(CELLS, 3), mark, |came| {
        assert!(matches!(came, Err(Error::Damaged { .. })), "{came:?}");
        false
    });
}

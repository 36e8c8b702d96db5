//! One staged shard with two target spaces, each on a device in memory that fails as real ones do.

use super::*;
use crate::{
    capture::{Contents, Size},
    commit::{Ledger, Need, RUNS, RevisionKey},
    config::PoolHeld,
    device::{Access, Allocate, Stripes},
    error::Error,
    ground::{Instant, lock},
    pool::{Pool, RankRecord, Sealed, Shape},
    salvage::{SalvageOutcome, complete},
    space::{
        Arrangement, Making, create_layout,
        format::{
            Annex, BLOCK_BYTES, ElementType, Extent, HASH_BYTES, Item, ItemKind, Lineage, PhaseRecord, hash_blocks,
        },
        layouts,
    },
    support::faulty::{Change, Failure, Faulty, Gate, Medium, View},
};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use tempfile::TempDir;

const CHUNK: u64 = 8 * BLOCK_BYTES; // three are not small
const CHUNKS: u64 = 3;
const LINEAGE: Lineage = Lineage { number: 1, id: [7; 16] };

/// A space of one rank.
struct Space {
    medium: Medium,
    view: Arc<View>,
    device: Faulty,
    ledger: Arc<Mutex<Ledger>>,
}

impl Space {
    fn new(layout_id: [u8; 16], gate: &Arc<Gate>) -> Space {
        let medium = Medium::new(true);
        let view = medium.gated_view(gate);
        let device = Faulty(view.clone());
        let arrangement =
            Arrangement { layout_id, layout_number: 1, stripe_bytes: 0, is_sized: false, blocks: vec![300] };
        let (allocate, stripes) = (Allocate::default(), Stripes::default());
        let making = Making { allocate, stripes, when_mapped: false, progress: &|_| () };
        let first = |rank| Ledger::first_slot(layout_id, rank, LINEAGE);
        let layout = create_layout(&device, arrangement.header(&[0], true), &making, first).unwrap();
        let ledger = Ledger::fresh(layout.portions().next().unwrap(), first(0));
        Space { medium, view, device, ledger: Arc::new(Mutex::new(ledger)) }
    }

    /// Room for revision `number` beside the one before.
    fn site(&self, number: u64, size: &Size) -> Site {
        let retained = vec![key(number - 1)];
        let allocation = lock(&self.ledger).allocate(Need::of(size, RUNS), &retained).unwrap();
        Site::new(&self.device, self.ledger.clone(), allocation, retained)
    }
}

/// The revisions that the next opener finds in a space, each with its bytes.
fn found_in(medium: &Medium) -> Vec<u64> {
    let device = Faulty(medium.view());
    let portion = layouts(&device, Access::Read).unwrap()[0].portions().next().unwrap();
    let opened = Ledger::open(portion.clone()).unwrap();
    assert_eq!(opened.damage, [""; 0]);
    let check = |kept: &Arc<crate::commit::Kept>| {
        let number = kept.entry.number;
        let (manifest, log) = (portion.read_manifest(&kept.entry).unwrap(), log_of(number));
        let log = &log[..manifest.items[0].bytes as usize];
        let read = |at, bytes| {
            let mut found = vec![0; bytes as usize];
            portion.read_into(at, &mut found).unwrap();
            found
        };
        let bytes: Vec<u8> =
            manifest.items[0].extents.iter().flat_map(|extent| read(extent.at, extent.bytes)).collect();
        assert!(bytes == log, "revision {number}");
        let rows = manifest.runs.iter().flat_map(|run| {
            let bytes = run.blocks * HASH_BYTES as u64;
            portion.read_checked(run.hashes_at, bytes, &run.hashes_hash, "rows").unwrap().to_vec()
        });
        let mut hashes = vec![0; log.len() / BLOCK_BYTES as usize * HASH_BYTES];
        hash_blocks(log, &mut hashes);
        assert!(rows.collect::<Vec<_>>() == hashes, "hashes of revision {number}");
        number
    };
    opened.ledger.kept().iter().map(check).collect()
}

fn key(number: u64) -> RevisionKey {
    RevisionKey::new(LINEAGE, number)
}

/// A log with as many bytes as the pool.
fn log_of(number: u64) -> Vec<u8> {
    (0..CHUNKS * CHUNK).map(|at| (at / 8 * 31 + number * 77) as u8).collect()
}

/// Opens the gate when dropped, so that a failed test leaves no thread waiting.
struct Opens<'a>(&'a Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A pool that each shard fills, and the record of one rank.
struct Node {
    directory: TempDir,
    pool: Pool,
    record: RankRecord,
    threads: IoThreads,
}

impl Node {
    fn new() -> Node {
        Node::of(1)
    }

    /// A node with so many ranks; this is the first.
    fn of(members: u32) -> Node {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let shape = Shape {
            bytes: CHUNKS * CHUNK,
            grows: false,
            chunk_bytes: CHUNK,
            chunk_bytes_max: CHUNK,
            members,
            held: PoolHeld::Always,
            writes_max: 1,
        };
        let pool = Pool::create(directory.path(), [7; 16], &shape).unwrap();
        pool.make_memory().unwrap();
        let record = RankRecord::create(&pool, 0).unwrap();
        // A target that hangs blocks one thread for each chunk.
        let threads = IoThreads::start(CHUNKS as usize + 1, None).unwrap();
        Node { directory, pool, record, threads }
    }

    /// Saves revision `number`, fully staged and sealed before the first byte is written.
    fn save(&mut self, number: u64, spaces: &[&Space]) -> Arc<Shard> {
        self.save_log(number, &log_of(number), spaces)
    }

    fn save_log(&mut self, number: u64, log: &[u8], spaces: &[&Space]) -> Arc<Shard> {
        let blocks = log.len() as u64 / BLOCK_BYTES;
        let item = Item {
            name: "x".to_owned(),
            kind: ItemKind::Region,
            element: ElementType::Bytes,
            bytes: log.len() as u64,
            shape: Vec::new(),
            place: None,
            same_on_all_ranks: false,
            extents: vec![Extent { at: 0, bytes: log.len() as u64 }],
        };
        let size = Size::of_items(vec![item.clone()], Annex::default());
        let sites = spaces.iter().map(|space| space.site(number, &size)).collect();
        let intent =
            ShardSpec { key: key(number), shards: 1, shard: 0, size, outputs: Vec::new(), started: Instant::now() };
        let record = Some((&mut self.record, CHUNK));
        let shard = Shard::new(intent, sites, record, PhaseRecord::default()).unwrap();
        let load = |(index, bytes): (usize, &[u8])| {
            let mut chunk = self.pool.take_now().expect("a chunk is free").unwrap();
            chunk.bytes_mut().copy_from_slice(bytes);
            LogSegment::new(chunk, shard.clone(), index as u64 * CHUNK, CHUNK).unwrap()
        };
        let loads: Vec<LogSegment> = log.chunks(CHUNK as usize).enumerate().map(load).collect();
        let contents = Contents { items: vec![item], blocks, shared: 0..0, is_outline: false, annex: Annex::default() };
        shard.seal(&contents, StagingTime::default());
        shard.note_staged(StagingTime::default(), contents);
        loads.into_iter().for_each(|load| self.threads.carry(Arc::new(load)));
        self.threads.all_staged(&shard);
        shard
    }

    fn sealed(&self) -> Option<Sealed> {
        Sealed::open(self.directory.path(), self.pool.id(), 0).unwrap()
    }

    /// Whether nothing is in progress: all chunks are free, and no shard could be completed.
    fn is_idle(&self) -> bool {
        let chunks: Vec<_> = std::iter::from_fn(|| self.pool.take_now()).collect();
        chunks.len() as u64 == CHUNKS && self.sealed().is_none()
    }
}

/// `written_bytes` counts all bytes given to the medium, roots included.
#[test]
fn all_that_is_written_is_told() {
    let (mut node, gate) = (Node::new(), Arc::new(Gate::new()));
    let space = Space::new([1; 16], &gate);
    for number in 1..=4 {
        let before = space.medium.operations();
        let phases = node.save(number, &[&space]).wait().unwrap();
        let log = space.medium.log();
        let writes = log[before..].iter().filter_map(|operation| match &operation.change {
            Change::Write { bytes, .. } => Some(bytes.len() as u64),
            _ => None,
        });
        let writes: Vec<u64> = writes.collect();
        assert_eq!((phases.writes, phases.written_bytes), (writes.len() as u64, writes.iter().sum()), "{number}");
    }
}

/// I/O threads of ranks that had copied took processors from ranks that had not: a checkpoint of 4 KiB on 64 ranks took
/// twice as long.
#[test]
fn a_small_shard_is_written_once_all_ranks_of_the_node_have_copied() {
    let (mut node, gate) = (Node::of(2), Arc::new(Gate::new()));
    let other = Pool::join(node.directory.path(), node.pool.id(), 1).unwrap();
    let space = Space::new([1; 16], &gate);
    node.pool.begin_copying(1);
    let (before, begun) = (space.medium.operations(), Instant::now());
    let shard = node.save_log(1, &log_of(1)[..CHUNK as usize], &[&space]);
    assert!(shard.is_small());
    node.pool.end_copying();
    thread::sleep(Duration::from_millis(50));
    let after = space.medium.operations();
    // After this time the rank may be dead, and the wait ends.
    if begun.elapsed() < pacing::YIELD_TO_COPIES {
        assert_eq!(after, before, "it was written while another rank had not copied");
    }
    other.end_copying();
    shard.wait().unwrap();
    assert_eq!(found_in(&space.medium), [1]);
}

/// The hashing threads woke when the last rank had copied, and took its processor for some 4 ms before it reached t2.
#[test]
fn who_waits_to_hash_takes_no_processor_from_a_rank() {
    let before = threads();
    let (mut node, gate) = (Node::of(2), Arc::new(Gate::new()));
    let of_node: Vec<_> = threads().difference(&before).cloned().collect();
    let other = Pool::join(node.directory.path(), node.pool.id(), 1).unwrap();
    let space = Space::new([1; 16], &gate);
    node.pool.begin_copying(1);
    let begun = Instant::now();
    let shard = node.save(1, &[&space]);
    assert!(!shard.is_small());
    let is_patient = || of_node.iter().any(|thread| policy_of_hashing(thread) == Some(libc::SCHED_BATCH));
    // After this time the rank may be dead, and the wait ends.
    while !is_patient() && begun.elapsed() < pacing::YIELD_TO_COPIES {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(is_patient(), "it hashes as urgently as the ranks compute");
    other.end_copying();
    shard.wait().unwrap();
    assert_eq!(found_in(&space.medium), [1]);
}

/// The threads of this process, by number.
fn threads() -> BTreeSet<OsString> {
    fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().file_name()).collect()
}

/// The scheduling policy of a hashing thread.
fn policy_of_hashing(thread: &OsString) -> Option<i32> {
    let stat = fs::read_to_string(Path::new("/proc/self/task").join(thread).join("stat")).ok()?;
    let (named, fields) = stat.rsplit_once(") ")?;
    // The first of these fields is the third of all, and the policy the 41st.
    named.contains("(mainstay-hash").then(|| fields.split(' ').nth(41 - 3)?.parse().ok())?
}

/// Two spaces that both have revision 1. The second has saved one more revision alone, so the same log gets other
/// blocks there.
fn two_spaces(node: &mut Node, gate: &Arc<Gate>) -> [Space; 2] {
    let spaces = [[1; 16], [2; 16]].map(|id| Space::new(id, gate));
    node.save(9, &[&spaces[1]]).wait().unwrap();
    node.save(1, &[&spaces[0], &spaces[1]]).wait().unwrap();
    spaces
}

#[test]
fn one_staged_copy_goes_to_two_spaces() {
    let (mut node, gate) = (Node::new(), Arc::new(Gate::new()));
    let spaces = two_spaces(&mut node, &gate);
    let shard = node.save(2, &[&spaces[0], &spaces[1]]);
    let phases = shard.wait().unwrap();
    assert!(phases.written_bytes > CHUNKS * CHUNK && matches!(shard.poll(), Some(Ok(()))));
    let data = [0, 1].map(|index: usize| shard.targets[index].site.allocation.data.clone());
    assert_ne!(data[0], data[1], "each has its own blocks");
    assert!(node.is_idle());
    assert_eq!(spaces.each_ref().map(|space| found_in(&space.medium)), [[1, 2], [1, 2]]);
}

#[test]
fn a_chunk_is_free_once_the_last_target_has_it() {
    let (mut node, gate) = (Node::new(), Arc::new(Gate::new()));
    let near = Space::new([1; 16], &Arc::new(Gate::new()));
    let far = Space::new([2; 16], &gate);
    let _opens = Opens(&gate);
    far.view.closes_gate_in(1);
    let shard = node.save(2, &[&near, &far]);
    shard.targets[0].ending.wait().unwrap();
    assert_eq!(found_in(&near.medium), [2]);
    assert!(node.pool.take_now().is_none() && shard.poll().is_none());
    // A salvager would see that the nearest target needs no more work.
    let sealed = node.sealed().unwrap();
    let owed: Vec<_> = sealed.owed().map(|owed| (owed.target.layout_id, owed.left().count() as u64)).collect();
    assert_eq!(owed, [([2; 16], CHUNKS)]);
    gate.open();
    shard.wait().unwrap();
    assert_eq!(found_in(&far.medium), [2]);
    assert!(node.is_idle());
}

/// If any operation of one space fails, the other space gets the revision, and the failed one keeps the previous
/// revision.
#[test]
fn a_failed_target_does_not_stop_the_other() {
    for failure in [Failure::Io, Failure::Full, Failure::Forgets] {
        for fails in [0, 1] {
            for nth in 1.. {
                let (mut node, gate) = (Node::new(), Arc::new(Gate::new()));
                let spaces = two_spaces(&mut node, &gate);
                spaces[fails].view.fails_in(nth, failure);
                let shard = node.save(2, &[&spaces[0], &spaces[1]]);
                let outcome = shard.wait();
                let case = format!("{failure:?} of operation {nth} of space {fails}: {outcome:?}");
                assert!(node.is_idle(), "{case}");
                let other = 1 - fails;
                assert!(shard.targets[other].ending.wait().is_ok(), "{case}");
                assert_eq!(found_in(&spaces[other].medium), [1, 2], "{case}");
                if !spaces[fails].view.has_failed() {
                    outcome.unwrap();
                    assert!(nth > 5, "{case}");
                    break;
                }
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::NotSaved { revision: 2, .. } | Error::SyncFailed { .. }), "{case}");
                let left = found_in(&spaces[fails].medium);
                assert!(left.contains(&1), "{case}: {left:?}");
                assert!(!shard.has_failed(), "{case}");
            }
        }
    }
}

#[test]
fn a_shard_fails_when_all_of_its_targets_have() {
    let (mut node, gate) = (Node::new(), Arc::new(Gate::new()));
    let spaces = two_spaces(&mut node, &gate);
    spaces.iter().for_each(|space| space.view.kill());
    let shard = node.save(2, &[&spaces[0], &spaces[1]]);
    assert!(matches!(shard.wait(), Err(Error::NotSaved { revision: 2, .. } | Error::SyncFailed { .. })));
    assert!(shard.has_failed() && shard.failure().is_some() && node.is_idle());
}

/// If the job is killed at any operation of either space after t2, the shard is completed in both.
#[test]
fn a_salvage_completes_each_target() {
    for dies in [0, 1] {
        for nth in 1.. {
            let (mut node, gate) = (Node::new(), Arc::new(Gate::new()));
            let spaces = two_spaces(&mut node, &gate);
            spaces[dies].view.closes_gate_in(nth);
            let shard = node.save(2, &[&spaces[0], &spaces[1]]);
            let was_killed = thread::scope(|scope| {
                let _opens = Opens(&gate);
                scope.spawn(|| {
                    let _ = shard.wait();
                    gate.job_ended();
                });
                gate.wait_for_closing();
                let was_killed = gate.was_closed();
                // The record is read before the media, so all segments that it marks as done are in them.
                let sealed = if was_killed { settled(&node, &gate) } else { None };
                let media = spaces.each_ref().map(|space| space.medium.end_processes());
                if let Some(sealed) = sealed {
                    salvage(&node, &sealed, &media, &format!("killed at operation {nth} of space {dies}"));
                }
                was_killed
            });
            if !was_killed {
                assert!(nth > 5);
                break;
            }
        }
    }
}

/// The record after the threads that had passed the gate have noted their work, as if all threads had been killed at
/// one moment.
fn settled(node: &Node, gate: &Gate) -> Option<Sealed> {
    for _ in 0..30_000 {
        let before = node.sealed();
        // A thread that waits for a processor is not at rest.
        let are_at_rest = (0..3).all(|_| gate.is_at_rest());
        let now = node.sealed();
        if are_at_rest && now.as_ref().map(|sealed| &sealed.segments) == before.as_ref().map(|sealed| &sealed.segments)
        {
            return now;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("the threads never come to rest");
}

fn salvage(node: &Node, sealed: &Sealed, media: &[Medium; 2], case: &str) {
    for owed in sealed.owed() {
        let outcomes = media.each_ref().map(|medium| complete(&Faulty(medium.view()), owed, node.pool.contents()));
        let outcomes = outcomes.map(|outcome| outcome.unwrap_or_else(|error| panic!("{case}: {error}")));
        let own = usize::from(owed.target.layout_id == [2; 16]);
        assert!(
            matches!(outcomes[own], SalvageOutcome::Completed | SalvageOutcome::WasComplete),
            "{case}: {outcomes:?}"
        );
        assert_eq!(outcomes[1 - own], SalvageOutcome::Elsewhere, "{case}");
    }
    assert_eq!(media.each_ref().map(found_in), [[1, 2], [1, 2]], "{case}");
    // A record that cannot be completed keeps the pool, and the other space's job may let the revision go meanwhile.
    assert_eq!(node.sealed().map_or(0, |sealed| sealed.owed().count()), 0, "{case}: what is complete is noted");
}

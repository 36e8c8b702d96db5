//! Goes back to a revision without filling regions: the program divides the shards among any number of ranks itself.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::{bounded, in_sessions, run};
use mainstay_engine::{
    Capture, Config, ErrorKind, LevelKind, LevelPlan, MemoryAfter, Recovery, Region, Session,
    device::{Device, Disk},
    group::{Group, ThreadGroup},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};
use tempfile::TempDir;

const LARGE: usize = 700_000;

fn config() -> Config {
    Config { pool_bytes: Some(4 << 20), chunk_bytes: Some(64 << 10), keep: 2, ..Config::default() }
}

/// The memory of one rank of the program: its areas have other sizes than those of other ranks.
struct Slot {
    rank: usize,
    heap: Vec<u8>,
    stack: Vec<u8>,
}

impl Slot {
    fn empty(rank: usize) -> Slot {
        Slot { rank, heap: vec![9; LARGE + 5000 * rank], stack: vec![9; 300 + rank] }
    }

    fn new(rank: usize, revision: u64) -> Slot {
        let mut slot = Slot::empty(rank);
        let byte = |at: usize| {
            ((at as u64 + 77 * rank as u64 + 1) * (revision + 3)).wrapping_mul(0x9e37_79b9).to_be_bytes()[4]
        };
        slot.heap.iter_mut().enumerate().for_each(|(at, to)| *to = byte(at));
        slot.heap[100_000..300_000].fill(0);
        slot.stack.iter_mut().enumerate().for_each(|(at, to)| *to = byte(at + 5));
        slot
    }

    /// The regions of this slot. They count while the slot does.
    fn regions(&mut self) -> [Region; 2] {
        let rank = self.rank;
        // SAFETY: each test drops the regions, or unprotects them, before the slot.
        let region = |name, memory: &mut Vec<u8>| unsafe {
            Region::new(&format!("v{rank}/{name}"), memory.as_mut_ptr(), memory.len() as u64).unwrap()
        };
        [region("heap", &mut self.heap), region("stack", &mut self.stack)]
    }

    fn save(session: &mut Session, slots: &mut [Slot], revision: u64) {
        let regions: Vec<Region> = slots.iter_mut().flat_map(|slot| slot.regions()).collect();
        let names: Vec<String> =
            slots.iter().flat_map(|slot| ["heap", "stack"].map(|name| format!("v{}/{name}", slot.rank))).collect();
        regions.into_iter().for_each(|region| session.protect(region).unwrap());
        session.begin(100).unwrap();
        session.write("ranks", 0, &table(slots, revision)).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        names.iter().for_each(|name| session.unprotect(name).unwrap());
    }
}

fn table(slots: &[Slot], revision: u64) -> Vec<u8> {
    slots.iter().map(|slot| slot.rank as u8).chain([revision as u8]).collect()
}

/// Saves revisions with `slots` slots on `ranks` ranks.
fn save(space: &Path, ranks: usize, revisions: u64) {
    in_sessions(space, ranks, &config(), |rank, session| {
        for revision in 1..=revisions {
            Slot::save(session, &mut [Slot::new(rank, revision)], revision);
        }
    });
}

/// Takes the shards over that fall to this rank, and compares them with `revision`.
fn take_over(session: &mut Session, shards: usize, revision: u64) {
    let mine: Vec<u32> =
        (0..shards as u32).filter(|shard| *shard as usize % session.size() == session.rank()).collect();
    session.bring_shards(&mine).unwrap();
    for shard in mine {
        let expected = Slot::new(shard as usize, revision);
        let reader = session.shards().unwrap();
        let mut told = [0; 2];
        assert_eq!(reader.read(shard, "ranks", 0, &mut told).unwrap(), 2);
        assert_eq!(told, [shard as u8, revision as u8]);
        let mut slot = Slot::empty(shard as usize);
        reader.fill(shard, &slot.regions()).unwrap();
        assert!(slot.heap == expected.heap && slot.stack == expected.stack, "shard {shard} of revision {revision}");
        let mut slot = Slot::empty(shard as usize);
        assert_eq!(reader.read(shard, &format!("v{shard}/heap"), 0, &mut slot.heap).unwrap(), slot.heap.len());
        assert!(slot.heap == expected.heap);
    }
}

/// Story: a revision with regions that the program did not protect was refused, so a program whose regions come and go
/// could not find out which it needs.
#[test]
fn any_number_of_ranks_reads_regions_that_it_does_not_protect() {
    for ranks in [1, 2, 3, 5] {
        let folder = TempDir::new().unwrap();
        save(folder.path(), 3, 2);
        in_sessions(folder.path(), ranks, &config(), |rank, session| {
            assert_eq!(session.restore().unwrap_err().kind(), ErrorKind::RegionMissing);
            let mut own = vec![5_u8; 100];
            // SAFETY: it is unprotected below.
            session.protect(unsafe { Region::new("own", own.as_mut_ptr(), 100) }.unwrap()).unwrap();
            let chosen = session.choose().unwrap().unwrap();
            assert_eq!((chosen.revision, chosen.skipped), (2, vec![]));
            assert_eq!(own, [5; 100], "a region was filled");
            session.unprotect("own").unwrap();
            assert_eq!(session.shards().unwrap().shard_count(), 3);
            take_over(session, 3, 2);
            // An earlier one, and the next checkpoint.
            assert_eq!(session.choose_revision(1).unwrap().unwrap().revision, 1);
            take_over(session, 3, 1);
            let missing = session.choose_revision(7).unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::RevisionMissing);
            Slot::save(session, &mut [Slot::new(rank, 5)], 5);
            assert_eq!(session.shards().unwrap().shard_count(), 0, "blocks may be overwritten from here on");
        });
        in_sessions(folder.path(), 2, &config(), |_, session| {
            let chosen = session.choose().unwrap().unwrap();
            assert!(chosen.revision > 2);
            take_over(session, ranks, 5);
        });
    }
}

#[test]
fn an_empty_space_has_nothing_to_choose_and_all_ranks_choose_together() {
    let folder = TempDir::new().unwrap();
    in_sessions(folder.path(), 2, &config(), |rank, session| {
        assert_eq!(session.choose().unwrap(), None);
        let differs = if rank == 0 { session.choose() } else { session.restore() };
        let error = differs.unwrap_err().to_string();
        assert!(error.contains("rank 0 called choose, rank 1 restore"), "{error}");
    });
}

/// Turns a byte of the file in which `pattern` lies.
fn damage(space: &Path, pattern: &[u8]) {
    let files = fs::read_dir(space).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut changed = 0;
    for file in files {
        let mut bytes = fs::read(&file).unwrap();
        if let Some(at) = bytes.windows(pattern.len()).position(|window| window == pattern) {
            bytes[at] ^= 1;
            fs::write(&file, bytes).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
}

#[test]
fn a_damaged_revision_is_passed_over_before_output_files_are_cut() {
    for ranks in [3, 2, 4] {
        let (folder, outputs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let output = |rank: usize| -> PathBuf { outputs.path().join(format!("{rank}.csv")) };
        in_sessions(folder.path(), 3, &config(), |rank, session| {
            session.protect_output(&output(rank)).unwrap();
            for revision in 1..=2 {
                fs::write(output(rank), "x".repeat(10 * revision as usize)).unwrap();
                Slot::save(session, &mut [Slot::new(rank, revision)], revision);
            }
            fs::write(output(rank), "x".repeat(50)).unwrap();
        });
        damage(folder.path(), &Slot::new(1, 2).heap[4096..4596]);
        in_sessions(folder.path(), ranks, &config(), |rank, session| {
            (0..3).filter(|of| of % ranks == rank).for_each(|of| session.protect_output(&output(of)).unwrap());
            let chosen = session.choose().unwrap().unwrap();
            assert_eq!(chosen.revision, 1, "{ranks} ranks");
            assert!(chosen.skipped.iter().any(|what| what.starts_with("revision 2: ")), "{:?}", chosen.skipped);
            take_over(session, 3, 1);
        });
        (0..3).for_each(|rank| assert_eq!(fs::read(output(rank)).unwrap().len(), 10, "{ranks} ranks"));
    }
}

#[test]
fn damage_that_the_program_finds_leads_to_an_older_revision() {
    let folder = TempDir::new().unwrap();
    save(folder.path(), 2, 2);
    in_sessions(folder.path(), 3, &config(), |_, session| {
        assert_eq!(session.choose().unwrap().unwrap().revision, 2);
        session.pass_over(vec!["the table of ranks".to_owned()]).unwrap();
        let chosen = session.choose().unwrap().unwrap();
        assert_eq!(chosen.revision, 1);
        assert!(chosen.skipped[0].contains("the table of ranks"), "{:?}", chosen.skipped);
        take_over(session, 2, 1);
    });
}

#[test]
fn a_region_that_does_not_fit_is_refused_before_anything_is_filled() {
    let folder = TempDir::new().unwrap();
    save(folder.path(), 1, 1);
    in_sessions(folder.path(), 1, &config(), |_, session| {
        session.choose().unwrap().unwrap();
        let reader = session.shards().unwrap();
        let mut slot = Slot::empty(0);
        let mut other = slot.regions().to_vec();
        // SAFETY: it is gone before the slot.
        other.push(unsafe { Region::new("v0/stack", slot.heap.as_mut_ptr(), 299) }.unwrap());
        assert_eq!(reader.fill(0, &other).unwrap_err().kind(), ErrorKind::RegionChanged);
        // SAFETY: as above.
        other[2] = unsafe { Region::new("v1/stack", slot.heap.as_mut_ptr(), 299) }.unwrap();
        assert_eq!(reader.fill(0, &other).unwrap_err().kind(), ErrorKind::RegionMissing);
        assert!(slot.heap.iter().chain(&slot.stack).all(|byte| *byte == 9));
        // One region of two.
        let [heap, _] = slot.regions();
        reader.fill(0, &[heap]).unwrap();
        assert!(slot.heap == Slot::new(0, 1).heap && slot.stack.iter().all(|byte| *byte == 9));
    });
}

/// Nodes with memory for their own shards and for copies of others.
struct Cluster {
    pfs: TempDir,
    capture: Capture,
}

type Node = [TempDir; 2];

impl Cluster {
    fn node() -> Node {
        [(); 2].map(|()| tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn open(&self, group: Box<dyn Group>, node: &Node) -> Session {
        let device = |folder: &TempDir| Arc::new(Disk::make(folder.path()).unwrap()) as Arc<dyn Device>;
        let plan = |kind, device, every, copies| LevelPlan { kind, device, every, keep: 1, copies, former: Vec::new() };
        let plans = vec![
            plan(LevelKind::Memory, device(&node[0]), 1, vec![device(&node[1])]),
            plan(LevelKind::Pfs, device(&self.pfs), 0, Vec::new()),
        ];
        let config =
            Config { memory_after: MemoryAfter::Kept, recovery: Recovery::Shrink, capture: self.capture, ..config() };
        Session::open_levels(group, plans, config).unwrap()
    }
}

/// Node 1 is lost with the memory of its rank. Its shard comes from the copy on another node.
#[test]
fn shards_of_a_lost_node_come_from_the_copies_in_memory() {
    for ranks in [3, 2, 4] {
        bounded("a job that lost a node", || {
            let cluster = Cluster { pfs: tempfile::tempdir_in("/dev/shm").unwrap(), capture: Capture::default() };
            let mut nodes: Vec<Node> = (0..4).map(|_| Cluster::node()).collect();
            run(3, |rank, group| {
                let mut session = cluster.open(group, &nodes[rank]);
                Slot::save(&mut session, &mut [Slot::new(rank, 1)], 1);
                session.close().unwrap();
            });
            nodes[1] = Cluster::node();
            // With two ranks, the lost node has none.
            let seats = if ranks == 2 { [0, 2, 1, 3] } else { [0, 1, 2, 3] };
            run(ranks, |rank, group| {
                let mut session = cluster.open(group, &nodes[seats[rank]]);
                assert_eq!(session.choose().unwrap().unwrap().revision, 1);
                take_over(&mut session, 3, 1);
                Slot::save(&mut session, &mut [Slot::new(rank, 2)], 2);
                session.close().unwrap();
            });
        });
    }
}

/// Story: with `recovery = "shrink"` the job started a process in place of the failed one, as no region was a box, even
/// though the program could divide the shards among the ranks that were left.
#[test]
fn a_job_that_suits_any_number_of_ranks_goes_on_with_fewer() {
    for (declares, left) in [(true, 2), (false, 3)] {
        let cluster = Cluster { pfs: tempfile::tempdir_in("/dev/shm").unwrap(), capture: Capture::Incremental };
        let goes_on = |mut session: Session| {
            assert_eq!(session.size(), left, "declared: {declares}");
            assert_eq!(session.choose().unwrap().unwrap().revision, 2);
            take_over(&mut session, 3, 2);
            let rank = session.rank();
            Slot::save(&mut session, &mut [Slot::new(rank, 3)], 3);
            session.close().unwrap();
        };
        let live = |group: ThreadGroup| {
            let (rank, node) = (group.rank(), Cluster::node());
            let mut session = cluster.open(Box::new(group), &node);
            if declares {
                session.any_number_of_ranks().unwrap();
            }
            for revision in 1..=2 {
                Slot::save(&mut session, &mut [Slot::new(rank, revision)], revision);
            }
            if rank == 1 {
                return;
            }
            let error = loop {
                if let Err(error) = session.wait() {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::GroupFailed);
            session.recover().unwrap();
            goes_on(session);
        };
        bounded("a job that goes on", || {
            thread::scope(|scope| {
                let (groups, starters) = ThreadGroup::with_starters(3, 1);
                let ranks: Vec<_> = groups.into_iter().map(|group| scope.spawn(|| live(group))).collect();
                let started = scope.spawn(|| {
                    starters.into_iter().next().unwrap().recv().map(|group| {
                        let node = Cluster::node();
                        goes_on(cluster.open(Box::new(group), &node));
                    })
                });
                ranks.into_iter().for_each(|rank| rank.join().unwrap());
                assert_eq!(started.join().unwrap().is_ok(), !declares);
            });
        });
    }
}

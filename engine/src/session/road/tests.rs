//! Ranks that write their shards themselves, and have holders that write them too, in two spaces on devices in memory.

use super::{
    lanes::{Fork, Lanes},
    wards::Wards,
};
use crate::{
    capture::Size,
    commit::{Ledger, Need, RUNS, RevisionKey},
    config::{Config, Stage},
    device::{Access, Allocate, Stripes},
    error::{Error, Result},
    ground::Instant,
    group::{Group, ThreadGroup},
    place::{Intent, IoThreads, Shard, Site, Writer},
    space::{
        Arrangement, Making, create_layout,
        format::{BLOCK_BYTES, Lineage, PhaseRecord, Profile},
        layouts,
    },
    stage::{Hands, Here, Policy, Publisher, Staging},
    support::faulty::{Failure, Faulty, Medium},
};
use std::{
    iter,
    sync::{Arc, Mutex},
    thread,
};

const LINEAGE: Lineage = Lineage { number: 1, id: [7; 16] };
const PIECE_BYTES: u64 = 2 * BLOCK_BYTES;

/// What `rank` saves: some pieces, and a part of one.
fn bytes_of(rank: usize) -> Vec<u8> {
    (0..150_000 + rank * 33_333).map(|at| (at / 8 * 31 + rank * 77) as u8).collect()
}

/// A space of two ranks.
struct Space(Medium);

impl Space {
    fn new(id: [u8; 16]) -> Space {
        let medium = Medium::new(true);
        let arrangement =
            Arrangement { layout_id: id, layout_number: 1, stripe_bytes: 0, is_sized: false, blocks: vec![100; 2] };
        let (allocate, stripes) = (Allocate::default(), Stripes::default());
        let making = Making { allocate, stripes, when_mapped: false, progress: &|_| () };
        let first = |rank| Ledger::first_slot(id, rank, LINEAGE);
        create_layout(&Faulty(medium.view()), arrangement.header(&[0, 1], true), &making, first).unwrap();
        Space(medium)
    }

    /// What the portion of `rank` holds of the revision, if it was published there.
    fn found(&self, rank: usize) -> Option<Vec<u8>> {
        let portion = layouts(&Faulty(self.0.view()), Access::Read).unwrap()[0].portions().nth(rank).unwrap();
        let kept = Ledger::open(portion.clone()).unwrap().ledger.kept().first()?.clone();
        let read = |extent: crate::space::format::Extent| {
            let mut bytes = vec![0; extent.bytes as usize];
            portion.read_into(extent.at, &mut bytes).unwrap();
            bytes
        };
        Some(portion.read_manifest(&kept.entry).unwrap().items[0].extents.iter().copied().flat_map(read).collect())
    }
}

/// One of two ranks, with a target of its own in the first space, and one in the second for each of its holders.
struct Rank {
    group: ThreadGroup,
    device: Faulty,
    lanes: Lanes,
    wards: Wards,
    threads: IoThreads,
    shard: Arc<Shard>,
}

impl Rank {
    fn new(group: ThreadGroup, spaces: &[Space; 2], holders: [&[usize]; 2]) -> Rank {
        let (rank, started) = (group.rank(), Instant::now());
        let devices = spaces.each_ref().map(|space| Faulty(space.0.view()));
        let size = Size::new(&[], bytes_of(rank).len() as u64, 0, Vec::new(), &[]);
        let site = |device: &Faulty| {
            let portion = layouts(device, Access::Write).unwrap()[0].portions().nth(rank).unwrap();
            let ledger = Ledger::open(portion).unwrap().ledger;
            let allocation = ledger.allocate(Need::of(&size, RUNS), &[]).unwrap();
            Site::new(device, Arc::new(Mutex::new(ledger)), allocation, Vec::new())
        };
        let held = holders[rank].iter().map(|holder| (Writer::Rank(*holder), site(&devices[1])));
        let sites = iter::once((Writer::Here, site(&devices[0]))).chain(held).collect();
        let (key, outputs) = (RevisionKey::new(LINEAGE, 1), Vec::new());
        let intent = Intent { key, shards: 2, shard: rank as u32, size: size.clone(), outputs, started };
        let of_whom: Vec<usize> = (0..2).filter(|other| holders[*other].contains(&rank)).collect();
        let mut wards = Wards::new(&of_whom, None, PIECE_BYTES).unwrap();
        let name = layouts(&devices[1], Access::Read).unwrap()[0].name.clone();
        wards.open(&devices[1], |_| Some(name.clone())).unwrap();
        let [_, device] = devices;
        Rank {
            group,
            device,
            lanes: Lanes::new(holders[rank], PIECE_BYTES),
            wards,
            threads: IoThreads::start(1, None).unwrap(),
            shard: Shard::new(intent, sites, None, PhaseRecord::default()).unwrap(),
        }
    }

    fn stage(&mut self) {
        let config = Config { stage: Stage::Rank, ..Config::default() };
        let policy = Policy::new(&config, || Ok(u64::MAX)).unwrap().handing_over(PIECE_BYTES);
        let mut staging = Staging::new(self.shard.clone(), policy, None, None, None).unwrap();
        self.lanes.await_news();
        let mut here = Here { threads: &self.threads, publisher: Publisher::Threads };
        let mut fork = Fork { here: &mut here, group: &self.group, lanes: &mut self.lanes };
        let mut hands = Hands { pool: None, reclaim: &|| (), outlet: &mut fork };
        staging.write(&mut hands, "x", 0, &bytes_of(self.group.rank()), &[]).unwrap();
        staging.finish(&mut hands, &[], Profile::default());
    }

    fn serve(&mut self) {
        let mut here = Here { threads: &self.threads, publisher: Publisher::Threads };
        let mut hands = Hands { pool: None, reclaim: &|| (), outlet: &mut here };
        self.wards.serve(&self.group, &self.device, &mut hands, self.shard.started()).unwrap();
    }

    /// What became of this rank's shard, once its holders have told.
    fn settle(&mut self) -> Result<Option<PhaseRecord>> {
        let (group, rank) = (&self.group, self.group.rank());
        self.lanes.hear_news(group, Some(&self.shard), |holder| holder < rank);
        self.wards.tell_news(group, true).unwrap();
        self.lanes.hear_news(group, Some(&self.shard), |holder| holder > rank);
        self.shard.wait()
    }
}

fn two_ranks(spaces: &[Space; 2], holders: [&[usize]; 2]) -> Vec<Rank> {
    ThreadGroup::new(2).into_iter().map(|group| Rank::new(group, spaces, holders)).collect()
}

fn together<T: Send>(ranks: &mut [Rank], work: impl Fn(&mut Rank) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = ranks.iter_mut().map(|rank| scope.spawn(move || work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_rank_that_writes_has_its_shard_held_as_well() {
    let spaces = [Space::new([1; 16]), Space::new([2; 16])];
    let mut ranks = two_ranks(&spaces, [&[1], &[]]);
    let settled = together(&mut ranks, |rank| {
        rank.stage();
        rank.serve();
        rank.settle()
    });
    assert!(settled.iter().all(|settled| matches!(settled, Ok(Some(_)))), "{settled:?}");
    let found = [(0, 0), (0, 1), (1, 0)].map(|(space, rank)| spaces[space].found(rank).unwrap() == bytes_of(rank));
    assert!(found == [true; 3] && spaces[1].found(1).is_none(), "{found:?}");
}

/// Whatever operation of a holder fails, its ward gets a named error, and still has its own target.
#[test]
fn a_holder_that_fails_takes_nothing_from_its_ward() {
    for nth in 1.. {
        let spaces = [Space::new([1; 16]), Space::new([2; 16])];
        let mut ranks = two_ranks(&spaces, [&[1], &[]]);
        ranks[1].device.0.fails_in(nth, Failure::Io);
        let settled = together(&mut ranks, |rank| {
            rank.stage();
            rank.serve();
            rank.settle()
        });
        assert!(spaces[0].found(0).unwrap() == bytes_of(0) && settled[1].is_ok(), "operation {nth}: {settled:?}");
        if !ranks[1].device.0.has_failed() {
            assert!(nth > 5 && settled[0].is_ok(), "operation {nth}: {settled:?}");
            assert!(spaces[1].found(0).unwrap() == bytes_of(0));
            break;
        }
        let told = settled[0].as_ref().unwrap_err();
        assert!(matches!(told, Error::OnRank { rank: 1, .. }), "operation {nth}: {told}");
        assert!(!ranks[0].shard.has_failed());
    }
}

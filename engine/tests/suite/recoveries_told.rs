//! Each recovery is recorded once in `status` and in the journal, whichever rank fails at whatever moment.

use crate::support::bounded;
use mainstay_engine::{
    Config, Error, ErrorKind, LevelPlace, Recovery, Region, Session,
    group::{Divided, Group, Incoming, Message, Outgoing, Tested, ThreadGroup},
    space::format::{ElementType, PlaceInWhole},
    status::{Event, Journal, Status},
};
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    thread,
};

const RANKS: usize = 4;
const CELLS: usize = 6000;
const STEPS: u64 = 3;

/// The moment at which a rank fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dies {
    /// The first revision is complete.
    Saved,
    /// The rank has its state back after another has failed, and the farther levels are not open yet.
    Restored,
    /// The others recover for the second time, in the collective with this number.
    Recovering(u32),
}

thread_local! {
    /// The number of collectives after which this rank fails.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A group with a rank that fails at the beginning of a collective.
struct Mortal(Box<dyn Group>);

impl Mortal {
    fn count(&self) {
        match LEFT.get() {
            Some(0) => {
                LEFT.set(None);
                resume_unwind(Box::new("this rank has failed"));
            }
            left => LEFT.set(left.map(|left| left - 1)),
        }
    }
}

impl Group for Mortal {
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn size(&self) -> usize {
        self.0.size()
    }
    fn ranks_here(&self) -> usize {
        self.0.ranks_here()
    }
    fn all_max(&self, values: &mut [u64]) -> Result<(), Error> {
        self.count();
        self.0.all_max(values)
    }
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.count();
        self.0.all_gather(mine)
    }
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        self.count();
        self.0.broadcast(root, bytes)
    }
    fn start_send(&self, to: usize, bytes: Outgoing) -> Result<Message, Error> {
        self.0.start_send(to, bytes)
    }
    fn start_receive(&self, from: usize, into: Incoming) -> Result<Message, Error> {
        self.0.start_receive(from, into)
    }
    fn test(&self, message: Message) -> Result<Tested, Error> {
        self.0.test(message)
    }
    fn failed(&self) -> Result<Vec<usize>, Error> {
        self.0.failed()
    }
    fn shrink(&self, divided: Divided) -> Result<Box<dyn Group>, Error> {
        self.0.shrink(divided).map(|group| Box::new(Mortal(group)) as Box<dyn Group>)
    }
}

/// This rank's part of a common field, protected.
#[allow(unsafe_code)]
fn part(session: &mut Session) -> Result<Vec<u64>, Error> {
    let [first, end] = [0, 1].map(|next| (session.rank() + next) * CELLS / session.size());
    let mut cells = vec![0; end - first];
    let place = PlaceInWhole { global_shape: vec![CELLS as u64], offset: vec![first as u64] };
    session.unprotect_all()?;
    // SAFETY: the cells are on the heap, and stay there as long as they are protected.
    let region =
        unsafe { Region::placed("field", cells.as_mut_ptr().cast(), ElementType::U64, &[cells.len() as u64], place) };
    session.protect(region?)?;
    Ok(cells)
}

/// Runs from the newest revision to the end. Returns whether the rank comes there.
fn work(session: &mut Session, dies: Option<Dies>, is_back: bool) -> Result<bool, Error> {
    let mut cells = part(session)?;
    session.restore()?;
    if is_back && dies == Some(Dies::Restored) {
        return Ok(false);
    }
    for next in cells[0] + 1..=STEPS {
        cells.fill(next);
        session.checkpoint()?;
        session.wait()?;
        if next == 1 && dies == Some(Dies::Saved) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The life of a rank, with the moment of its failure.
fn live(home: &Path, group: ThreadGroup, recovery: Recovery, dies: Option<Dies>) {
    let config = Config {
        memory: LevelPlace::At(home.join("memory")),
        memory_copies: 1,
        pool_directory: home.join("memory"),
        pool_bytes: Some(256 << 10),
        chunk_bytes: Some(16 << 10),
        io_threads: 1,
        pfs_every: 1,
        recovery,
        ..Config::default()
    };
    let mut session = Session::open(Box::new(Mortal(Box::new(group))), &home.join("space"), config).unwrap();
    let mut is_back = false;
    loop {
        match work(&mut session, dies, is_back) {
            Ok(true) => return session.close().unwrap(),
            Ok(false) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::GroupFailed, "{error}"),
        }
        if let (Some(Dies::Recovering(collective)), true) = (dies, is_back) {
            LEFT.set(Some(collective));
        }
        session.recover().unwrap();
        LEFT.set(None);
        is_back = true;
    }
}

/// A job with failing `victims`. Returns the ranks that failed in each recovery, from `status` and from the journal.
fn told(recovery: Recovery, victims: &[(usize, Dies)]) -> [Vec<Vec<u32>>; 2] {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::create_dir(home.path().join("memory")).unwrap();
    let spares = if recovery == Recovery::Replace { victims.len() } else { 0 };
    let (groups, spares) = ThreadGroup::with_spares(RANKS, spares);
    bounded("a job whose recoveries are told", || {
        thread::scope(|scope| {
            let home = home.path();
            for group in groups {
                let dies = victims.iter().find(|(victim, _)| *victim == group.rank()).map(|(_, dies)| *dies);
                scope.spawn(move || {
                    let lived = catch_unwind(AssertUnwindSafe(|| live(home, group, recovery, dies)));
                    assert!(lived.is_ok() || matches!(dies, Some(Dies::Recovering(_))), "{lived:?}");
                });
            }
            for spare in spares {
                scope.spawn(move || spare.recv().into_iter().for_each(|group| live(home, group, recovery, None)));
            }
        });
    });
    let space = home.path().join("space");
    let status = Status::read(&space).unwrap().unwrap().progress;
    assert_eq!(status.recovered, status.recoveries.len() as u64);
    let noted = Journal::read(&space).unwrap().unwrap().entries.into_iter().filter_map(|entry| match entry.event {
        Event::Recovered(recovery) => Some(recovery.failed),
        _ => None,
    });
    [status.recoveries.into_iter().map(|recovery| recovery.failed).collect(), noted.collect()]
}

/// Records that were not written yet were lost with rank 0. A spare or another rank took its place.
#[test]
fn a_recovery_is_told_though_rank_0_fails_before_it_was_written() {
    for recovery in [Recovery::Replace, Recovery::Shrink] {
        let all = told(recovery, &[(1, Dies::Saved), (0, Dies::Restored)]);
        assert_eq!(all, [vec![vec![1], vec![0]], vec![vec![1], vec![0]]], "{recovery:?}");
    }
}

/// Earlier records were gone once an opening had failed.
#[test]
fn a_recovery_is_told_though_a_rank_fails_while_the_next_goes_on() {
    for collective in (0..).step_by(3) {
        let all = told(Recovery::Replace, &[(1, Dies::Saved), (2, Dies::Restored), (3, Dies::Recovering(collective))]);
        if all == [vec![vec![1], vec![2]], vec![vec![1], vec![2]]] {
            assert!(collective > 10, "no rank has failed in an opening");
            return;
        }
        assert_eq!(all, [vec![vec![1], vec![2, 3]], vec![vec![1], vec![2, 3]]], "in collective {collective}");
    }
}

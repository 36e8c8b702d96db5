//! Few ranks write for all: the result is the same for every writer, and no other rank writes.

use crate::support::{
    State, aggregating,
    between::{Between, Watched},
    filled, run,
};
use mainstay_engine::{
    Config, Error, ErrorKind, Result, Session, SpaceSurvey, Stage, Start,
    device::{Access, Device, Disk, File},
    group::Group,
    space::Per,
};
use std::{
    cell::RefCell,
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Where ranks meet apart from their sessions.
struct Meeting {
    ranks: usize,
    came: AtomicUsize,
}

impl Meeting {
    fn of(ranks: usize) -> Meeting {
        Meeting { ranks, came: AtomicUsize::new(0) }
    }

    #[track_caller]
    fn wait(&self) {
        let all = (self.came.fetch_add(1, SeqCst) / self.ranks + 1) * self.ranks;
        let until = Instant::now() + Duration::from_secs(60);
        while self.came.load(SeqCst) < all {
            assert!(Instant::now() < until, "a rank has not come");
            thread::yield_now();
        }
    }
}

/// What rank `rank` has after `step`: each has another size, one next to nothing.
fn state(rank: usize, step: u64) -> State {
    let mut state = State::new();
    state.field = vec![0.0; [3, 50_001, 20_480, 100_000, 7_777][rank % 5]];
    filled(&mut state, rank, step);
    state
}

/// Saves `steps` in one session, whatever is in the space, and gives it back with its state.
fn saved(group: Box<dyn Group>, device: Arc<dyn Device>, config: &Config, steps: &[u64]) -> (Session, Box<State>) {
    let rank = group.rank();
    let mut session = Session::open_on(group, device, Config { start: Start::Fresh, ..config.clone() }).unwrap();
    let mut mine = Box::new(state(rank, 0));
    mine.protect(&mut session);
    for step in steps {
        filled(&mut mine, rank, *step);
        session.checkpoint().unwrap();
    }
    (session, mine)
}

#[track_caller]
fn restores(ranks: usize, folder: &Path, config: &Config, step: u64) {
    run(ranks, |rank, group| {
        let device = Arc::new(Disk::make(folder).unwrap());
        let (mut session, mine) = saved(group, device, config, &[]);
        let restored = session.restore().unwrap().unwrap();
        assert_eq!(restored.skipped, Vec::<String>::new());
        assert!(*mine == state(rank, step), "rank {rank} has other bytes than those of step {step}");
        session.close().unwrap();
    });
}

#[test]
fn what_few_write_comes_back_bit_for_bit_to_all() {
    for stage in [Stage::Pool, Stage::Node, Stage::Rank, Stage::Direct] {
        for (ranks, aggregators, per, keep) in
            [(5, 1, Per::App, 1), (5, 2, Per::Rank, 2), (4, 3, Per::Node, 1), (3, 3, Per::App, 1), (3, 9, Per::App, 1)]
        {
            let folder = TempDir::new().unwrap();
            let config = Config { stage, per, keep, ..aggregating(aggregators) };
            run(ranks, |_, group| {
                let device = Arc::new(Disk::make(folder.path()).unwrap());
                let (session, _state) = saved(group, device, &config, &[1, 2, 3]);
                session.close().unwrap();
            });
            restores(ranks, folder.path(), &config, 3);
            // Whoever wrote it: what is in the space does not say.
            restores(ranks, folder.path(), &Config { aggregators: 0, ..config.clone() }, 3);
            // In a space that is there, and after a restore in the middle.
            run(ranks, |rank, group| {
                let device = Arc::new(Disk::make(folder.path()).unwrap());
                let (mut session, mut mine) = saved(group, device, &config, &[4]);
                session.wait().unwrap();
                filled(&mut mine, rank, 99);
                assert_eq!(session.restore().unwrap().unwrap().revision, 4);
                assert!(*mine == state(rank, 4));
                filled(&mut mine, rank, 5);
                session.checkpoint().unwrap();
                let record = session.wait().and_then(|()| session.last_record()).unwrap().unwrap();
                assert_eq!(record.revision, 5);
                assert!(record.phases.durable_ns > 0 && record.phases.perceived_ns > 0, "{record:?}");
                session.close().unwrap();
            });
            restores(ranks, folder.path(), &config, 5);
        }
    }
}

/// With far more than a pool holds, and pieces that come before anybody listens.
#[test]
fn streams_of_members_come_back() {
    for stage in [Stage::Pool, Stage::Node, Stage::Rank, Stage::Direct] {
        let folder = TempDir::new().unwrap();
        let config = Config { stage, shard_bytes: 4 << 20, ..aggregating(1) };
        let bytes = |rank: usize| {
            let mut random = fastrand::Rng::with_seed(rank as u64);
            std::iter::repeat_with(|| random.u8(..)).take(1_500_000 + 1234 * rank).collect::<Vec<u8>>()
        };
        run(3, |rank, group| {
            let device = Arc::new(Disk::make(folder.path()).unwrap());
            let (mut session, mut mine) = saved(group, device, &config, &[1]);
            let all = bytes(rank);
            session.begin(2 * all.len() as u64).unwrap();
            filled(&mut mine, rank, 2);
            // Backwards, small and large, and a part twice.
            let (head, tail) = all.split_at(700_000);
            session.write("tail", 0, tail).unwrap();
            for (nth, piece) in head.chunks(4567).enumerate().collect::<Vec<_>>().into_iter().rev() {
                session.write("head", nth as u64 * 4567, piece).unwrap();
            }
            session.write("head", 100, &head[100..300_000]).unwrap();
            session.checkpoint().unwrap();
            session.close().unwrap();
        });
        run(3, |rank, group| {
            let device = Arc::new(Disk::make(folder.path()).unwrap());
            let (mut session, mine) = saved(group, device, &config, &[]);
            session.restore().unwrap().unwrap();
            assert!(*mine == state(rank, 2), "{stage:?}");
            let all = bytes(rank);
            for (name, expected) in [("head", &all[..700_000]), ("tail", &all[700_000..])] {
                let mut read = vec![0; session.stream_bytes(name).unwrap() as usize];
                assert_eq!(session.read(name, 0, &mut read).unwrap(), read.len());
                assert!(read == expected, "{stage:?}: {name} of rank {rank}");
            }
            session.close().unwrap();
        });
    }
}

/// Counts what one rank does to files, and fails its writes or syncs on demand.
#[derive(Debug, Default)]
struct One {
    writes: AtomicU64,
    syncs: AtomicU64,
    others: AtomicU64,
    write_fails: AtomicI32,
    /// Which sync fails, counted as above; 0: none.
    sync_fails: AtomicU64,
    /// Only the writes of so many bytes fail.
    of_bytes: AtomicU64,
}

impl Between for One {
    fn open(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.others.fetch_add(1, SeqCst);
        disk.open(name, access)
    }
    fn list(&self, disk: &Disk) -> io::Result<Vec<String>> {
        self.others.fetch_add(1, SeqCst);
        disk.list()
    }
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.writes.fetch_add(1, SeqCst);
        let only = self.of_bytes.load(SeqCst);
        match self.write_fails.load(SeqCst) {
            number if number != 0 && only == bytes.len() as u64 => Err(io::Error::from_raw_os_error(number)),
            _ => file.write_at(bytes, offset),
        }
    }
    fn sync(&self, file: &dyn File) -> io::Result<()> {
        if self.syncs.fetch_add(1, SeqCst) + 1 == self.sync_fails.load(SeqCst) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        file.sync()
    }
}

#[test]
fn only_aggregators_write_at_a_checkpoint_and_nobody_opens_a_file() {
    for stage in [Stage::Pool, Stage::Node, Stage::Rank, Stage::Direct] {
        for per in [Per::App, Per::Rank] {
            let (folder, all) = (TempDir::new().unwrap(), Meeting::of(5));
            let config = Config { stage, per, keep: 2, ..aggregating(2) };
            let counts = run(5, |rank, group| {
                let device = Watched::new(Disk::make(folder.path()).unwrap(), One::default());
                let (mut session, mut mine) = saved(group, Arc::new(device.clone()), &config, &[1]);
                session.wait().unwrap();
                let one = &device.between;
                let now = || [&one.writes, &one.syncs, &one.others].map(|count| count.load(SeqCst));
                all.wait();
                let before = now();
                for step in 2..=6 {
                    filled(&mut mine, rank, step);
                    session.checkpoint().unwrap();
                }
                session.wait().unwrap();
                all.wait();
                let after = now();
                session.close().unwrap();
                [0, 1, 2].map(|kind| after[kind] - before[kind])
            });
            for (rank, [writes, syncs, others]) in counts.into_iter().enumerate() {
                // Of 5 ranks, 2 write: 0 for itself and 1, 2 for itself, 3 and 4. A root has two syncs.
                let serves = [2, 0, 3, 0, 0][rank];
                assert!(
                    syncs >= 5 * 2 * serves && writes >= 5 * 3 * serves,
                    "{stage:?}, rank {rank}: {writes}, {syncs}"
                );
                assert!(
                    serves > 0 || (writes, syncs) == (0, 0),
                    "{stage:?}: rank {rank} wrote {writes}, synced {syncs}"
                );
                assert_eq!(others, 0, "{stage:?}, {per:?}: rank {rank} opened or listed");
            }
            restores(5, folder.path(), &config, 6);
        }
    }
}

fn kind_of<T: std::fmt::Debug>(result: &Result<T>) -> Option<ErrorKind> {
    result.as_ref().err().map(Error::kind)
}

/// A revision whose writes fail is lost, and told so to all by name; what was complete stays, and the next one is saved.
#[test]
fn a_write_that_fails_in_an_aggregator_is_told_to_its_members() {
    for (number, kind) in [(EIO, ErrorKind::Io), (ENOSPC, ErrorKind::DiskFull)] {
        for stage in [Stage::Pool, Stage::Rank, Stage::Direct] {
            let (folder, all) = (TempDir::new().unwrap(), Meeting::of(3));
            let config = Config { stage, ..aggregating(1) };
            run(3, |rank, group| {
                let device = Watched::new(Disk::make(folder.path()).unwrap(), One::default());
                let (mut session, mut mine) = saved(group, Arc::new(device.clone()), &config, &[1]);
                session.wait().unwrap();
                // Not those of rank 0's own shard, which is smaller than a buffer.
                device.between.of_bytes.store(64 << 10, SeqCst);
                device.between.write_fails.store(if rank == 0 { number } else { 0 }, SeqCst);
                all.wait();
                filled(&mut mine, rank, 2);
                session.checkpoint().unwrap();
                let waited = session.wait();
                assert_eq!(kind_of(&waited), Some(kind), "{stage:?}, rank {rank}: {waited:?}");
                let text = waited.unwrap_err().to_string();
                assert!(text.contains("on rank ") && text.contains("revision 2 was not saved"), "{text}");
                if rank > 0 {
                    assert!(text.contains("on rank 0: revision 2") && text.contains("(portion of rank "), "{text}");
                }
                all.wait();
                device.between.write_fails.store(0, SeqCst);
                all.wait();
                assert_eq!(session.restore().unwrap().unwrap().revision, 1);
                assert!(*mine == state(rank, 1));
                filled(&mut mine, rank, 3);
                session.checkpoint().unwrap();
                session.wait().unwrap();
                session.close().unwrap();
            });
            restores(3, folder.path(), &config, 3);
        }
    }
}

/// After a failed sync nothing more is written to the portion that it was of, by whomever.
#[test]
fn a_sync_that_fails_in_an_aggregator_stops_its_member() {
    let (folder, all) = (TempDir::new().unwrap(), Meeting::of(3));
    let config = Config { stage: Stage::Direct, ..aggregating(1) };
    run(3, |rank, group| {
        let device = Watched::new(Disk::make(folder.path()).unwrap(), One::default());
        let (mut session, mut mine) = saved(group, Arc::new(device.clone()), &config, &[1]);
        session.wait().unwrap();
        all.wait();
        if rank == 0 {
            // Its own shard, which comes first, has two: that of the data of rank 1.
            device.between.sync_fails.store(device.between.syncs.load(SeqCst) + 3, SeqCst);
        }
        for step in 2..=3 {
            filled(&mut mine, rank, step);
            let begun = session.checkpoint().map(drop);
            let saved = begun.and(session.wait());
            assert_eq!(kind_of(&saved), Some(ErrorKind::SyncFailed), "rank {rank}, step {step}: {saved:?}");
            let text = saved.unwrap_err().to_string();
            assert!(text.contains("on rank 1: on rank 0: ") || (rank == 1 && text.contains("on rank 0: ")), "{text}");
        }
        assert_eq!(kind_of(&session.close()), Some(ErrorKind::SyncFailed));
    });
    restores(3, folder.path(), &config, 1);
}

/// A rank that sends its first whole piece again, so many times.
struct Repeating {
    group: Box<dyn Group>,
    times: Arc<AtomicUsize>,
    /// The word that a piece comes after: its length, and itself.
    last: RefCell<[Vec<u8>; 2]>,
}

impl Group for Repeating {
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
        self.group.all_max(values)
    }
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.group.all_gather(mine)
    }
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        self.group.broadcast(root, bytes)
    }
    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        self.group.send(to, bytes)?;
        if bytes.len() == 64 << 10 {
            let [length, word] = &*self.last.borrow();
            let again = |_| [&length[..], word, bytes].iter().try_for_each(|part| self.group.send(to, part));
            return (0..self.times.swap(0, SeqCst)).try_for_each(again);
        }
        let mut last = self.last.borrow_mut();
        last.rotate_left(1);
        last[1] = bytes.to_vec();
        Ok(())
    }
    fn receive(&self, from: usize, into: &mut [u8]) -> Result<()> {
        self.group.receive(from, into)
    }
}

/// A member that never ends takes no room that is not its own, and ends nobody's job.
#[test]
fn more_pieces_than_a_shard_can_have_are_refused() {
    let folder = TempDir::new().unwrap();
    run(3, |rank, group| {
        let times = Arc::new(AtomicUsize::new(0));
        let group = Repeating { group, times: times.clone(), last: RefCell::default() };
        let device = Arc::new(Disk::make(folder.path()).unwrap());
        let (mut session, mut mine) = saved(Box::new(group), device, &aggregating(1), &[1]);
        session.wait().unwrap();
        times.store(if rank == 1 { 20 } else { 0 }, SeqCst);
        filled(&mut mine, rank, 2);
        session.checkpoint().unwrap();
        let waited = session.wait();
        assert_eq!(kind_of(&waited), Some(ErrorKind::Internal), "rank {rank}: {waited:?}");
        let text = waited.unwrap_err().to_string();
        assert!(text.contains("on rank 0: ") && text.contains("rank 1 sends more pieces than it can have"), "{text}");
        filled(&mut mine, rank, 3);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.close().unwrap();
    });
    restores(3, folder.path(), &aggregating(1), 3);
}

/// Those of all its members stay open: more than are left open otherwise. Whatever became of their names.
#[test]
fn an_aggregator_opens_no_file_of_a_member_again() {
    const RANKS: usize = 12;
    let (folder, moved, all) = (TempDir::new().unwrap(), TempDir::new().unwrap(), Meeting::of(RANKS));
    let config = Config { per: Per::Rank, ..aggregating(1) };
    let layouts_to = |rank: usize, from: &Path, to: &Path| {
        all.wait();
        if rank == 0 {
            let names = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().file_name());
            let layouts: Vec<_> = names.filter(|name| name.to_str().unwrap().starts_with("layout-")).collect();
            assert_eq!(layouts.len(), RANKS);
            layouts.iter().for_each(|name| fs::rename(from.join(name), to.join(name)).unwrap());
        }
        all.wait();
    };
    run(RANKS, |rank, group| {
        let device = Arc::new(Disk::make(folder.path()).unwrap());
        let (mut session, mut mine) = saved(group, device, &config, &[1]);
        session.wait().unwrap();
        layouts_to(rank, folder.path(), moved.path());
        filled(&mut mine, rank, 2);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        layouts_to(rank, moved.path(), folder.path());
        session.close().unwrap();
    });
    restores(RANKS, folder.path(), &config, 2);
}

/// What a rank gives up, alone or with all, leaves no message that nobody takes.
#[test]
fn a_checkpoint_that_is_given_up_is_followed_by_one_that_is_not() {
    let folder = TempDir::new().unwrap();
    for unready in 0..3 {
        run(3, |rank, group| {
            let device = Arc::new(Disk::make(folder.path()).unwrap());
            let config = Config { shard_bytes: 2 << 20, ..aggregating(1) };
            let (mut session, mut mine) = saved(group, device, &config, &[1]);
            filled(&mut mine, rank, 2);
            // Before it has begun: all are told.
            let checkpoint = |session: &mut Session| {
                if rank == unready {
                    session.refuse(Error::argument("rank", "not ready"));
                }
                session.checkpoint()
            };
            assert_eq!(kind_of(&checkpoint(&mut session)), Some(ErrorKind::InvalidArgument));
            session.begin(300_000).unwrap();
            session.write("piece", 0, &[7; 200_000]).unwrap();
            session.abandon().unwrap();
            // After it has: whoever it is learns it at once, the others when they ask.
            session.begin(300_000).unwrap();
            session.write("piece", 0, &[7; 200_000]).unwrap();
            assert_eq!(kind_of(&checkpoint(&mut session)).is_some(), rank == unready);
            assert_eq!(kind_of(&session.wait()), Some(ErrorKind::InvalidArgument));
            // More than was announced.
            session.begin(10).unwrap();
            let written = session.write("piece", 0, &vec![7; if rank == unready { 500_000 } else { 10 }]);
            assert_eq!(kind_of(&written.and(session.checkpoint().map(drop))).is_some(), rank == unready);
            assert_eq!(kind_of(&session.wait()), Some(ErrorKind::InvalidArgument));
            session.begin(0).unwrap();
            assert!(session.restore().unwrap().is_some());
            assert!(*mine == state(rank, 1));
            filled(&mut mine, rank, 3);
            session.checkpoint().unwrap();
            session.close().unwrap();
        });
        restores(3, folder.path(), &aggregating(1), 3);
    }
}

/// Saves `bytes` bytes of each rank, and nothing else.
fn put(session: &mut Session, bytes: usize) -> Result<u64> {
    session.put("state", &vec![7; bytes])
}

/// A first checkpoint that was too large had made the files of the space. The aggregator had not opened those of its members
/// then, and every checkpoint that followed in the session failed for that.
#[test]
fn a_checkpoint_follows_a_first_one_that_was_too_large() {
    for per in [Per::App, Per::Rank] {
        let folder = TempDir::new().unwrap();
        let config = Config { per, portion_bytes: 1 << 20, ..aggregating(1) };
        run(3, |_, group| {
            let device = Arc::new(Disk::make(folder.path()).unwrap());
            let mut session = Session::open_on(group, device, config.clone()).unwrap();
            assert_eq!(kind_of(&put(&mut session, 2 << 20)), Some(ErrorKind::PortionTooSmall));
            assert_eq!(put(&mut session, 100_000).unwrap(), 1);
            session.close().unwrap();
        });
        let survey = SpaceSurvey::open(folder.path()).unwrap();
        assert_eq!((survey.layouts.len(), survey.revisions.len()), (if per == Per::App { 1 } else { 3 }, 1));
    }
}

/// The first layout file that is opened to be written to cannot be opened.
#[derive(Debug, Default)]
struct OpenFails(AtomicUsize);

impl Between for OpenFails {
    fn open(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        if name.starts_with("layout-") && access == Access::Write && self.0.fetch_add(1, SeqCst) == 0 {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        disk.open(name, access)
    }
}

/// What an aggregator could not open once, it opens for the next checkpoint.
#[test]
fn a_checkpoint_follows_one_whose_files_an_aggregator_could_not_open() {
    let folder = TempDir::new().unwrap();
    run(3, |rank, group| {
        let failing = OpenFails(AtomicUsize::new(usize::from(rank > 0)));
        let device = Arc::new(Watched::new(Disk::make(folder.path()).unwrap(), failing));
        let mut session = Session::open_on(group, device.clone(), aggregating(1)).unwrap();
        let failed = put(&mut session, 100_000);
        assert_eq!(kind_of(&failed), Some(ErrorKind::Io), "rank {rank}: {failed:?}");
        assert_eq!(put(&mut session, 100_000).unwrap(), 1);
        assert!(rank > 0 || device.between.0.load(SeqCst) > 1);
        session.close().unwrap();
    });
}

/// A member that asks in a loop is told, although its aggregator calls nothing meanwhile; and that a shard is not there
/// before it is.
#[test]
fn a_member_that_asks_learns_what_the_medium_shows() {
    let (folder, asked) = (TempDir::new().unwrap(), Meeting::of(3));
    run(3, |rank, group| {
        let device = Arc::new(Disk::make(folder.path()).unwrap());
        let (mut session, mut mine) = saved(group, device, &aggregating(1), &[]);
        for step in 1..=3 {
            filled(&mut mine, rank, step);
            session.begin(0).unwrap();
            assert!(!session.poll().unwrap());
            session.checkpoint().unwrap();
            let until = Instant::now() + Duration::from_secs(60);
            while !session.poll().unwrap() {
                assert!(Instant::now() < until, "rank {rank} never learns of step {step}");
                thread::yield_now();
            }
            let survey = SpaceSurvey::open(folder.path()).unwrap();
            let revision = survey.revisions.iter().find(|revision| revision.key.number == step).unwrap();
            assert!(
                revision.missing().iter().all(|missing| !missing.contains(&(rank as u32))),
                "rank {rank}, step {step}"
            );
            // Not before all have asked: nobody waits for the others in a call of the session.
            asked.wait();
        }
        session.close().unwrap();
    });
    restores(3, folder.path(), &aggregating(1), 3);
}

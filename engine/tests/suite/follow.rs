//! Programs with several time levels swap their pointers and grow their arrays: followed regions come back at the
//! targets of the pointers, in any memory. Protected by address alone, two swapped levels came back exchanged.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::{in_sessions, small_pool};
use mainstay_engine::{
    Config, Error, ErrorKind, Region, Result, Session, Stage, group::Solo, space::format::ElementType,
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};
use tempfile::TempDir;

const NAMES: [&str; 3] = ["cur", "prev", "older"];
const CELLS: usize = 20_001;

/// A pointer variable of the program.
type Pointer = Arc<AtomicPtr<u64>>;

/// Time levels, each behind a pointer.
struct Levels {
    memory: Vec<Box<[u64]>>,
    pointers: Vec<Pointer>,
}

impl Levels {
    fn new(levels: usize, cells: usize) -> Levels {
        let mut memory: Vec<Box<[u64]>> = (0..levels).map(|_| vec![0; cells].into()).collect();
        let pointers = memory.iter_mut().map(|memory| Arc::new(AtomicPtr::new(memory.as_mut_ptr()))).collect();
        Levels { memory, pointers }
    }

    /// The index of the memory that each pointer points to.
    fn order(&self) -> Vec<usize> {
        let of = |pointer: &Pointer| {
            let at = pointer.load(Ordering::Relaxed).cast_const();
            self.memory.iter().position(|memory| memory.as_ptr() == at).unwrap()
        };
        self.pointers.iter().map(of).collect()
    }

    fn level(&mut self, level: usize) -> &mut [u64] {
        let index = self.order()[level];
        &mut self.memory[index]
    }

    /// Takes one step: each level becomes the one before it, and the oldest memory gets the new level.
    fn step(&mut self, rank: usize, step: u64) {
        let mut order: Vec<_> = self.pointers.iter().map(|pointer| pointer.load(Ordering::Relaxed)).collect();
        order.rotate_right(1);
        self.pointers.iter().zip(order).for_each(|(pointer, to)| pointer.store(to, Ordering::Relaxed));
        self.level(0).iter_mut().enumerate().for_each(|(cell, value)| *value = value_of(rank, step, cell));
    }

    fn protect(&mut self, session: &mut Session) {
        for (name, pointer) in NAMES.iter().zip(&self.pointers) {
            session.protect(region(name, pointer, self.memory[0].len())).unwrap();
            session.follow(name, following(pointer)).unwrap();
        }
    }

    fn unprotect(&self, session: &mut Session) {
        NAMES.iter().take(self.pointers.len()).for_each(|name| session.unprotect(name).unwrap());
    }

    /// Every level must hold its own step.
    #[track_caller]
    fn hold(&mut self, rank: usize, step: u64) {
        for (level, name) in NAMES.iter().enumerate().take(self.pointers.len()) {
            let wanted = |cell| step.checked_sub(level as u64).map_or(0, |step| value_of(rank, step, cell));
            let wrong = self.level(level).iter().enumerate().position(|(cell, value)| *value != wanted(cell));
            assert_eq!(wrong, None, "{name} of rank {rank} is not that of step {step}");
        }
    }
}

fn value_of(rank: usize, step: u64, cell: usize) -> u64 {
    if step == 0 { 0 } else { (rank as u64) << 40 | step << 20 | cell as u64 }
}

fn region(name: &str, pointer: &Pointer, cells: usize) -> Region {
    let address = pointer.load(Ordering::Relaxed).cast();
    // SAFETY: the tests keep the memory for as long as it is protected.
    unsafe { Region::array(name, address, ElementType::U64, &[cells as u64]) }.unwrap()
}

fn following(pointer: &Pointer) -> impl Fn(&Region) -> Result<Region> + Send + Sync + 'static {
    let pointer = pointer.clone();
    // SAFETY: as above.
    move |region| unsafe { region.at(pointer.load(Ordering::Relaxed).cast(), None) }
}

fn alone(space: &Path, work: impl FnOnce(&mut Session)) {
    let mut session = Session::open(Box::new(Solo), space, Config::default()).unwrap();
    work(&mut session);
    session.close().unwrap();
}

fn direct() -> Config {
    Config { stage: Stage::Direct, ..Config::default() }
}

/// The test has two or three levels. It saves after any number of steps, and restores after any number of swaps. It
/// calls `checkpoint` alone, or `begin` before the last steps.
#[test]
fn swapped_levels_come_back_where_the_pointers_point() {
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (levels, ranks) = (random.usize(2..=3), random.usize(1..=3));
        let config = [small_pool(), direct()][random.usize(0..2)].clone();
        let (between, swaps, in_pieces) = (random.u64(1..4), random.u64(0..4), random.bool());
        let folder = TempDir::new_in("/dev/shm").unwrap();
        let mut last = 0;
        for _ in 0..3 {
            let saved = last;
            let ended = in_sessions(folder.path(), ranks, &config, |rank, session| {
                let (mut all, mut step) = (Levels::new(levels, CELLS), saved);
                all.protect(session);
                (0..swaps).for_each(|_| all.step(rank, 900));
                let restored = session.restore().unwrap();
                assert_eq!(restored.is_some(), saved > 0, "seed {seed}");
                if saved > 0 {
                    all.hold(rank, saved);
                } else {
                    all.memory.iter_mut().for_each(|memory| memory.fill(0));
                }
                for _ in 0..3 {
                    if in_pieces {
                        session.begin(0).unwrap();
                    }
                    for _ in 0..between {
                        step += 1;
                        all.step(rank, step);
                    }
                    session.checkpoint().unwrap();
                    all.memory.iter_mut().for_each(|memory| memory.fill(77)); // after t2 the memory may change
                    session.wait().unwrap();
                    session.restore().unwrap().unwrap();
                    all.hold(rank, step);
                }
                all.unprotect(session);
                step
            });
            last = ended[0];
        }
    }
}

/// The next checkpoint works, and saves the current targets of the pointers.
#[test]
fn a_null_pointer_is_refused_on_all_ranks_by_name() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    in_sessions(folder.path(), 2, &direct(), |rank, session| {
        let mut all = Levels::new(2, CELLS);
        all.protect(session);
        all.step(rank, 1);
        session.checkpoint().unwrap();
        let there = all.pointers[1].load(Ordering::Relaxed);
        for call in ["checkpoint", "begin", "restore"] {
            if rank == 1 {
                all.pointers[1].store(std::ptr::null_mut(), Ordering::Relaxed);
            }
            let error = match call {
                "checkpoint" => session.checkpoint().unwrap_err(),
                "begin" => session.begin(1000).unwrap_err(),
                _ => session.restore().map(drop).unwrap_err(),
            };
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let text = error.to_string();
            assert!(
                text.contains("\"prev\": a null pointer") && (rank == 1 || text.starts_with("on rank 1: ")),
                "{text}"
            );
            all.pointers[1].store(there, Ordering::Relaxed);
            all.hold(rank, 1);
        }
        all.step(rank, 2);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        all.step(rank, 3);
        session.restore().unwrap().unwrap();
        all.hold(rank, 2);
        all.unprotect(session);
    });
}

/// If the program called `begin`, `checkpoint` refuses the new size on this rank, and the next wait reports it on all
/// ranks.
#[test]
fn a_size_that_changes_before_a_checkpoint_in_pieces_has_ended_is_refused() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    in_sessions(folder.path(), 2, &direct(), |rank, session| {
        let mut memory = vec![rank as u64; 100];
        let (address, count) = (Arc::new(AtomicPtr::new(memory.as_mut_ptr())), Arc::new(AtomicPtr::default()));
        session.protect(region("list", &address, 50)).unwrap();
        let (at, of) = (address.clone(), count.clone());
        let look = move |region: &Region| {
            let count = of.load(Ordering::Relaxed) as u64;
            // SAFETY: as above.
            unsafe { region.at(at.load(Ordering::Relaxed).cast(), Some(count)) }
        };
        let set = |cells: usize| count.store(std::ptr::without_provenance_mut::<u64>(cells), Ordering::Relaxed);
        set(50);
        session.follow("list", look).unwrap();
        session.begin(0).unwrap();
        if rank == 1 {
            set(60);
        }
        let ended = session.checkpoint();
        assert_eq!(ended.is_err(), rank == 1);
        let text = session.wait().unwrap_err().to_string();
        assert!(text.contains("\"list\": it was u64 50 (400 bytes) when the checkpoint began"), "{text}");

        // A checkpoint without `begin` saves the grown size.
        set(60 + rank * 10);
        session.checkpoint().unwrap();
        memory.fill(0);
        session.wait().unwrap();
        session.restore().unwrap().unwrap();
        assert_eq!(memory.iter().filter(|value| **value == rank as u64).count(), [100, 70][rank]);
        session.unprotect("list").unwrap();
    });
}

/// A restore would fill the common memory twice.
#[test]
fn two_pointers_to_the_same_memory_are_refused_at_a_restore() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    alone(folder.path(), |session| {
        let mut all = Levels::new(3, CELLS);
        all.protect(session);
        all.step(0, 1);
        let there = all.pointers[1].load(Ordering::Relaxed);
        for cells in [0, CELLS - 1] {
            // SAFETY: inside the memory; the last two overlap by one cell, and nothing is filled.
            let inside = unsafe { all.pointers[2].load(Ordering::Relaxed).add(cells) };
            all.pointers[1].store(inside, Ordering::Relaxed);
            let error = session.restore().map(drop).unwrap_err().to_string();
            assert!(error.contains("it overlaps \"") && error.contains("\"prev\""), "{error}");
        }
        all.pointers[1].store(there, Ordering::Relaxed);
        // A checkpoint may save both: the pointers may be equal before the first step.
        session.checkpoint().unwrap();
        session.restore().unwrap().unwrap();
        all.hold(0, 1);
        all.unprotect(session);
    });
}

#[test]
fn a_region_that_has_moved_or_grown_is_protected_where_it_is() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    alone(folder.path(), |session| {
        let mut first: Vec<u64> = (0..1000).collect();
        let mut second: Vec<u64> = (0..3000).map(|cell| cell * 7).collect();
        let wanted = second.clone();
        // SAFETY: the memory outlives the session's regions.
        unsafe {
            let region = Region::array("list", first.as_mut_ptr().cast(), ElementType::U64, &[1000]).unwrap();
            session.protect(region).unwrap();
            session.checkpoint().unwrap();
            session.move_to("list", second.as_mut_ptr().cast(), Some(&[3000])).unwrap();
        }
        drop(first);
        session.checkpoint().unwrap();
        second.fill(0);
        session.restore().unwrap().unwrap();
        assert_eq!(second, wanted);
        // The region moves to other memory with the same shape.
        let mut third = vec![0_u64; 3000];
        // SAFETY: as above.
        unsafe { session.move_to("list", third.as_mut_ptr().cast(), None).unwrap() };
        session.restore().unwrap().unwrap();
        assert_eq!(third, wanted);
        session.unprotect("list").unwrap();
    });
}

#[test]
fn what_cannot_be_moved_or_followed_is_refused() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    alone(folder.path(), |session| {
        let mut memory = [0_u64; 64];
        let (mut other, mut ghosts) = ([0_u64; 64], [0_u64; 48]);
        let pointer = Arc::new(AtomicPtr::new(memory.as_mut_ptr()));
        let elsewhere = Arc::new(AtomicPtr::new(other.as_mut_ptr()));
        let refused = |done: Result<()>, words: &str| {
            let error: Error = done.unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        };
        let address = memory.as_mut_ptr().cast();
        // SAFETY: the protected memory outlives the session's regions.
        unsafe {
            let of = |name: &str, element| Region::array(name, address, element, &[8, 4]).unwrap();
            session.protect(of("a", ElementType::U64)).unwrap();
            let inside = Region::array("inside", ghosts.as_mut_ptr().cast(), ElementType::U64, &[8, 4]).unwrap();
            session.protect(inside.within(&[8, 6], &[0, 1]).unwrap()).unwrap();

            refused(session.move_to("b", address, None), "\"b\" is not protected");
            refused(session.follow("b", following(&pointer)), "\"b\" is not protected");
            refused(session.move_to("a", std::ptr::null_mut(), None), "a null pointer");
            refused(session.move_region(of("a", ElementType::I64)), "it was protected as u64 8 x 4");
            refused(session.move_to("inside", address, Some(&[7, 4])), "it is the inside of a larger array");
            refused(session.follow("a", following(&elsewhere)), "does not point to the region");

            session.follow("a", following(&pointer)).unwrap();
            refused(session.move_to("a", other.as_mut_ptr().cast(), None), "does not point to the region");
            session.begin(0).unwrap();
            refused(session.move_to("a", address, None), "a checkpoint has begun");
            refused(session.follow("a", following(&pointer)), "a checkpoint has begun");
            session.checkpoint().unwrap();
        }
        // Mainstay no longer asks for the pointer of a region that is gone.
        session.unprotect("a").unwrap();
        pointer.store(std::ptr::null_mut(), Ordering::Relaxed);
        session.protect(region("a", &elsewhere, 64)).unwrap();
        session.checkpoint().unwrap();
        session.unprotect("a").unwrap();
        session.unprotect("inside").unwrap();
    });
}

/// An array of the program that changes its size. A function finds it.
#[derive(Clone, Default)]
struct Growing(Arc<std::sync::Mutex<Vec<u64>>>);

impl Growing {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap()
    }

    fn look(&self) -> impl Fn(&Region) -> Result<Region> + Send + Sync + 'static {
        let list = self.0.clone();
        move |region| {
            let mut list = list.lock().unwrap();
            // SAFETY: the tests keep the list for as long as it is protected.
            unsafe { region.at(list.as_mut_ptr().cast(), Some(list.len() as u64)) }
        }
    }

    /// Protects the array. A restore resizes it.
    fn protect(&self, session: &mut Session) {
        let (address, count) = {
            let mut list = self.lock();
            (list.as_mut_ptr().cast(), list.len() as u64)
        };
        // SAFETY: as above.
        let region = unsafe { Region::array("list", address, ElementType::U64, &[count]) }.unwrap();
        session.protect(region).unwrap();
        let list = self.0.clone();
        let resize = move |shape: &[u64]| {
            list.lock().unwrap().resize(shape[0] as usize, 0);
            Ok(())
        };
        session.follow_resizing("list", self.look(), resize).unwrap();
    }

    fn save(&self, session: &mut Session, cells: usize, step: u64) {
        *self.lock() = vec![step; cells];
        session.checkpoint().unwrap();
        session.wait().unwrap();
    }
}

/// Story: a fresh run was refused with REGION_CHANGED. Each rank has a size of its own, and rank 1 begins with none.
#[test]
fn what_has_grown_comes_back_in_a_fresh_run() {
    for keep in [1, 2] {
        let (folder, config) = (TempDir::new_in("/dev/shm").unwrap(), Config { keep, ..direct() });
        let cells = |rank: usize, step: u64| [10, 10_000, 300][rank] * step as usize;
        in_sessions(folder.path(), 3, &config, |rank, session| {
            let list = Growing::default();
            assert_eq!(session.saved(None, "list").unwrap(), None);
            list.protect(session);
            (1..=4).for_each(|step| list.save(session, cells(rank, step), step));
            // A restore in the same run, from another size, and while the run goes on.
            list.lock().truncate(3);
            session.restore().unwrap().unwrap();
            assert_eq!(*list.lock(), vec![4; cells(rank, 4)]);
            session.unprotect("list").unwrap();
        });
        in_sessions(folder.path(), 3, &config, |rank, session| {
            let saved = session.saved(None, "list").unwrap().unwrap();
            assert_eq!((saved.element, &saved.shape[..]), (ElementType::U64, &[cells(rank, 4) as u64][..]));
            assert_eq!(saved.bytes, 8 * cells(rank, 4) as u64);
            assert_eq!(session.saved(None, ["other", "list", "other"][rank]).unwrap().is_some(), rank == 1);
            let older = session.saved(Some(3), "list");
            assert_eq!(older.map(|saved| saved.unwrap().shape[0]).ok(), (keep == 2).then_some(cells(rank, 3) as u64));
            let list = Growing::default();
            *list.lock() = vec![9; [70, 0, 1200][rank]];
            list.protect(session);
            session.restore().unwrap().unwrap();
            assert_eq!(*list.lock(), vec![4; cells(rank, 4)]);
            if keep == 2 {
                session.restore_revision(3).unwrap().unwrap();
                assert_eq!(*list.lock(), vec![3; cells(rank, 3)]);
            }
            list.save(session, 5, 5);
            session.unprotect("list").unwrap();
        });
        // The program asks for the saved size and protects an array of that size, without a function.
        in_sessions(folder.path(), 3, &config, |_, session| {
            let mut list = vec![0_u64; session.saved(None, "list").unwrap().unwrap().shape[0] as usize];
            let address = list.as_mut_ptr().cast();
            // SAFETY: the list outlives the region.
            let region = unsafe { Region::array("list", address, ElementType::U64, &[list.len() as u64]) };
            session.protect(region.unwrap()).unwrap();
            session.restore().unwrap().unwrap();
            assert_eq!(list, [5; 5]);
            session.unprotect("list").unwrap();
        });
        // If the number of ranks differs, each rank gets the item of the first shard.
        in_sessions(folder.path(), 2, &config, |_, session| {
            assert_eq!(session.saved(None, "list").unwrap().unwrap().shape, [5]);
        });
    }
}

/// The newest revision is damaged, so the array gets the size of the revision before it.
#[test]
fn a_restore_that_falls_back_resizes_to_what_it_brings() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let config = Config { keep: 2, ..direct() };
    in_sessions(folder.path(), 1, &config, |_, session| {
        let list = Growing::default();
        list.protect(session);
        list.save(session, 1000, 0x0101_0101_0101_0101);
        list.save(session, 2000, 0x0202_0202_0202_0202);
        session.unprotect("list").unwrap();
    });
    let name = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    for path in name.filter(|path| path.extension().is_some_and(|extension| extension == "mainstay")) {
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(4096).position(|bytes| bytes == [2; 4096]) {
            bytes[at] = 7;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    in_sessions(folder.path(), 1, &config, |_, session| {
        assert_eq!(session.saved(None, "list").unwrap().unwrap().shape, [2000]);
        let list = Growing::default();
        list.protect(session);
        let restored = session.restore().unwrap().unwrap();
        assert!(restored.revision == 1 && !restored.skipped.is_empty(), "{restored:?}");
        assert_eq!(*list.lock(), [0x0101_0101_0101_0101; 1000]);
        session.unprotect("list").unwrap();
    });
}

/// The restore fills nothing, and all ranks get the error.
#[test]
fn what_cannot_be_resized_is_refused_by_name() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    in_sessions(folder.path(), 2, &direct(), |rank, session| {
        let list = Growing::default();
        list.protect(session);
        list.save(session, 100, 1);
        list.lock().truncate(50);
        list.lock().fill(9);
        let refuses = move |_: &[u64]| if rank == 1 { Err(Error::argument("list", "no memory")) } else { Ok(()) };
        session.follow_resizing("list", list.look(), refuses).unwrap();
        let told = session.restore().map(drop).unwrap_err().to_string();
        assert!(told.contains("no memory") || told.contains("was saved as u64 100"), "{told}");
        session.follow_resizing("list", list.look(), |_| Ok(())).unwrap();
        let told = session.restore().map(drop).unwrap_err().to_string();
        assert!(told.contains("\"list\": it was saved as u64 100 (800 bytes)") && told.contains("u64 50"), "{told}");
        // Without a function that resizes, the size stays.
        session.follow("list", list.look()).unwrap();
        assert_eq!(session.restore().map(drop).unwrap_err().kind(), ErrorKind::RegionChanged);
        assert_eq!(*list.lock(), [9; 50]);
        session.unprotect("list").unwrap();
    });
}

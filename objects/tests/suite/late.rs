//! Messages from before a failure that arrive after it, and revisions with objects that are damaged in every copy.

use crate::{COUNT, ThreadWire, Wrong, counters, create, expected, job, key, round, total};
use mainstay_engine::{
    Config, Error, ErrorKind, Recovery, Region, Result, Session,
    group::{Divided, ThreadGroup},
    space::format::{ElementType, PlaceInWhole},
};
use mainstay_objects::{Arriving, Objects, Options, Wire};
use std::{
    cell::{Cell, RefCell},
    path::Path,
    rc::Rc,
    thread,
};
use tempfile::TempDir;

/// The wire's treatment of messages from rank 0 to rank 1.
#[derive(Default)]
struct Delay {
    /// After so many more swaps the ranks cannot reach each other, and earlier messages are kept; 0: never.
    breaks_after: Cell<u32>,
    kept: RefCell<Vec<u8>>,
    is_offered: Cell<bool>,
    /// How often kept messages have arrived after all.
    arrived: Cell<u32>,
}

/// A network that delivers messages kept from one epoch in the next.
struct LateWire(ThreadWire, Rc<Delay>);

impl Wire for LateWire {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn ranks(&self) -> usize {
        self.0.ranks()
    }

    fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()> {
        let Delay { breaks_after, kept, is_offered, .. } = &*self.1;
        if breaks_after.get() == 1 {
            breaks_after.set(0);
            return Err(Error::GroupFailed { what: "a rank has failed".to_owned() });
        }
        self.0.swap(to, from)?;
        breaks_after.set(breaks_after.get().saturating_sub(1));
        // In a round in which rank 0 has nothing of its own for rank 1.
        let fits = self.rank() == 1 && to.len() == 2 * self.ranks() && from[0] == 0 && breaks_after.get() == 0;
        is_offered.set(fits && !kept.borrow().is_empty());
        if is_offered.get() {
            from[0] = kept.borrow().len() as u64;
        }
        Ok(())
    }

    fn exchange(
        &self,
        leaving: &[(usize, &[u8])],
        arriving: &mut Vec<Arriving>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let Delay { breaks_after, kept, is_offered, arrived } = &*self.1;
        let from_first = |arriving: &Vec<Arriving>| arriving.iter().position(|one| one.from == 0);
        let offered = from_first(arriving).filter(|_| is_offered.take()).map(|at| arriving.remove(at));
        self.0.exchange(leaving, arriving, meanwhile)?;
        if breaks_after.get() == 1
            && self.rank() == 1
            && let Some(at) = from_first(arriving)
        {
            *kept.borrow_mut() = arriving.remove(at).bytes;
        }
        if offered.is_some() {
            arriving.push(Arriving { from: 0, bytes: kept.take() });
            arrived.set(arrived.get() + 1);
        }
        Ok(())
    }
}

/// Rank 1 gets messages that rank 0 sent before a failure, after all have gone back. With `dies`, a third rank has
/// failed, and the others have regrouped meanwhile.
fn arrives_late(dies: bool) {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let recovery = if dies { Recovery::Shrink } else { Recovery::Off };
    let config = Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), recovery, ..Config::default() };
    let ranks = if dies { 3 } else { 2 };
    let (groups, wires) = (ThreadGroup::new(ranks), ThreadGroup::new(ranks));
    thread::scope(|scope| {
        for (group, wire) in groups.into_iter().zip(wires) {
            let (config, space) = (config.clone(), folder.path());
            scope.spawn(move || {
                let mut session = Session::open(Box::new(group), space, config).unwrap();
                let (delay, wire) = (Rc::new(Delay::default()), ThreadWire::new(wire));
                let mut objects = Objects::new(Box::new(LateWire(wire.clone(), delay.clone())), Options::default());
                counters(&mut objects, |_| Wrong::Nothing);
                objects.restore(&mut session).unwrap();
                create(&mut objects);
                round(&mut objects).unwrap();
                objects.checkpoint(&mut session).unwrap();
                session.wait().unwrap();
                if objects.rank() == 0 {
                    objects.post().send(key(1), 0, &5_u64.to_le_bytes());
                }
                delay.breaks_after.set(2);
                assert_eq!(objects.step().unwrap_err().kind(), ErrorKind::GroupFailed);
                if objects.rank() == 2 {
                    return;
                }
                assert_eq!(delay.kept.borrow().is_empty(), objects.rank() == 0, "nothing was held back");
                if dies {
                    let left = wire.0.borrow().shrink(Divided::IntoBoxes).unwrap();
                    *wire.0.borrow_mut() = left;
                    assert_eq!(session.recover().unwrap().lost, [2]);
                }
                objects.restore(&mut session).unwrap().unwrap();
                assert_eq!(objects.ranks(), 2);
                assert_eq!(total(&mut objects), expected(1));
                round(&mut objects).unwrap();
                assert_eq!(total(&mut objects), expected(2));
                assert_eq!(delay.arrived.get(), objects.rank() as u32, "the late message never arrived");
                objects.forget(&mut session).unwrap();
                session.close().unwrap();
            });
        }
    });
}

#[test]
fn a_message_from_before_a_failure_that_arrives_after_it_is_dropped() {
    arrives_late(false);
}

#[test]
fn a_message_that_is_held_back_until_the_ranks_have_regrouped_is_dropped() {
    arrives_late(true);
}

/// Flips a bit of a counter's message in each place where only that message can be; returns the number of places.
fn damage(space: &Path, told: u8) -> usize {
    let files = std::fs::read_dir(space).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let flips = files.map(|file| {
        let mut bytes = std::fs::read(&file).unwrap();
        let Some(at) = bytes.windows(10).position(|window| window == [told; 10]) else { return 0 };
        bytes[at] ^= 4;
        std::fs::write(&file, bytes).unwrap();
        1
    });
    flips.sum()
}

fn save_one_told(objects: &mut Objects, session: &mut Session, told: u64) {
    for at in objects.here() {
        (0..20).for_each(|_| objects.post().send(at, 0, &told.to_le_bytes()));
    }
    objects.step().unwrap();
    objects.checkpoint(session).unwrap();
    session.wait().unwrap();
}

/// An object of the newest revision is damaged in its only copy: all ranks go back to the previous revision, and report
/// it.
#[test]
fn where_an_object_is_damaged_in_all_copies_all_ranks_take_the_revision_before() {
    for after in [2, 3] {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        job(folder.path(), 3, |objects, session| {
            counters(objects, |_| Wrong::Nothing);
            objects.restore(session).unwrap();
            create(objects);
            // Each counter passes on one less, so its largest message is its own mark.
            save_one_told(objects, session, 100);
            save_one_told(objects, session, 200);
        });
        assert!(damage(folder.path(), 200) > 0);
        let told = job(folder.path(), after, |objects, session| {
            counters(objects, |_| Wrong::Nothing);
            let came = objects.restore(session).unwrap().unwrap();
            let next = objects.checkpoint(session).unwrap();
            session.wait().unwrap();
            (came.restored.revision, came.objects, came.restored.skipped, next)
        });
        for (revision, objects, skipped, next) in told {
            assert_eq!((revision, objects), (1, COUNT as usize));
            assert!(skipped.iter().any(|what| what.contains("revision 2")), "{skipped:?}");
            assert!(next > 2, "{next} is the number of a revision that was passed over");
        }
    }
}

#[test]
fn what_has_been_passed_over_is_not_passed_over_without_a_restore() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    job(folder.path(), 1, |_, session| {
        let refused = session.pass_over(vec!["nothing".to_owned()]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    });
}

/// The index gives an object more bytes than exist: no memory is allocated for them, and all ranks go back to the
/// previous revision.
#[test]
fn an_index_that_names_more_bytes_than_there_are_is_passed_over() {
    for (offset, bytes) in [(0_u64, 1_u64 << 62), (8, 1), (u64::MAX, 8), (0, u64::MAX)] {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        job(folder.path(), 2, |objects, session| {
            counters(objects, |_| Wrong::Nothing);
            objects.restore(session).unwrap();
            create(objects);
            objects.checkpoint(session).unwrap();
        });
        in_plain_sessions(folder.path(), 2, |rank, session| {
            let rows = [((0_u32, 100 + rank as u64), offset, bytes, 1_u64)];
            let index = postcard::to_allocvec(&(["counter"].as_slice(), 1_u64, rows.as_slice())).unwrap();
            session.begin(index.len() as u64 + 8).unwrap();
            session.write("objects/index", 0, &index).unwrap();
            session.write("objects/data", 0, &[0; 8]).unwrap();
            session.checkpoint().unwrap();
        });
        for (revision, skipped) in job(folder.path(), 2, |objects, session| {
            counters(objects, |_| Wrong::Nothing);
            let came = objects.restore(session).unwrap().unwrap();
            (came.restored.revision, came.restored.skipped)
        }) {
            assert_eq!(revision, 1);
            assert!(skipped.iter().any(|what| what.contains("the index gives")), "{skipped:?}");
        }
    }
}

/// Without objects, but with the same protected region.
fn in_plain_sessions(space: &Path, ranks: usize, work: impl Fn(usize, &mut Session) + Sync) {
    thread::scope(|scope| {
        for (rank, group) in ThreadGroup::new(ranks).into_iter().enumerate() {
            let work = &work;
            scope.spawn(move || {
                let mut session = Session::open(Box::new(group), space, Config::default()).unwrap();
                let (mut mark, place) = ([0_u64], PlaceInWhole { global_shape: vec![1], offset: vec![0] });
                // SAFETY: it exists until the session is closed.
                let region = unsafe {
                    Region::placed("mainstay_objects", mark.as_mut_ptr().cast(), ElementType::U64, &[0], place)
                };
                session.protect(region.unwrap()).unwrap();
                session.restore().unwrap();
                work(rank, &mut session);
                session.close().unwrap();
            });
        }
    });
}

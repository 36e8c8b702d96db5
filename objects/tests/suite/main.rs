//! Objects on threads as ranks: messages, checkpoints, other numbers of ranks, failures of objects.
#![expect(unsafe_code, reason = "regions are memory of the program")]

mod dying;
mod faults;
mod late;
mod loads;
mod nodes;

use mainstay_engine::{
    Config, Error, Region, Result, Session,
    group::{Group, Message, Tested, ThreadGroup},
};
use mainstay_objects::{Arriving, Key, Object, Objects, Op, Options, Post, Wire};
use std::{cell::RefCell, collections::BTreeMap, path::Path, rc::Rc, thread, time::Duration};
use tempfile::TempDir;

/// A wire over threads, separate from the session's group. After a recovery it is another group.
#[derive(Clone)]
struct ThreadWire(Rc<RefCell<Box<dyn Group>>>);

impl ThreadWire {
    fn new(group: ThreadGroup) -> ThreadWire {
        ThreadWire(Rc::new(RefCell::new(Box::new(group))))
    }
}

impl Wire for ThreadWire {
    fn rank(&self) -> usize {
        self.0.borrow().rank()
    }

    fn ranks(&self) -> usize {
        self.0.borrow().size()
    }

    fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()> {
        let bytes: Vec<u8> = to.iter().flat_map(|word| word.to_le_bytes()).collect();
        let words = to.len() / self.ranks();
        for (rank, told) in self.0.borrow().all_gather(&bytes)?.into_iter().enumerate() {
            for word in 0..words {
                let at = (self.rank() * words + word) * 8;
                from[rank * words + word] = u64::from_le_bytes(told[at..at + 8].try_into().unwrap());
            }
        }
        Ok(())
    }

    fn exchange(
        &self,
        leaving: &[(usize, &[u8])],
        arriving: &mut Vec<Arriving>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut under_way: Vec<(Message, Option<usize>)> = Vec::new();
        for (at, one) in arriving.iter_mut().enumerate() {
            under_way
                .push((self.0.borrow().start_receive(one.from, Box::new(std::mem::take(&mut one.bytes)))?, Some(at)));
        }
        for (to, bytes) in leaving {
            under_way.push((self.0.borrow().start_send(*to, Box::new(bytes.to_vec()))?, None));
        }
        while meanwhile() {}
        while let Some((message, at)) = under_way.pop() {
            let tested = self.0.borrow().test(message)?;
            match tested {
                Tested::UnderWay => {
                    under_way.insert(0, (message, at));
                    thread::sleep(Duration::from_micros(20));
                }
                Tested::Sent => {}
                Tested::Received(room) => {
                    let bytes: Box<dyn std::any::Any> = room;
                    arriving[at.unwrap()].bytes = *bytes.downcast::<Vec<u8>>().unwrap();
                }
            }
        }
        Ok(())
    }
}

/// The fault of a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    PacksMore,
    PacksLess,
    UnpacksLess,
    Sizes,
    Handler,
    SendsNowhere,
}

/// Sums its messages, and passes on one less to the next of `COUNT`, until nothing is left.
struct Counter {
    id: u64,
    sum: u64,
    tail: Vec<u8>,
    wrong: Wrong,
    sized: RefCell<u64>,
}

const COUNT: u64 = 23;
const ADD: u32 = 0;
const TELL: u32 = 1;

impl Object for Counter {
    fn bytes(&self) -> Result<usize> {
        *self.sized.borrow_mut() += 1;
        let more = if self.wrong == Wrong::Sizes { *self.sized.borrow() as usize } else { 0 };
        Ok(8 + self.tail.len() + more)
    }

    fn pack(&self, into: &mut [u8]) -> Result<usize> {
        into[..8].copy_from_slice(&self.sum.to_le_bytes());
        into[8..8 + self.tail.len()].copy_from_slice(&self.tail);
        let bytes = 8 + self.tail.len();
        Ok(match self.wrong {
            Wrong::PacksMore => bytes + 1,
            Wrong::PacksLess => bytes - 1,
            _ => into.len(),
        })
    }

    fn unpack(&mut self, from: &[u8]) -> Result<usize> {
        self.sum = u64::from_le_bytes(from[..8].try_into().unwrap());
        self.tail = from[8..].to_vec();
        Ok(if self.wrong == Wrong::UnpacksLess { from.len() - 3 } else { from.len() })
    }

    fn receive(&mut self, method: u32, bytes: &[u8], post: &Post) -> Result<()> {
        // Fixed work, so that the placement does not depend on the machine.
        post.work(1);
        if self.wrong == Wrong::Handler {
            return Err(Error::argument("counter", "it cannot count"));
        }
        if method == TELL {
            post.contribute(7, Op::Sum, &[self.sum as f64, 0.1]);
            post.contribute(8, Op::Max, &[self.id as f64]);
            return Ok(());
        }
        let number = u64::from_le_bytes(bytes.try_into().unwrap());
        self.sum += number;
        self.tail.push(number as u8);
        if number > 0 {
            let to = if self.wrong == Wrong::SendsNowhere { 1000 } else { (self.id + 5) % COUNT };
            post.send(Key { kind: 0, id: to }, ADD, &(number - 1).to_le_bytes());
        }
        Ok(())
    }
}

fn counters(objects: &mut Objects, wrong: impl Fn(u64) -> Wrong + 'static) {
    let make = move |id| -> Result<Box<dyn Object>> {
        Ok(Box::new(Counter { id, sum: 0, tail: Vec::new(), wrong: wrong(id), sized: RefCell::default() }))
    };
    objects.register("counter", 1, Box::new(make)).unwrap();
}

fn key(id: u64) -> Key {
    Key { kind: 0, id }
}

fn create(objects: &mut Objects) {
    let (rank, ranks) = (objects.rank() as u64, objects.ranks() as u64);
    for id in (0..COUNT).filter(|id| id % ranks == rank) {
        objects.create(key(id)).unwrap();
    }
}

/// Every counter gets one message, and so do those that it passes on to.
fn round(objects: &mut Objects) -> Result<()> {
    for at in objects.here() {
        objects.post().send(at, ADD, &(at.id % 7).to_le_bytes());
    }
    objects.step()
}

/// The sum of all counters after so many rounds.
fn expected(rounds: u64) -> f64 {
    let each: u64 = (0..COUNT).map(|id| (0..=id % 7).sum::<u64>()).sum();
    (rounds * each) as f64
}

fn total(objects: &mut Objects) -> f64 {
    if objects.rank() == objects.ranks() - 1 {
        objects.post().broadcast(0, TELL, &[]);
    }
    objects.step().unwrap();
    let post = objects.post();
    assert_eq!(post.result(8), Some(vec![(COUNT - 1) as f64]));
    let sums = post.result(7).unwrap();
    let mut tenths = mainstay_objects::Exact::default();
    (0..COUNT).for_each(|_| tenths.add(0.1));
    assert_eq!(sums[1], tenths.value());
    sums[0]
}

/// Runs `work` on so many ranks, each with a session on the space and objects.
fn job<T: Send>(space: &Path, ranks: usize, work: impl Fn(&mut Objects, &mut Session) -> T + Sync) -> Vec<T> {
    let config = Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() };
    let (groups, wires) = (ThreadGroup::new(ranks), ThreadGroup::new(ranks));
    thread::scope(|scope| {
        let run = |(group, wire): (ThreadGroup, ThreadGroup)| {
            let (work, config) = (&work, config.clone());
            scope.spawn(move || {
                let mut session = Session::open(Box::new(group), space, config).unwrap();
                let mut objects = Objects::new(Box::new(ThreadWire::new(wire)), Options::default());
                let done = work(&mut objects, &mut session);
                objects.forget(&mut session).unwrap();
                session.close().unwrap();
                done
            })
        };
        let threads: Vec<_> = groups.into_iter().zip(wires).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn messages_arrive_wherever_objects_are_and_these_come_back_on_any_number_of_ranks() {
    for (before, after) in [(1, 1), (3, 3), (4, 2), (2, 5), (5, 1), (1, 3)] {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        job(folder.path(), before, |objects, session| {
            counters(objects, |_| Wrong::Nothing);
            assert_eq!(objects.restore(session).unwrap(), None);
            create(objects);
            (0..3).for_each(|_| round(objects).unwrap());
            assert_eq!(total(objects), expected(3));
            objects.checkpoint(session).unwrap();
            round(objects).unwrap();
            session.wait().unwrap();
        });
        let here = job(folder.path(), after, |objects, session| {
            counters(objects, |_| Wrong::Nothing);
            let came = objects.restore(session).unwrap().unwrap();
            assert_eq!((came.objects, objects.steps()), (COUNT as usize, 4));
            assert_eq!(came.elsewhere > 0, before != after && before.max(after) > 1);
            assert_eq!(total(objects), expected(3));
            round(objects).unwrap();
            assert_eq!(total(objects), expected(4));
            objects.checkpoint(session).unwrap();
            session.wait().unwrap();
            came.here
        });
        assert_eq!(here.iter().sum::<usize>(), COUNT as usize, "{before} to {after}");
        assert!(here.iter().all(|count| *count > 0), "{before} to {after}: {here:?}");
    }
}

/// Without a step in between: a checkpoint delivers the messages in flight, and those that follow from them, before it
/// saves.
#[test]
fn a_checkpoint_saves_what_messages_in_flight_come_to() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    job(folder.path(), 3, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.restore(session).unwrap();
        create(objects);
        objects.step().unwrap();
        let post = objects.post();
        objects.here().iter().for_each(|at| post.send(*at, ADD, &(at.id % 7).to_le_bytes()));
        objects.checkpoint(session).unwrap();
        session.wait().unwrap();
        // Later messages are lost with the job.
        objects.here().iter().for_each(|at| post.send(*at, ADD, &100_u64.to_le_bytes()));
    });
    job(folder.path(), 3, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.restore(session).unwrap().unwrap();
        assert_eq!(total(objects), expected(1));
    });
}

#[test]
fn what_a_rank_has_of_its_own_comes_back_beside_its_objects() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    for run in 0..2 {
        job(folder.path(), 3, |objects, session| {
            counters(objects, |_| Wrong::Nothing);
            let mut own = [0_u8; 1000];
            // SAFETY: the memory outlives the session's use of it: it is unprotected below.
            session.protect(unsafe { Region::new("own", own.as_mut_ptr(), 1000) }.unwrap()).unwrap();
            let came = objects.restore(session).unwrap();
            if run == 1 {
                assert!(came.is_some() && own == [objects.rank() as u8 + 1; 1000]);
            } else {
                create(objects);
                own.fill(objects.rank() as u8 + 1);
                objects.checkpoint(session).unwrap();
            }
            session.wait().unwrap();
            session.unprotect("own").unwrap();
        });
    }
}

/// With one kept revision, a revision without the objects pushed out the last one that had them.
#[test]
fn a_session_saves_nothing_without_the_objects_that_are_open_on_it() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    job(folder.path(), 2, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.attach(session).unwrap();
        let alone = ThreadGroup::new(1).remove(0);
        let others = Objects::new(Box::new(ThreadWire::new(alone)), Options::default()).attach(session);
        assert!(others.unwrap_err().to_string().contains("others are open on this session"));
        let refused = [session.checkpoint(), session.begin(10), session.put("own", b"own")];
        for refused in refused {
            assert!(
                refused.unwrap_err().to_string().contains("objects are open on it, and the revision would lack them")
            );
        }
        objects.restore(session).unwrap();
        create(objects);
        assert_eq!(objects.checkpoint(session).unwrap(), 1);
        session.checkpoint().unwrap_err();
        assert_eq!(objects.checkpoint(session).unwrap(), 2);
        objects.forget(session).unwrap();
        session.put("own", b"own").unwrap();
        session.wait().unwrap();
    });
}

/// The same error on all ranks; it names the object, its rank, and the fault.
fn fails(wrong: Wrong, says: &[&str], work: impl Fn(&mut Objects, &mut Session) -> Result<()> + Sync) {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let told = job(folder.path(), 3, |objects, session| {
        counters(objects, move |id| if id == 10 { wrong } else { Wrong::Nothing });
        objects.restore(session).unwrap();
        create(objects);
        work(objects, session).unwrap_err().to_string()
    });
    assert!(told.iter().all(|other| *other == told[0]), "{told:?}");
    assert!(says.iter().all(|says| told[0].contains(says)), "{}", told[0]);
}

#[test]
fn what_an_object_does_wrong_is_told_by_its_name_and_rank_on_all_ranks() {
    let on = "object counter[10] on rank 1";
    let saves = |objects: &mut Objects, session: &mut Session| objects.checkpoint(session).map(drop);
    fails(Wrong::PacksMore, &[on, "it was 8 bytes when it was sized, and packing wrote 9"], saves);
    fails(Wrong::PacksLess, &[on, "packing wrote 7"], saves);
    fails(Wrong::Sizes, &[on, "it was 9 bytes when it was sized, and is 10 now"], saves);
    fails(Wrong::Handler, &[on, "its method 0 failed", "it cannot count"], |objects, _| round(objects));
    let nowhere = "it has sent a message to counter[1000] (method 0), which no rank has made";
    fails(Wrong::SendsNowhere, &[on, nowhere], |objects, _| round(objects));
    fails(
        Wrong::UnpacksLess,
        &["object counter[10] on rank 2", "came from rank 1", "packing wrote 12 bytes, and unpacking took 9"],
        |objects, _| round(objects).and_then(|()| objects.evacuate(&[0, 1])).map(drop),
    );
}

#[test]
fn after_a_checkpoint_that_an_object_refused_the_next_one_saves() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    job(folder.path(), 2, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        let make = |_| -> Result<Box<dyn Object>> {
            Ok(Box::new(Counter {
                id: 0,
                sum: 0,
                tail: Vec::new(),
                wrong: Wrong::PacksLess,
                sized: RefCell::default(),
            }))
        };
        objects.register("wrong", 0, Box::new(make)).unwrap();
        objects.restore(session).unwrap();
        create(objects);
        objects.checkpoint(session).unwrap();
        if objects.rank() == 1 {
            objects.create(Key { kind: 1, id: 3 }).unwrap();
        }
        assert!(objects.checkpoint(session).unwrap_err().to_string().contains("object wrong[3] on rank 1"));
        assert_eq!(objects.restore(session).unwrap().unwrap().restored.revision, 1);
        assert_eq!(objects.count(), COUNT as usize);
        objects.checkpoint(session).unwrap();
        session.wait().unwrap();
    });
}

#[test]
fn what_is_not_there_or_there_twice_or_registered_otherwise_is_refused() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let told = |work: &(dyn Fn(&mut Objects, &mut Session) -> Result<()> + Sync)| {
        let told = job(folder.path(), 2, |objects, session| work(objects, session).unwrap_err().to_string());
        assert_eq!(told[0], told[1]);
        told[0].clone()
    };
    let twice = told(&|objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.restore(session)?;
        objects.create(key(4))?;
        objects.step()
    });
    assert!(twice.contains("object counter[4] on rank 1: rank 0 has made one of this index, too"), "{twice}");
    let apart = told(&|objects, session| {
        counters(objects, |_| Wrong::Nothing);
        if objects.rank() == 1 {
            objects.register("other", 0, Box::new(|_| Err(Error::argument("other", "none")))).unwrap();
        }
        objects.restore(session)?;
        create(objects);
        objects.step()
    });
    assert!(apart.contains("rank 0 has registered counter, rank 1 counter, other"), "{apart}");
    let nowhere = told(&|objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.restore(session)?;
        create(objects);
        if objects.rank() == 1 {
            objects.post().send(key(99), ADD, &[]);
        }
        objects.step()
    });
    assert!(nowhere.contains("objects on rank 1: the program has sent a message to counter[99]"), "{nowhere}");
    job(folder.path(), 2, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        create(objects);
        objects.restore(session).unwrap();
        create(objects);
        objects.checkpoint(session).unwrap();
        session.wait().unwrap();
    });
    let unknown = told(&|objects, session| objects.restore(session).map(drop));
    assert!(unknown.contains("object counter[0] on rank 0: its kind is not registered here"), "{unknown}");
}

/// Every object of one shard is damaged in its only copy, and other ranks restore it.
#[test]
fn damage_of_objects_is_told_on_all_ranks() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    job(folder.path(), 3, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.restore(session).unwrap();
        create(objects);
        for at in objects.here() {
            (0..20).for_each(|_| objects.post().send(at, ADD, &200_u64.to_le_bytes()));
        }
        objects.step().unwrap();
        objects.checkpoint(session).unwrap();
        session.wait().unwrap();
    });
    let mut changed = 0;
    for file in
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let mut bytes = std::fs::read(&file).unwrap();
        // The message of a counter: no other bytes look like it.
        if let Some(at) = bytes.windows(10).position(|window| window == [200; 10]) {
            bytes[at] ^= 4;
            std::fs::write(&file, bytes).unwrap();
            changed += 1;
        }
    }
    assert!(changed > 0);
    let told = job(folder.path(), 2, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        let error = objects.restore(session).unwrap_err();
        (error.kind(), error.to_string())
    });
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].0, mainstay_engine::ErrorKind::Damaged, "{told:?}");
}

/// Sends to objects made in the same step on another rank.
#[test]
fn objects_are_made_at_any_time() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    job(folder.path(), 3, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.restore(session).unwrap();
        for step in 0..COUNT {
            if step % 3 == objects.rank() as u64 {
                objects.create(key(step)).unwrap();
            }
            if objects.rank() == 0 {
                objects.post().send(key(step), ADD, &0_u64.to_le_bytes());
            }
            objects.step().unwrap();
            assert_eq!(objects.rank_of(key(step)), Some((step % 3) as usize));
        }
        assert_eq!(total(objects), 0.0);
    });
}

#[test]
fn which_of_two_holders_restores_is_as_published() {
    use mainstay_objects::holders::{Restores, choose, outranks, share};
    for ranks in 2..20 {
        for (a, b) in (0..ranks).flat_map(|a| (0..ranks).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            // h outranks o if (h - o) mod P <= P/2; the larger number if both hold.
            let holds = |h: usize, o: usize| 2 * ((h + ranks - o) % ranks) <= ranks;
            let expected = if holds(a, b) && holds(b, a) { a > b } else { holds(a, b) };
            assert_eq!(outranks(a, b, ranks), expected, "{a} {b} of {ranks}");
            assert!(outranks(a, b, ranks) != outranks(b, a, ranks));
        }
        assert!(outranks(0, ranks - 1, ranks) || ranks == 2);
    }
    let mut random = fastrand::Rng::with_seed(8);
    for _ in 0..2000 {
        let (ranks, shards) = (random.usize(1..12), random.usize(1..14));
        let copies = random.usize(1..=ranks.min(3));
        let holders: Vec<Vec<usize>> = (0..shards)
            .map(|_| {
                let mut all: Vec<usize> = (0..ranks).collect();
                random.shuffle(&mut all);
                all.truncate(copies);
                all.sort_unstable();
                all
            })
            .collect();
        let by_rank = shards == ranks && holders.iter().enumerate().all(|(shard, held)| held.contains(&shard));
        for (shard, restores) in choose(&holders, ranks).into_iter().enumerate() {
            match restores {
                Restores::One(one) => {
                    assert!(holders[shard].contains(&one));
                    assert!(!by_rank || one == shard);
                    if !by_rank && copies == 2 {
                        assert!(holders[shard].iter().all(|other| *other == one || outranks(one, *other, ranks)));
                    }
                }
                Restores::All => assert!(holders.iter().all(|held| held.len() == ranks) && !by_rank),
                Restores::Nobody => panic!("{holders:?}"),
            }
        }
        let loads: Vec<u64> = (0..random.usize(1..200)).map(|_| random.u64(..1000)).collect();
        let shared = share(&loads, ranks);
        let mut of_rank = BTreeMap::<usize, u64>::new();
        shared.iter().zip(&loads).for_each(|(rank, load)| *of_rank.entry(*rank).or_default() += load + 1);
        let (total, most) = (loads.iter().map(|load| load + 1).sum::<u64>(), loads.iter().max().unwrap() + 1);
        assert!(shared.is_sorted() && shared.iter().all(|rank| *rank < ranks));
        assert!(of_rank.values().all(|load| *load <= total / ranks as u64 + most + 1), "{loads:?} on {ranks}");
    }
}

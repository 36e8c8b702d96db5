//! Ranks that fail while objects are at work: the others recover, and every object has its state from the checkpoint.

use crate::ThreadWire;
use mainstay_engine::{
    Config, Error, ErrorKind, Recovery, Result, Session,
    group::{Divided, ThreadGroup},
};
use mainstay_objects::{Key, Object, Objects, Op, Options, Post, Strategy};
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};
use tempfile::TempDir;

/// The moment at which the rank `VICTIM` fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dies {
    Receiving,
    /// While its objects are being moved away.
    Packing,
    /// While objects come to it.
    Unpacking,
    /// While objects come to it from a rank that is given up.
    Taking,
    /// As `Receiving`; the rank has all objects of a kind.
    WithAll,
    /// As `Receiving`, and a restore after it fails.
    Again,
}

pub const SCENARIOS: [(&str, Dies); 5] = [
    ("rank_fails_with_messages_in_flight", Dies::Receiving),
    ("rank_fails_in_balancing", Dies::Packing),
    ("rank_fails_in_migration", Dies::Unpacking),
    ("rank_fails_in_evacuation", Dies::Taking),
    ("rank_fails_with_all_objects_of_a_kind", Dies::WithAll),
];

const VICTIM: usize = 2;
const COUNT: u64 = 40;
const ALONE: u64 = 5;
const ADD: u32 = 0;
const TELL: u32 = 1;

thread_local! {
    /// Whether this rank refuses objects that come back to it.
    static REFUSES: Cell<bool> = const { Cell::new(false) };
    /// The moment at which this rank fails.
    static DYING: Cell<Option<Dies>> = const { Cell::new(None) };
}

/// Ends the thread, and with it everything that the rank has: only the thread's start catches the panic.
fn die_in(moments: &[Dies]) {
    if DYING.get().is_some_and(|dies| moments.contains(&dies)) {
        resume_unwind(Box::new("this rank has failed"));
    }
}

/// Sums its messages, and sends to the next of its kind.
struct Summing {
    key: Key,
    sum: u64,
}

impl Object for Summing {
    fn bytes(&self) -> Result<usize> {
        Ok(8)
    }

    fn pack(&self, into: &mut [u8]) -> Result<usize> {
        die_in(&[Dies::Packing]);
        into.copy_from_slice(&self.sum.to_le_bytes());
        Ok(8)
    }

    fn unpack(&mut self, from: &[u8]) -> Result<usize> {
        die_in(&[Dies::Unpacking, Dies::Taking]);
        if REFUSES.get() {
            return Err(Error::Internal { what: "it is refused".to_owned() });
        }
        self.sum = u64::from_le_bytes(from.try_into().unwrap());
        Ok(8)
    }

    fn receive(&mut self, method: u32, bytes: &[u8], post: &Post) -> Result<()> {
        if method == TELL {
            post.contribute(1, Op::Sum, &[self.sum as f64, 1.0]);
            return Ok(());
        }
        die_in(&[Dies::Receiving, Dies::WithAll, Dies::Again]);
        self.sum += 1 + self.key.id;
        if let Some(left) = bytes.first().filter(|left| **left > 0) {
            let all = if self.key.kind == 0 { COUNT } else { ALONE };
            post.send(Key { id: (self.key.id + 1) % all, ..self.key }, ADD, &[left - 1]);
        }
        Ok(())
    }
}

/// Each object gets two messages: one of its own, and one of the object before it.
fn round(objects: &mut Objects) -> Result<()> {
    for key in objects.here() {
        objects.post().send(key, ADD, &[1]);
    }
    objects.step()
}

/// The sum over all objects, and their number.
fn total(objects: &mut Objects) -> (f64, f64) {
    if objects.rank() == 0 {
        (0..2).for_each(|kind| objects.post().broadcast(kind, TELL, &[]));
    }
    objects.step().unwrap();
    let sums = objects.post().result(1).unwrap();
    (sums[0], sums[1])
}

fn expected(rounds: u64) -> (f64, f64) {
    let each: u64 = (1..=COUNT).chain(1..=ALONE).sum();
    ((2 * rounds * each) as f64, (COUNT + ALONE) as f64)
}

/// The call in which a rank learned of the failure, and the error.
type Told = (&'static str, String);

/// Returns the call in which this rank learns of the failure, and the error.
fn act(objects: &mut Objects, dies: Dies) -> Told {
    let told = match dies {
        Dies::Receiving | Dies::WithAll | Dies::Again => ("step", round(objects)),
        Dies::Packing => ("balance", objects.balance(Strategy::Greedy).map(drop)),
        Dies::Unpacking => ("balance", objects.balance(Strategy::Greedy).map(drop)),
        Dies::Taking => ("evacuate", objects.evacuate(&[1]).map(drop)),
    };
    let error = told.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::GroupFailed, "{dies:?}: {error}");
    (told.0, error.to_string())
}

fn live(session: &mut Session, wire: &ThreadWire, dies: Dies) -> Told {
    let mut objects = Objects::new(Box::new(wire.clone()), Options::default());
    for (kind, name) in (0..).zip(["spread", "alone"]) {
        let make = move |id| Ok(Box::new(Summing { key: Key { kind, id }, sum: 0 }) as Box<dyn Object>);
        objects.register(name, 1, Box::new(make)).unwrap();
    }
    let (rank, ranks) = (objects.rank(), objects.ranks());
    assert_eq!(objects.restore(session).unwrap(), None);
    // If much should move, the rank that fails has most objects, or none.
    let owner = |id: u64| match dies {
        Dies::Packing => VICTIM,
        Dies::Unpacking => 0,
        Dies::Taking if id as usize % ranks == VICTIM => 0,
        _ => id as usize % ranks,
    };
    for id in (0..COUNT).filter(|id| owner(*id) == rank) {
        objects.create(Key { kind: 0, id }).unwrap();
    }
    for id in (0..ALONE).filter(|_| rank == if dies == Dies::WithAll { VICTIM } else { 1 }) {
        objects.create(Key { kind: 1, id }).unwrap();
    }
    round(&mut objects).unwrap();
    objects.checkpoint(session).unwrap();
    session.wait().unwrap();
    round(&mut objects).unwrap();
    DYING.set(Some(dies).filter(|_| rank == VICTIM));
    let told = act(&mut objects, dies);
    let left = wire.0.borrow().shrink(Divided::IntoBoxes).unwrap();
    *wire.0.borrow_mut() = left;
    session.recover().unwrap();
    if dies == Dies::Again {
        let came = objects.restore(session).unwrap();
        REFUSES.set(objects.rank() == 0);
        objects.restore(session).unwrap_err();
        REFUSES.set(false);
        assert_eq!(objects.restore(session).unwrap(), came, "a restore after one that failed");
    }
    let came = objects.restore(session).unwrap().unwrap();
    assert_eq!((came.objects, objects.ranks()), ((COUNT + ALONE) as usize, ranks - 1), "{dies:?}");
    assert_eq!(total(&mut objects), expected(1), "{dies:?}");
    round(&mut objects).unwrap();
    objects.balance(Strategy::Greedy).unwrap();
    round(&mut objects).unwrap();
    assert_eq!(total(&mut objects), expected(3), "{dies:?}");
    objects.checkpoint(session).unwrap();
    session.wait().unwrap();
    objects.forget(session).unwrap();
    told
}

/// The call and the error of each surviving rank, for a job that goes on without the failed one.
pub fn told(ranks: usize, dies: Dies) -> Vec<Told> {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let config = Config {
        pool_bytes: Some(256 << 10),
        chunk_bytes: Some(64 << 10),
        recovery: Recovery::Shrink,
        ..Config::default()
    };
    let (groups, wires) = (ThreadGroup::new(ranks), ThreadGroup::new(ranks));
    thread::scope(|scope| {
        let run = |(group, wire): (ThreadGroup, ThreadGroup)| {
            let (config, space) = (config.clone(), folder.path());
            scope.spawn(move || {
                let lives = || {
                    let mut session = Session::open(Box::new(group), space, config).unwrap();
                    let told = live(&mut session, &ThreadWire::new(wire), dies);
                    session.close().unwrap();
                    told
                };
                catch_unwind(AssertUnwindSafe(lives)).map_err(|why| DYING.get().is_none().then_some(why))
            })
        };
        let threads: Vec<_> = groups.into_iter().zip(wires).map(run).collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let (told, died): (Vec<_>, Vec<_>) = ended.into_iter().partition(std::result::Result::is_ok);
        let died: Vec<_> = died.into_iter().filter_map(std::result::Result::err).collect();
        if let Some(why) = died.iter().position(Option::is_some) {
            resume_unwind(died.into_iter().nth(why).flatten().unwrap());
        }
        assert_eq!(died.len(), 1, "{dies:?}: nobody has failed");
        told.into_iter().filter_map(std::result::Result::ok).collect()
    })
}

/// After a failed restore all ranks forgot that they had survived. Objects of dead ranks did not count as orphans, and
/// objects that changed their rank were counted by outdated numbers.
#[test]
fn who_has_lived_on_is_known_to_the_next_restore_after_one_that_failed() {
    told(4, Dies::Again);
}

//! Loads: the weights of objects, and their ranks after balancing, or after giving ranks up.

use crate::{COUNT, Wrong, counters, create, expected, job, key, round, total};
use mainstay_engine::Result;
use mainstay_objects::{
    Object, Op, Post, Strategy,
    balance::{Weighed, place},
};
use std::hint::black_box;
use tempfile::TempDir;

/// Does not report its work: its processor time is measured.
struct Worker {
    rounds: u64,
}

impl Object for Worker {
    fn bytes(&self) -> Result<usize> {
        Ok(0)
    }

    fn pack(&self, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn unpack(&mut self, _: &[u8]) -> Result<usize> {
        Ok(0)
    }

    fn receive(&mut self, _: u32, _: &[u8], _: &Post) -> Result<()> {
        (0..self.rounds).for_each(|round| _ = black_box(round));
        Ok(())
    }
}

/// If only one rank did not know a strategy, that rank returned an error, and the others waited; different strategies
/// moved objects apart.
#[test]
fn a_strategy_that_is_not_that_of_all_ranks_is_refused_on_all() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let told = job(folder.path(), 3, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.restore(session).unwrap();
        if objects.rank() == 0 {
            (0..COUNT).for_each(|id| assert!(objects.create(key(id)).is_ok()));
        }
        round(objects).unwrap();
        let asked = |of_last: &'static str| if objects.rank() == 2 { of_last } else { "greedy" };
        let (unknown, other) = (asked("largest").parse(), asked("refine").parse());
        let told = [objects.balance_by(unknown).unwrap_err(), objects.balance_by(other).unwrap_err()];
        assert!(objects.balance_by("greedy".parse()).unwrap().moved > 0);
        round(objects).unwrap();
        assert_eq!(total(objects), expected(2));
        told.map(|error| error.to_string())
    });
    assert!(told[0][0].contains("rank 0 asks for greedy, rank 2 for an unknown one"), "{told:?}");
    assert!(told[2][0].contains("\"largest\": there is none of this name"), "{told:?}");
    assert!(told.iter().all(|[_, other]| other.contains("rank 2 for refine; name the same on all ranks")), "{told:?}");
}

#[test]
fn objects_move_and_go_on_where_they_are() {
    for strategy in [Strategy::Greedy, Strategy::Refine, Strategy::Orphans, Strategy::None] {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        let moved = job(folder.path(), 4, |objects, session| {
            counters(objects, |_| Wrong::Nothing);
            objects.restore(session).unwrap();
            if objects.rank() == 0 {
                (0..COUNT).for_each(|id| assert!(objects.create(key(id)).is_ok()));
            }
            round(objects).unwrap();
            let balanced = objects.balance(strategy).unwrap();
            round(objects).unwrap();
            assert_eq!(total(objects), expected(2));
            let away = objects.evacuate(&[objects.ranks() - 1]).unwrap();
            round(objects).unwrap();
            assert_eq!(total(objects), expected(3));
            assert!(objects.rank() < 3 || objects.here().is_empty());
            (balanced.moved, away.moved, objects.here().len())
        });
        let is_moved = matches!(strategy, Strategy::Greedy | Strategy::Refine);
        assert_eq!(moved[0].0 > COUNT / 2, is_moved, "{strategy:?} {moved:?}");
        assert_eq!(moved.iter().map(|(.., here)| here).sum::<usize>(), COUNT as usize);
    }
}

#[test]
fn an_object_that_works_much_has_a_rank_for_itself() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let here = job(folder.path(), 2, |objects, session| {
        let make =
            |id| -> Result<Box<dyn Object>> { Ok(Box::new(Worker { rounds: if id == 4 { 300_000_000 } else { 1 } })) };
        objects.register("worker", 1, Box::new(make)).unwrap();
        objects.restore(session).unwrap();
        create(objects);
        objects.here().iter().for_each(|at| objects.post().send(*at, 0, &[]));
        objects.step().unwrap();
        objects.balance(Strategy::Greedy).unwrap();
        objects.here()
    });
    assert!(here.contains(&vec![key(4)]), "{here:?}");
}

#[test]
fn strategies_leave_every_object_on_one_open_rank_and_none_too_busy() {
    let mut random = fastrand::Rng::with_seed(9);
    for round in 0..3000 {
        let (ranks, count) = (random.usize(1..20), random.usize(1..300));
        let heaviest = [1, 10, 1000, 1_000_000][random.usize(..4)];
        let objects: Vec<Weighed> = (0..count)
            .map(|_| Weighed {
                load: random.u64(..heaviest),
                rank: random.usize(..ranks),
                is_orphan: random.u8(..4) == 0,
            })
            .collect();
        let mut open: Vec<bool> = (0..ranks).map(|_| random.u8(..5) > 0).collect();
        open[random.usize(..ranks)] = true;
        for (_, strategy) in Strategy::ALL {
            let placed = place(strategy, &objects, &open);
            let loads = |rank_of: &dyn Fn(usize) -> usize| {
                let mut loads = vec![0_u64; ranks];
                objects.iter().enumerate().for_each(|(at, object)| loads[rank_of(at)] += object.load + 1);
                loads
            };
            let (before, after) = (loads(&|at| objects[at].rank), loads(&|at| placed[at]));
            assert!(placed.iter().all(|rank| open[*rank]), "{round} {strategy:?}");
            let heaviest = objects.iter().map(|object| object.load + 1).max().unwrap();
            let average = after.iter().sum::<u64>() / open.iter().filter(|open| **open).count() as u64;
            let busiest = *after.iter().max().unwrap();
            if matches!(strategy, Strategy::Greedy | Strategy::Refine) {
                assert!(
                    busiest <= average + average / 50 + heaviest + 1,
                    "{round} {strategy:?}: {busiest} of {average}"
                );
            }
            if matches!(strategy, Strategy::None) && open.iter().all(|open| *open) {
                assert_eq!(before, after);
            }
            if strategy == Strategy::Orphans {
                let stays =
                    |(object, to): (&Weighed, &usize)| object.is_orphan || !open[object.rank] || object.rank == *to;
                assert!(objects.iter().zip(&placed).all(stays));
            }
        }
    }
}

/// The maximum and the minimum of numbers ignored NaN.
#[test]
fn what_is_no_number_is_not_passed_over() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let told = job(folder.path(), 3, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.restore(session).unwrap();
        let mine = if objects.rank() == 1 { f64::NAN } else { 1.0 };
        for (result, op) in [(0, Op::Max), (1, Op::Min), (2, Op::Sum)] {
            objects.post().contribute(result, op, &[mine, 2.0]);
        }
        objects.step().unwrap();
        [0, 1, 2].map(|result| objects.post().result(result).unwrap())
    });
    assert!(told.iter().flatten().all(|values| values[0].is_nan() && !values[1].is_nan()), "{told:?}");
}

/// Given up one after another, and accepted again.
#[test]
fn ranks_that_are_given_up_get_no_objects_until_none_is() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let came = job(folder.path(), 3, |objects, session| {
        counters(objects, |_| Wrong::Nothing);
        objects.restore(session).unwrap();
        create(objects);
        let mut counts = Vec::new();
        for given_up in [&[1][..], &[1, 2], &[1, 2], &[]] {
            round(objects).unwrap();
            objects.evacuate(given_up).unwrap();
            round(objects).unwrap();
            objects.balance(Strategy::Greedy).unwrap();
            counts.push(objects.here().len());
        }
        objects.checkpoint(session).unwrap();
        objects.evacuate(&[2]).unwrap();
        objects.restore(session).unwrap();
        counts.push(objects.here().len());
        session.wait().unwrap();
        counts
    });
    let all = COUNT as usize;
    assert_eq!((&came[1][..3], &came[2][1..3]), (&[0, 0, 0][..], &[0, 0][..]), "{came:?}");
    assert_eq!(came[0][1..3], [all, all]);
    assert!(came.iter().all(|counts| counts[3] > 0) && came[2][4] == 0, "{came:?}");
}

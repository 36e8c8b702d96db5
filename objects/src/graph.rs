//! Placing objects so that those that exchange many bytes are on one rank, and loads are even. METIS cuts the graph of
//! their messages into a part for each rank (multilevel k-way partitioning, Karypis and Kumar 1998), and the parts go
//! to the ranks that have most of them already.
//!
//! Invariant: the program's own random numbers (`rand`), which METIS also uses, continue as if METIS had drawn none.

use crate::balance::{Strategy, Weighed, place as place_by_load, refine, weight};
use mainstay_engine::{Error, Result};
use metis::{Graph, Idx, option};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ffi::{c_char, c_uint},
    sync::{Mutex, PoisonError},
};

/// The sum of all weights is below this: METIS counts in 32 bits.
const WEIGHT_MAX: u128 = 1 << 28;
const SEED: Idx = 1;
/// Thousandths above the average that METIS may leave on a rank.
const ABOVE_AVERAGE: Idx = 30;
/// A rank that is above the average by more than one part in this many gives objects away, even if that adds messages.
const SLACK: u64 = 20;

/// The new rank of each of the objects. `sent`: sender, receiver, and number of bytes; `open`: the ranks that may have
/// any, at least one. Without messages, or with few objects, loads alone decide.
pub fn place(objects: &[Weighed], sent: &[(usize, usize, u64)], open: &[bool]) -> Result<Vec<usize>> {
    let mut between: BTreeMap<(usize, usize), u128> = BTreeMap::new();
    for (from, to, bytes) in sent.iter().filter(|(from, to, bytes)| from != to && *bytes > 0) {
        for pair in [(*from, *to), (*to, *from)] {
            *between.entry(pair).or_default() += u128::from(*bytes);
        }
    }
    let ranks: Vec<usize> = (0..open.len()).filter(|rank| open[*rank]).collect();
    if between.is_empty() || ranks.len() < 2 || objects.len() < 2 * ranks.len() {
        return Ok(place_by_load(Strategy::Greedy, objects, open));
    }
    let part = cut(objects, &between, ranks.len())?;
    let mut placed = named(objects, &part, &ranks);
    refine(objects, &mut placed, open, SLACK);
    Ok(placed)
}

/// The part of each object.
fn cut(objects: &[Weighed], between: &BTreeMap<(usize, usize), u128>, parts: usize) -> Result<Vec<usize>> {
    let failed = |why: String| Error::argument("METIS", format!("it could not cut the graph of objects: {why}"));
    let index =
        |number: usize| Idx::try_from(number).map_err(|_| failed(format!("{number} is more than it can count")));
    let (mut begins, mut others) = (vec![0], Vec::with_capacity(between.len()));
    let mut pairs = between.keys().peekable();
    for object in 0..objects.len() {
        while let Some((_, other)) = pairs.next_if(|(of, _)| *of == object) {
            others.push(index(*other)?);
        }
        begins.push(index(others.len())?);
    }
    let loads = scaled(objects.iter().map(|object| u128::from(weight(object))).collect());
    let bytes = scaled(between.values().copied().collect());
    let mut part = vec![0; objects.len()];
    let graph = Graph::new(1, index(parts)?, &begins, &others).map_err(|error| failed(error.to_string()))?;
    let graph = graph.set_vwgt(&loads).set_adjwgt(&bytes);
    let graph = graph.set_option(option::Seed(SEED)).set_option(option::UFactor(ABOVE_AVERAGE));
    with_own_chance(|| graph.part_kway(&mut part)).map_err(|error| failed(error.to_string()))?;
    let part: Vec<usize> = part.into_iter().map(|part| usize::try_from(part).unwrap_or(usize::MAX)).collect();
    if part.iter().any(|part| *part >= parts) {
        return Err(failed("it named a part that there is not".to_owned()));
    }
    Ok(part)
}

/// Each at least 1, in proportion.
fn scaled(weights: Vec<u128>) -> Vec<Idx> {
    let total = weights.iter().sum::<u128>().max(1);
    let one = |weight: u128| if total < WEIGHT_MAX { weight } else { weight * WEIGHT_MAX / total };
    weights.into_iter().map(|weight| Idx::try_from(one(weight)).unwrap_or(Idx::MAX).max(1)).collect()
}

/// The rank of each object, given its part: a part stays on the rank that has most of it (Oliker and Biswas 1998).
fn named(objects: &[Weighed], part: &[usize], ranks: &[usize]) -> Vec<usize> {
    let mut stays: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (object, part) in objects.iter().zip(part) {
        *stays.entry((*part, object.rank)).or_default() += weight(object);
    }
    let mut most: Vec<(Reverse<u64>, usize, usize)> =
        stays.into_iter().map(|((part, rank), load)| (Reverse(load), part, rank)).collect();
    most.sort_unstable();
    let mut left: BTreeSet<usize> = ranks.iter().copied().collect();
    let mut rank_of: Vec<Option<usize>> = vec![None; ranks.len()];
    for (_, part, rank) in most {
        if rank_of[part].is_none() && left.remove(&rank) {
            rank_of[part] = Some(rank);
        }
    }
    let rank_of: Vec<usize> = rank_of.into_iter().map(|rank| rank.or_else(|| left.pop_first()).unwrap_or(0)).collect();
    part.iter().map(|part| rank_of[*part]).collect()
}

// From C's standard library on every Unix; the crate `libc` has neither.
#[allow(unsafe_code)]
unsafe extern "C" {
    fn initstate(seed: c_uint, state: *mut c_char, bytes: usize) -> *mut c_char;
    fn setstate(state: *mut c_char) -> *mut c_char;
}

/// A process has one state: while METIS has its own, no other thread may take that for the program's.
static STATE: Mutex<()> = Mutex::new(());

/// Runs `call`, which draws from `rand`, with separate random numbers.
fn with_own_chance<T>(call: impl FnOnce() -> T) -> T {
    let _alone = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    // A size that the function knows; it reads the bytes as words.
    let mut own = [0_u64; 32];
    // SAFETY: the memory is as large as stated, aligned, and stays until the previous state is back.
    #[allow(unsafe_code)]
    let before = unsafe { initstate(SEED as c_uint, own.as_mut_ptr().cast(), size_of_val(&own)) };
    let called = call();
    if !before.is_null() {
        // SAFETY: `initstate` has returned it.
        #[allow(unsafe_code)]
        unsafe {
            setstate(before)
        };
    }
    called
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::MutexGuard;

    /// While one test looks at the state of the process, no other cuts a graph.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects on a ring, dealt out to ranks like cards; each talks to its neighbours.
    fn ring(count: usize, ranks: usize) -> (Vec<Weighed>, Vec<(usize, usize, u64)>) {
        let objects = (0..count).map(|at| Weighed { load: 100, rank: at % ranks, is_orphan: false }).collect();
        (objects, (0..count).map(|at| (at, (at + 1) % count, 1000)).collect())
    }

    fn apart(sent: &[(usize, usize, u64)], rank_of: &[usize]) -> u64 {
        sent.iter().filter(|(from, to, _)| rank_of[*from] != rank_of[*to]).map(|(.., bytes)| bytes).sum()
    }

    #[test]
    fn objects_that_talk_come_together_and_loads_stay_even() {
        let _alone = alone();
        let (objects, sent) = ring(120, 4);
        let placed = place(&objects, &sent, &[true; 4]).unwrap();
        assert!(apart(&sent, &placed) <= 8 * 1000, "{placed:?}");
        for rank in 0..4 {
            let here = placed.iter().filter(|placed| **placed == rank).count();
            assert!((27..=33).contains(&here), "{here} on rank {rank}");
        }
        // A second cut gains nothing.
        let settled: Vec<Weighed> =
            objects.iter().zip(&placed).map(|(object, rank)| Weighed { rank: *rank, ..*object }).collect();
        assert_eq!(place(&settled, &sent, &[true; 4]).unwrap(), placed);
    }

    #[test]
    fn ranks_that_may_have_none_get_none_and_heavy_objects_do_not_pile_up() {
        let _alone = alone();
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..200 {
            let (ranks, count) = (random.usize(2..9), random.usize(1..200));
            let mut open: Vec<bool> = (0..ranks).map(|_| random.bool()).collect();
            open[random.usize(..ranks)] = true;
            let heaviest = [1, 1000, u64::MAX / 1000][random.usize(..3)];
            let objects: Vec<Weighed> = (0..count)
                .map(|_| Weighed { load: random.u64(..heaviest), rank: random.usize(..ranks), is_orphan: false })
                .collect();
            let sent: Vec<(usize, usize, u64)> = (0..random.usize(..400))
                .map(|_| (random.usize(..count), random.usize(..count), random.u64(..) >> random.u32(4..64)))
                .collect();
            let placed = place(&objects, &sent, &open).unwrap();
            assert!(placed.len() == count && placed.iter().all(|rank| open[*rank]));
            let mut loads = vec![0_u128; ranks];
            objects.iter().zip(&placed).for_each(|(object, rank)| loads[*rank] += u128::from(weight(object)));
            let heaviest = objects.iter().map(|object| u128::from(weight(object))).max().unwrap();
            let average = loads.iter().sum::<u128>() / open.iter().filter(|open| **open).count() as u128;
            assert!(*loads.iter().max().unwrap() <= average + average / 10 + heaviest + 1, "{loads:?}");
        }
    }

    #[test]
    fn the_program_draws_the_same_numbers_whether_a_graph_is_cut_or_not() {
        let _alone = alone();
        let (objects, sent) = ring(60, 3);
        #[allow(unsafe_code)]
        let draw = |cuts: bool| {
            // SAFETY: the call takes only a number.
            unsafe { libc::srand(7) };
            // SAFETY: it only uses state of the C library.
            let first = unsafe { libc::rand() };
            if cuts {
                place(&objects, &sent, &[true; 3]).unwrap();
            }
            // SAFETY: as above.
            let second = unsafe { libc::rand() };
            (first, second)
        };
        assert_eq!(draw(false), draw(true));
    }
}

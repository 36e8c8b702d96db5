//! Keeping a shard from falling into too many parts: its shortest clean stretches are staged again.
//!
//! What must hold: nothing becomes clean that was not.

use super::Lies;
use crate::space::format::BLOCK_BYTES;

/// A region that falls into more parts than this has small clean ones rewritten: HDF5 takes about 2,700 of them.
const PARTS_MAX: usize = 2500;

/// Has short clean stretches of a region that falls into many parts staged again, as many blocks as `more` allows.
pub(super) fn merge(clean: &mut Vec<Lies>, more: &mut u64) {
    // Between two clean stretches there is at most one that changed.
    let mut parts = 2 * clean.len() + 1;
    if parts <= PARTS_MAX || *more == 0 {
        return;
    }
    let mut shortest: Vec<usize> = (0..clean.len()).collect();
    shortest.sort_by_key(|index| clean[*index].count);
    for index in shortest {
        let count = clean[index].count;
        if parts <= PARTS_MAX || count > *more {
            break;
        }
        (*more, parts, clean[index].count) = (*more - count, parts.saturating_sub(2), 0);
    }
    clean.retain(|lies| lies.count > 0);
}

/// Has the shortest clean stretches of all regions, which have so many `bytes` each, staged again until the regions fall into
/// no more than `parts_max` parts.
pub(super) fn fit(clean: &mut [Vec<Lies>], bytes: &[u64], parts_max: u64) {
    let each = clean.iter().zip(bytes).map(|(clean, bytes)| {
        let gaps = clean.windows(2).filter(|pair| end(&pair[0]) < pair[1].block).count();
        let begins = u64::from(clean.first().is_some_and(|first| first.block > 0));
        let ends = u64::from(clean.last().map_or(0, end) * BLOCK_BYTES < *bytes);
        clean.len() as u64 + gaps as u64 + begins + ends
    });
    let mut parts: u64 = each.sum();
    if parts <= parts_max {
        return;
    }
    let numbered = clean.iter().enumerate();
    let stretches = numbered.flat_map(|(region, clean)| (0..clean.len()).map(move |index| (region, index)));
    let mut shortest: Vec<(usize, usize)> = stretches.collect();
    shortest.sort_by_key(|(region, index)| clean[*region][*index].count);
    for (region, index) in shortest {
        if parts <= parts_max {
            break;
        }
        let (clean, bytes) = (&mut clean[region], bytes[region]);
        let lies = clean[index];
        // A stretch that is staged again has no blocks, and so ends before the next begins.
        let is_staged_before = match index.checked_sub(1) {
            Some(before) => end(&clean[before]) < lies.block,
            None => lies.block > 0,
        };
        let is_staged_behind = match clean.get(index + 1) {
            Some(behind) => end(&lies) < behind.block || behind.count == 0,
            None => end(&lies) * BLOCK_BYTES < bytes,
        };
        clean[index].count = 0;
        // The stretch is one part with what is staged beside it.
        parts -= u64::from(is_staged_before) + u64::from(is_staged_behind);
    }
    clean.iter_mut().for_each(|clean| clean.retain(|lies| lies.count > 0));
}

fn end(lies: &Lies) -> u64 {
    lies.block + lies.count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_clean_stretches_go_while_there_are_too_many_and_bytes_allow() {
        let count = PARTS_MAX as u64;
        let lies = |index: u64| Lies { block: 10 * index, at: 10 * index, count: 1 + index % 3 };
        let of = |more: u64| {
            let (mut clean, mut left) = ((0..count).map(lies).collect::<Vec<_>>(), more);
            merge(&mut clean, &mut left);
            (clean, left)
        };
        let (clean, left) = of(u64::MAX);
        assert!(2 * clean.len() < PARTS_MAX && 2 * clean.len() + 3 > PARTS_MAX, "{}", clean.len());
        assert_eq!(clean.iter().filter(|lies| lies.count == 1).count(), 0, "the short ones go first");
        assert!(left < u64::MAX);
        let (clean, left) = of(10);
        assert_eq!((clean.len(), left), (count as usize - 10, 0));
        assert_eq!(of(0).0.len(), count as usize);
    }

    /// As a plan counts them.
    fn parts(clean: &[Lies], bytes: u64) -> u64 {
        let (mut count, mut from) = (0, 0);
        for lies in clean {
            count += u64::from(from < lies.block) + 1;
            from = end(lies);
        }
        count + u64::from(from * BLOCK_BYTES < bytes)
    }

    #[test]
    fn no_more_stretches_go_than_must_and_the_shortest_of_them() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let bytes: Vec<u64> = (0..random.usize(1..4)).map(|_| random.u64(1..200 * BLOCK_BYTES)).collect();
            let mut stretches = |bytes: u64| {
                let (mut clean, mut block) = (Vec::new(), random.u64(0..2));
                while block < bytes / BLOCK_BYTES {
                    // Clean stretches that lie apart in the portion can follow one another.
                    let count = random.u64(1..5).min(bytes / BLOCK_BYTES - block);
                    clean.push(Lies { block, at: 2 * block + clean.len() as u64, count });
                    block += count + random.u64(0..3);
                }
                clean
            };
            let all: Vec<Vec<Lies>> = bytes.iter().map(|bytes| stretches(*bytes)).collect();
            let count = |clean: &[Vec<Lies>]| clean.iter().zip(&bytes).map(|(clean, bytes)| parts(clean, *bytes)).sum();
            let before: u64 = count(&all);
            let parts_max = random.u64(1..before + 2);
            let mut fitting = all.clone();
            fit(&mut fitting, &bytes, parts_max);
            let after = count(&fitting);
            assert!(after <= parts_max.max(bytes.len() as u64), "seed {seed}: {after} parts of {parts_max}");
            assert!(after + 2 > parts_max.min(before), "seed {seed}: {after} parts of {parts_max}");
            let kept = |lies: &&Lies| fitting.iter().any(|clean| clean.contains(lies));
            let shortest = fitting.iter().flatten().map(|lies| lies.count).min();
            for (all, fitting) in all.iter().zip(&fitting) {
                assert!(fitting.iter().all(|lies| all.contains(lies)), "seed {seed}");
            }
            let gone = all.iter().flatten().filter(|lies| !kept(lies)).map(|lies| lies.count).max();
            assert!(gone.is_none() || shortest.is_none() || gone <= shortest, "seed {seed}: {gone:?}, {shortest:?}");
        }
    }
}

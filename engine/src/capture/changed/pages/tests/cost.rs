//! The cost of finding written pages and protecting them again.

use super::{TestPages, tracker, written_pages};
use crate::capture::userfaultfd::{Pagemap, Protection, ScannedPages, WantedPages};
use std::time::{Duration, Instant};

const PAGES: usize = 1 << 18;
const ROUNDS: usize = 5;

/// For 1 GiB: the tracker beside bare kernel calls, in turns, and the cost of each first write.
#[test]
#[ignore = "a measurement"]
fn scan_and_protection_of_a_gibibyte() {
    for advice in [libc::MADV_NOHUGEPAGE, libc::MADV_HUGEPAGE] {
        let (tracked, bare) = (TestPages::new(PAGES), TestPages::new(PAGES));
        for memory in [&tracked, &bare] {
            memory.advise(0..PAGES, advice);
            memory.write_each(0..PAGES);
        }
        let (protection, pagemap) = (Protection::lifted_by_the_kernel().unwrap(), Pagemap::open().unwrap());
        protection.register(&bare.range()).unwrap();
        let first = timed(|| pagemap.protect(&bare.range()).unwrap());
        let mut tracker = tracker();
        let begun = timed(|| {
            tracker.watch(tracked.range()).unwrap();
            written_pages(&mut tracker, &tracked);
        });
        println!(
            "\n{} pages: watched and all told {begun:?}; bare {first:?}",
            if advice == libc::MADV_HUGEPAGE { "huge" } else { "4 KiB" }
        );
        println!("dirty    told        bare scan   each first write   each later write   pages");
        for percent in [0, 1, 50, 100] {
            let (mut best, mut pages) = ([Duration::MAX; 4], 0);
            for round in 0..ROUNDS {
                // As many pages, spread over all of it, and others in each round.
                let dirty: Vec<usize> = (0..PAGES)
                    .filter(|page| (page.wrapping_mul(2654435761) >> 12) % 100 < percent)
                    .map(|page| (page + round) % PAGES)
                    .collect();
                let took = [
                    timed(|| tracked.write_each(dirty.iter().copied())),
                    timed(|| tracked.write_each(dirty.iter().copied())),
                    timed(|| pages = written_pages(&mut tracker, &tracked).iter().map(|range| range.len()).sum()),
                    {
                        bare.write_each(dirty.iter().copied());
                        timed(|| scan(&pagemap, &bare))
                    },
                ];
                best.iter_mut().zip(took).for_each(|(best, took)| *best = took.min(*best));
                assert_eq!(pages, dirty.len());
            }
            let each = |took: Duration| took.as_nanos() / pages.max(1) as u128;
            let [first, later, tracked_time, bare] = best;
            println!(
                "{percent:>3} %  {tracked_time:>10.2?}  {bare:>10.2?}  {:>13} ns  {:>15} ns  {pages:>7}",
                each(first),
                each(later)
            );
        }
    }
}

fn scan(pagemap: &Pagemap, memory: &TestPages) {
    let mut found = vec![ScannedPages::default(); 4096];
    let mut pages = memory.range();
    while !pages.is_empty() {
        pages.start = pagemap.take_written(&pages, WantedPages::Written, &mut found).unwrap().1;
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

//! The place of a log in a portion: runs of blocks, one behind the other, and the pieces of a stretch of the log there.

use crate::space::{format::BLOCK_BYTES, free::Blocks};
use serde::{Deserialize, Serialize};
use std::ops::{Deref, Range};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Blocks>", into = "Vec<Blocks>")]
pub(crate) struct LogRuns {
    runs: Vec<Blocks>,
    /// The end of each run in the log, in blocks.
    ends: Vec<u64>,
}

/// A stretch of the log inside one run of the portion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: u64,
    /// The first byte of the stretch in the portion.
    pub(crate) at: u64,
}

impl LogRuns {
    /// `bytes` bytes of the log from `offset` on: one piece for each run that holds some of them.
    pub(crate) fn pieces(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Piece> + '_ {
        let end = offset + bytes;
        let pieces = self.with(offset, end).map(move |index| {
            let run = self.runs[index];
            let begins = (self.ends[index] - run.count) * BLOCK_BYTES;
            let (from, to) = (offset.max(begins), end.min(self.ends[index] * BLOCK_BYTES));
            Piece { bytes: to - from, at: run.first * BLOCK_BYTES + (from - begins) }
        });
        pieces.filter(|piece| piece.bytes > 0)
    }

    /// The numbers of the runs with bytes of the log between `offset` and `end`. Uses a binary search: there may be
    /// many runs, and as many calls.
    fn with(&self, offset: u64, end: u64) -> Range<usize> {
        let first = self.ends.partition_point(|ends| ends * BLOCK_BYTES <= offset);
        let whole = self.ends[first..].partition_point(|ends| ends * BLOCK_BYTES < end);
        first..(first + whole + 1).min(self.runs.len())
    }
}

impl From<Vec<Blocks>> for LogRuns {
    fn from(runs: Vec<Blocks>) -> LogRuns {
        let ends = runs.iter().scan(0_u64, |end, run| {
            // Values from another process are checked later.
            *end = end.saturating_add(run.count);
            Some(*end)
        });
        LogRuns { ends: ends.collect(), runs }
    }
}

impl From<LogRuns> for Vec<Blocks> {
    fn from(runs: LogRuns) -> Vec<Blocks> {
        runs.runs
    }
}

impl Deref for LogRuns {
    type Target = [Blocks];

    fn deref(&self) -> &[Blocks] {
        &self.runs
    }
}

/// The first `blocks` of `runs`.
pub(crate) fn first_blocks(runs: &[Blocks], mut blocks: u64) -> Vec<Blocks> {
    let mut first = Vec::with_capacity(runs.len());
    for run in runs {
        let count = run.count.min(blocks);
        if count == 0 {
            break;
        }
        first.push(Blocks { first: run.first, count });
        blocks -= count;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: for each buffer of a shard, all runs of its portion were read.
    #[test]
    fn a_log_in_many_runs_is_laid_looking_at_each_run_once() {
        const RUNS: u64 = 1000;
        let runs: LogRuns = (0..RUNS).map(|run| Blocks { first: 10 * run, count: 3 }).collect::<Vec<_>>().into();
        let stretches = (0..3 * RUNS).map(|block| block * BLOCK_BYTES);
        let looked_at: usize = stretches.clone().map(|offset| runs.with(offset, offset + BLOCK_BYTES).len()).sum();
        assert_eq!(looked_at as u64, 3 * RUNS);
        for (block, offset) in (0..).zip(stretches) {
            let pieces: Vec<Piece> = runs.pieces(offset, BLOCK_BYTES).collect();
            assert_eq!(pieces, [Piece { bytes: BLOCK_BYTES, at: (10 * (block / 3) + block % 3) * BLOCK_BYTES }]);
        }
    }

    #[test]
    fn a_stretch_of_the_log_lies_in_the_runs_that_it_crosses() {
        let run = |first, count| Blocks { first, count };
        let runs = LogRuns::from(vec![run(7, 1), run(3, 0), run(20, 2), run(11, 1)]);
        let pieces =
            |offset, bytes| runs.pieces(offset, bytes).map(|piece| (piece.at, piece.bytes)).collect::<Vec<_>>();
        let at = |block: u64| block * BLOCK_BYTES;
        assert_eq!(pieces(0, at(4)), [(at(7), at(1)), (at(20), at(2)), (at(11), at(1))]);
        assert_eq!(pieces(100, at(2)), [(at(7) + 100, at(1) - 100), (at(20), at(1) + 100)]);
        assert_eq!(pieces(at(1), at(2)), [(at(20), at(2))]);
        assert_eq!(pieces(at(3) + 1, 5), [(at(11) + 1, 5)]);
        // There is nothing behind the end.
        assert_eq!(pieces(at(3), at(9)), [(at(11), at(1))]);
        assert_eq!((pieces(at(4), 1), pieces(at(1), 0)), (vec![], vec![]));
        // Invented numbers from another process do no harm before they are checked.
        assert_eq!(LogRuns::from(vec![run(0, u64::MAX), run(0, 9)]).len(), 2);
    }
}

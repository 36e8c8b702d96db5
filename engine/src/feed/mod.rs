//! Levels that lag behind: what is published on the nearest one is read there, verified, and saved again.
//!
//! What must hold: nothing is read but blocks that stay there meanwhile, never chunks that others wait for; a level that
//! fails harms neither the nearest one nor the others.

use crate::{
    error::{Error, Result},
    place::{Shard, Staged, Target, spawn},
    restore::pour,
    space::format::{BLOCK_BYTES, Manifest},
};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
};

/// The thread that feeds the farther levels, one shard after the other. It never calls the group.
#[derive(Debug)]
pub(crate) struct Feeder {
    /// `None` once the thread is asked to end.
    queue: Option<Sender<Feed>>,
    thread: Option<JoinHandle<()>>,
}

/// A shard, and the same on its way to another level.
#[derive(Debug)]
struct Feed {
    source: Arc<Shard>,
    copy: Arc<Shard>,
}

impl Feeder {
    pub(crate) fn start() -> Result<Feeder> {
        let (queue, work) = unbounded();
        let thread = spawn("mainstay-feed".to_owned(), move || run(&work))?;
        Ok(Feeder { queue: Some(queue), thread: Some(thread) })
    }

    /// Has `source` saved in `target` too, once it is published on the nearest level. Its blocks there must stay until the
    /// shard that this returns has come to its end.
    pub(crate) fn feed(&self, source: Arc<Shard>, target: Target) -> Result<Arc<Shard>> {
        let copy = source.copy_for(target)?;
        let feed = Feed { source, copy: copy.clone() };
        // The thread holds the receiver until the sender is gone.
        let _ = self.queue.as_ref().map(|queue| queue.send(feed));
        Ok(copy)
    }
}

impl Drop for Feeder {
    /// Waits for what has been handed over.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(work: &Receiver<Feed>) {
    for Feed { source, copy } in work {
        // A bug in here must end neither the program nor the wait for this revision.
        let fed = catch_unwind(AssertUnwindSafe(|| copy_all(&source, &copy)));
        match fed.unwrap_or_else(|_| Err(Error::Internal { what: "the thread that feeds levels panicked".to_owned() })) {
            Ok(()) => copy.commit(0),
            Err(error) => copy.abandon(0, error),
        }
    }
}

fn copy_all(source: &Shard, copy: &Shard) -> Result<()> {
    source.wait()?;
    let (portion, manifest) = source.published()?;
    let place = LogPlaces::of(&manifest);
    pour(&portion, &manifest, &|at, bytes| {
        // The first failure is the shard's, and what comes after it is read in vain.
        if !copy.has_failed()
            && let Err(error) = copy.carry(place.of_block(at), bytes)
        {
            copy.fail(error);
        }
    })?;
    if let Some(error) = copy.failure() {
        return Err(error.clone());
    }
    copy.note_staged(Staged::default(), source.contents()?.clone());
    Ok(())
}

/// Where in the log the blocks of a manifest's runs lie: one run after the other.
struct LogPlaces(Vec<(u64, u64)>);

impl LogPlaces {
    fn of(manifest: &Manifest) -> LogPlaces {
        let mut end = 0;
        let places = manifest.runs.iter().map(|run| {
            let begin = end;
            end += run.blocks * BLOCK_BYTES;
            (run.first_block * BLOCK_BYTES, begin)
        });
        let mut places: Vec<(u64, u64)> = places.collect();
        places.sort_unstable();
        LogPlaces(places)
    }

    /// Of the block at `at` in the portion, which is one of theirs.
    fn of_block(&self, at: u64) -> u64 {
        let next = self.0.partition_point(|(first, _)| *first <= at);
        let (first, begin) = self.0[next - 1];
        begin + (at - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::format::{Annex, Run};

    #[test]
    fn runs_follow_each_other_in_the_log_wherever_they_lie() {
        let run = |first_block, blocks| Run { first_block, blocks, hashes_at: 0, hashes_hash: [0; 16] };
        let runs = vec![run(40, 3), run(10, 2), run(90, 1)];
        let places = LogPlaces::of(&Manifest { runs, items: Vec::new(), annex: Annex::default() });
        let blocks = [40, 42, 10, 11, 90].map(|block| places.of_block(block * BLOCK_BYTES) / BLOCK_BYTES);
        assert_eq!(blocks, [0, 2, 3, 4, 5]);
    }
}

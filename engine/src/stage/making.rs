//! Making the pool's memory while the program does other work. That takes a while, and a restart does not need the
//! memory.

use crate::{
    error::Result,
    ground::{Instant, Thread, spawn},
    pool::Pool,
};
use std::time::Duration;

/// Less memory than this is made when it is needed: making it takes no longer than starting a thread.
const FEW_BYTES: u64 = 512 << 10;
/// How often, between checkpoints, a pool that sizes itself checks whether others need its memory.
const ADAPT_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct PoolInMaking {
    pool: Pool,
    begun: Option<Thread<Result<()>>>,
    /// Whether the last started thread frees memory.
    gives_back: bool,
    adapted: Instant,
}

impl PoolInMaking {
    /// A pool without its memory, which no thread makes yet.
    pub(crate) fn new(pool: Pool) -> PoolInMaking {
        PoolInMaking { pool, begun: None, gives_back: false, adapted: Instant::now() }
    }

    /// The pool, possibly still without its memory.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Starts a thread that makes the missing memory.
    pub(crate) fn begin(&mut self) {
        if self.pool.lacks() >= FEW_BYTES {
            // If no thread can be started, the memory is made when it is needed. More may be wanted meanwhile.
            self.spawn(false, |pool| pool.make_memory().and_then(|()| pool.make_memory()));
        }
    }

    /// Plans `bytes` more for the next shard, and begins to make them.
    pub(crate) fn foresee(&mut self, bytes: u64) {
        self.pool.want_more(bytes);
        self.begin();
    }

    /// Between checkpoints: now and then starts a thread that frees memory that others need.
    pub(crate) fn adapt(&mut self) {
        if self.adapted.elapsed() >= ADAPT_EVERY {
            self.adapted = Instant::now();
            self.spawn(true, |pool| {
                pool.adapt();
                Ok(())
            });
        }
    }

    /// The pool, with as much of its memory as lets all members go on, or `all` of it, and with this member's chunks
    /// repaired. The missing memory comes while the program copies. After a failure the next call tries again. From
    /// here until the next call of `adapt` no memory is freed: once all members have come here, the chunk size may
    /// change, and the freeing thread uses the old size.
    pub(crate) fn get(&mut self, all: bool) -> Result<&Pool> {
        // Retry, now that the memory is needed, after a thread has failed.
        let over = self.begun.take_if(|thread| self.gives_back || thread.is_finished());
        over.into_iter().for_each(|thread| drop(thread.join()));
        self.make(all)?;
        self.pool.repair();
        Ok(&self.pool)
    }

    /// Fits the pool at t1, after all members have announced their needs.
    pub(crate) fn fit(&mut self, all: bool) -> Result<()> {
        // Close chunks only while no thread opens more, which happens at once if no memory is kept.
        let opening = self.begun.take_if(|_| !self.pool.keeps_memory());
        opening.into_iter().for_each(|thread| drop(thread.join()));
        self.pool.fit();
        self.make(all)
    }

    /// Makes `all` memory, or only the least that lets all members go on, and lets a thread make the rest while the
    /// program goes on.
    fn make(&mut self, all: bool) -> Result<()> {
        if self.pool.is_made() {
            return Ok(());
        }
        self.begin();
        if self.begun.is_some() && !all { self.pool.make_least() } else { self.pool.make_memory() }
    }

    fn spawn(&mut self, gives_back: bool, work: impl FnOnce(&Pool) -> Result<()> + Send + 'static) {
        if self.begun.as_ref().is_none_or(Thread::is_finished) {
            let pool = self.pool.clone();
            self.gives_back = gives_back;
            self.begun = spawn("mainstay-pool".to_owned(), move || work(&pool)).ok();
        }
    }
}

impl Drop for PoolInMaking {
    /// Waits for the thread: memory that it makes would outlive the session, and add up over many sessions.
    fn drop(&mut self) {
        if let Some(thread) = self.begun.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ground::sleep, pool::Shape, space::draw_id};
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    /// The thread went on past t1. With the old chunk size it freed the memory of a chunk of the new size that another
    /// rank had filled.
    #[test]
    fn nobody_comes_to_t1_while_memory_is_given_back() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let pool = Pool::create(directory.path(), draw_id().unwrap(), &Shape::of_tables(1)).unwrap();
        let mut making = PoolInMaking::new(pool);
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = is_over.clone();
        making.spawn(true, move |_| {
            sleep(Duration::from_millis(200));
            flag.store(true, Ordering::SeqCst);
            Ok(())
        });
        making.get(false).unwrap();
        assert!(is_over.load(Ordering::SeqCst));
    }
}

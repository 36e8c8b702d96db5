//! Making the pool's memory while the program does something else. That takes a while, and a restart can do without the
//! memory.

use crate::{
    error::Result,
    ground::{Instant, spawn},
    pool::Pool,
};
use std::{thread::JoinHandle, time::Duration};

/// Less memory than this is made when it is needed: making it takes no longer than starting a thread.
const FEW_BYTES: u64 = 512 << 10;
/// How often a pool that sizes itself looks between checkpoints whether others need its memory.
const ADAPT_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct PoolInMaking {
    pool: Pool,
    begun: Option<JoinHandle<Result<()>>>,
    adapted: Instant,
}

impl PoolInMaking {
    /// A pool whose memory nobody has begun to make.
    pub(crate) fn new(pool: Pool) -> PoolInMaking {
        PoolInMaking { pool, begun: None, adapted: Instant::now() }
    }

    /// The pool, whose memory may not be there yet.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Has the memory that is lacking made by a thread of its own.
    pub(crate) fn begin(&mut self) {
        if self.pool.lacks() >= FEW_BYTES {
            // If no thread can be started, the memory is made when it is needed. More may be wanted meanwhile.
            self.spawn(|pool| pool.make_memory().and_then(|()| pool.make_memory()));
        }
    }

    /// Foresees `bytes` more for the next shard, and begins to make them.
    pub(crate) fn foresee(&mut self, bytes: u64) {
        self.pool.want_more(bytes);
        self.begin();
    }

    /// Between checkpoints: has a thread give back, now and then, memory that others need.
    pub(crate) fn adapt(&mut self) {
        if self.adapted.elapsed() >= ADAPT_EVERY {
            self.adapted = Instant::now();
            self.spawn(|pool| {
                pool.adapt();
                Ok(())
            });
        }
    }

    /// The pool, with as much of its memory as lets all members go on, or `all` of it, and without chunks that wrongly say they
    /// are this member's. What is lacking comes while the program copies. After a failure the next call tries again.
    pub(crate) fn get(&mut self, all: bool) -> Result<&Pool> {
        // What a thread failed at before is tried again, now that it is needed.
        self.begun.take_if(|thread| thread.is_finished());
        self.make(all)?;
        self.pool.repair();
        Ok(&self.pool)
    }

    /// Fits the pool at t1, once all members have said what they save.
    pub(crate) fn fit(&mut self, all: bool) -> Result<()> {
        self.pool.fit();
        self.make(all)
    }

    /// Has `all` made, or the least that lets all members go on, and the rest by a thread beside the program.
    fn make(&mut self, all: bool) -> Result<()> {
        if self.pool.is_made() {
            return Ok(());
        }
        self.begin();
        if self.begun.is_some() && !all { self.pool.make_least() } else { self.pool.make_memory() }
    }

    fn spawn(&mut self, work: impl FnOnce(&Pool) -> Result<()> + Send + 'static) {
        if self.begun.as_ref().is_none_or(JoinHandle::is_finished) {
            let pool = self.pool.clone();
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

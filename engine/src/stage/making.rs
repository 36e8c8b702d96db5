//! Making the pool's memory while the program does something else. It takes a while, and a restart can do
//! without.

use crate::{
    error::{Error, Result},
    place::spawn,
    pool::Pool,
};
use std::thread::JoinHandle;

#[derive(Debug)]
pub(crate) struct PoolInMaking {
    pool: Pool,
    state: State,
}

#[derive(Debug)]
enum State {
    Wanted,
    Begun(JoinHandle<Result<()>>),
    Made,
}

impl PoolInMaking {
    /// Makes nothing yet.
    pub(crate) fn new(pool: Pool) -> PoolInMaking {
        PoolInMaking { pool, state: State::Wanted }
    }

    /// The pool, whose memory may not be there yet.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Has the memory made by a thread of its own.
    pub(crate) fn begin(&mut self) {
        if matches!(self.state, State::Wanted) {
            let pool = self.pool.clone();
            // Without a thread it is made when it is needed.
            if let Ok(thread) = spawn("mainstay-pool".to_owned(), move || pool.prepare()) {
                self.state = State::Begun(thread);
            }
        }
    }

    /// The pool with its memory, waited for or made, and without chunks that wrongly say they are this
    /// member's. After a failure the next call tries again.
    pub(crate) fn get(&mut self) -> Result<&Pool> {
        if !matches!(self.state, State::Made) {
            match std::mem::replace(&mut self.state, State::Wanted) {
                State::Begun(thread) => thread.join().unwrap_or_else(|_| Err(panicked())),
                _ => self.pool.prepare(),
            }?;
            self.state = State::Made;
        }
        self.pool.repair();
        Ok(&self.pool)
    }
}

impl Drop for PoolInMaking {
    /// Waits for the thread: what it makes would outlive the session, and add up over many.
    fn drop(&mut self) {
        if let State::Begun(thread) = std::mem::replace(&mut self.state, State::Wanted) {
            let _ = thread.join();
        }
    }
}

fn panicked() -> Error {
    Error::Internal { what: "the thread that makes the pool panicked".to_owned() }
}

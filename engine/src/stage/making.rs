//! Making the pool while the program does something else. It takes a while, and a restart can do without.

use super::Pool;
use crate::{
    config::Config,
    error::{Error, Result},
    place::spawn,
};
use std::thread::JoinHandle;

#[derive(Debug)]
pub(crate) struct PoolInMaking {
    config: Config,
    state: State,
}

#[derive(Debug)]
enum State {
    Wanted,
    Begun(JoinHandle<Result<Pool>>),
    Made(Pool),
}

impl PoolInMaking {
    /// Makes nothing yet, but refuses if there is no room for the pools of `ranks` ranks.
    pub(crate) fn new(config: &Config, ranks: usize) -> Result<PoolInMaking> {
        Pool::check_room(&config.pool_directory, config.pool_bytes, ranks as u64)?;
        Ok(PoolInMaking { config: config.clone(), state: State::Wanted })
    }

    /// Has the pool made by a thread of its own.
    pub(crate) fn begin(&mut self) {
        if matches!(self.state, State::Wanted) {
            let config = self.config.clone();
            // Without a thread it is made when it is needed.
            if let Ok(thread) = spawn("mainstay-pool".to_owned(), move || make(&config)) {
                self.state = State::Begun(thread);
            }
        }
    }

    /// The pool, waited for or made. After a failure the next call tries again.
    pub(crate) fn get(&mut self) -> Result<&Pool> {
        if !matches!(self.state, State::Made(_)) {
            let made = match std::mem::replace(&mut self.state, State::Wanted) {
                State::Begun(thread) => thread.join().unwrap_or_else(|_| Err(panicked())),
                _ => make(&self.config),
            };
            self.state = State::Made(made?);
        }
        match &self.state {
            State::Made(pool) => Ok(pool),
            _ => Err(panicked()),
        }
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

fn make(config: &Config) -> Result<Pool> {
    Pool::new(&config.pool_directory, config.pool_bytes, config.chunk_bytes)
}

fn panicked() -> Error {
    Error::Internal { what: "the thread that makes the pool panicked".to_owned() }
}

//! The ranks that have the space open. Two jobs never have it open at once.

use crate::{cluster::Death, lock::locked};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

/// The ranks of all jobs that have opened one space.
#[derive(Debug, Default)]
pub struct Openings(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    job: u64,
    death: Death,
    is_open: Arc<AtomicBool>,
}

/// A rank that has the space open, until it drops this or dies.
#[derive(Debug)]
pub struct Opening(Arc<AtomicBool>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Openings {
    /// A rank of `job` has opened the space.
    pub fn enter(&self, job: u64, death: Death) -> Result<Opening, String> {
        self.check(Some(job))?;
        let is_open = Arc::new(AtomicBool::new(true));
        locked(&self.0).push(Entry { job, death, is_open: is_open.clone() });
        Ok(Opening(is_open))
    }

    /// Fails if a job other than `job` has the space open.
    pub fn check(&self, job: Option<u64>) -> Result<(), String> {
        let all = locked(&self.0);
        let is_open = |one: &&Entry| one.is_open.load(Ordering::Acquire) && one.death.time().is_none();
        match all.iter().filter(is_open).find(|one| Some(one.job) != job) {
            Some(other) => Err(format!("job {} still has the space open", other.job)),
            None => Ok(()),
        }
    }
}

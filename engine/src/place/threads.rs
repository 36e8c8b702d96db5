//! The I/O threads of a session. They never call the group.
//!
//! Some threads write and others hash, so a device never waits for a checksum. Hashing threads leave the processor to
//! ranks that have not reached t2. One thread handles a small shard by itself: waking two threads takes longer than
//! copying it.

use super::{LogSegment, Shard, SnapshotFollower, load::NEAREST};
use crate::{
    error::{Error, Result},
    ground::{Thread, Urgency, receive, spawn},
};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

#[derive(Debug)]
pub(crate) struct IoThreads {
    /// `None` once the threads should end.
    queues: Option<Queues>,
    threads: Vec<Thread<()>>,
}

#[derive(Debug, Clone)]
struct Queues {
    writing: Sender<Work>,
    hashing: Sender<Work>,
}

#[derive(Debug)]
enum Work {
    /// Writes the load to one of its targets.
    Write(Arc<LogSegment>, usize),
    Hash(Arc<LogSegment>),
    /// Hashes the load, and writes it to the nearest target.
    Small(Arc<LogSegment>),
    /// Follows the snapshot of a shard, and passes on the parts that it has copied. The queues live as long.
    Follow(Box<SnapshotFollower>, Queues),
    /// Commits the shard in one of its targets.
    Commit(Arc<Shard>, usize),
}

impl IoThreads {
    /// Starts `count` writing threads and as many hashing threads. `flush_every`: how often full chunks are written; at
    /// once if `None`.
    pub(crate) fn start(count: usize, flush_every: Option<Duration>) -> Result<IoThreads> {
        let ((writing, to_write), (hashing, to_hash)) = (unbounded(), unbounded());
        let mut started = IoThreads { queues: Some(Queues { writing, hashing }), threads: Vec::new() };
        for (kind, receiver) in [("write", to_write), ("hash", to_hash)] {
            for index in 0..count {
                let receiver = receiver.clone();
                started.threads.push(spawn(format!("mainstay-{kind}-{index}"), move || run(&receiver, flush_every))?);
            }
        }
        Ok(started)
    }

    /// Hashes `load`, and writes it unless it is already in place. Writing begins at once: it takes a device and hardly
    /// any processor.
    pub(crate) fn carry(&self, load: Arc<LogSegment>) {
        self.queues.iter().for_each(|queues| queues.carry(load.clone()));
    }

    /// Announces that the whole shard has been passed on.
    pub(crate) fn all_staged(&self, shard: &Arc<Shard>) {
        self.queues.iter().for_each(|queues| queues.all_staged(shard));
    }

    /// Follows a snapshot and passes on the shard's parts as they are copied. A hashing thread does it, because it has
    /// nothing to hash before that.
    pub(crate) fn follow(&self, following: SnapshotFollower) {
        if let Some(queues) = &self.queues {
            let _ = queues.hashing.send(Work::Follow(Box::new(following), queues.clone()));
        }
    }
}

impl Queues {
    fn carry(&self, load: Arc<LogSegment>) {
        let targets = &load.shard().targets;
        let is_for_one = load.shard().is_small() && !targets.is_empty();
        for (index, target) in targets.iter().enumerate() {
            target.add_parts(1);
            if load.is_to_be_written() {
                target.add_parts(1);
                if !is_for_one || index != NEAREST {
                    // The threads hold the receivers until the senders are gone.
                    let _ = self.writing.send(Work::Write(load.clone(), index));
                }
            }
        }
        let _ = if is_for_one { self.writing.send(Work::Small(load)) } else { self.hashing.send(Work::Hash(load)) };
    }

    fn all_staged(&self, shard: &Arc<Shard>) {
        for (index, target) in shard.targets.iter().enumerate() {
            if target.end_part() {
                let _ = self.writing.send(Work::Commit(shard.clone(), index));
            }
        }
    }
}

impl Drop for IoThreads {
    /// Waits for all queued work.
    fn drop(&mut self) {
        self.queues = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(work: &Receiver<Work>, flush_every: Option<Duration>) {
    let mut urgency = Urgency::of_this_thread();
    while let Some(work) = receive(work) {
        let hashes = matches!(work, Work::Small(_) | Work::Hash(_));
        urgency.set(!hashes);
        match work {
            Work::Write(load, target) => write(load, target, flush_every, &mut urgency),
            Work::Hash(load) => hash(load, &mut urgency),
            Work::Small(load) => {
                hash(load.clone(), &mut urgency);
                // The other ranks have copied by now, and the device wakes this thread several times.
                urgency.set(true);
                if load.is_to_be_written() {
                    write(load, NEAREST, flush_every, &mut urgency);
                }
            }
            Work::Follow(following, queues) => follow(*following, &queues),
            Work::Commit(shard, target) => commit(&shard, target),
        }
        urgency.set(!hashes);
    }
}

fn write(load: Arc<LogSegment>, target: usize, flush_every: Option<Duration>, urgency: &mut Urgency) {
    guard(|| load.write(target, flush_every), |error| load.shard().fail_target(target, error));
    give_back(load, target..target + 1, urgency);
}

fn hash(load: Arc<LogSegment>, urgency: &mut Urgency) {
    guard(|| load.hash(), |error| load.shard().fail(error));
    let targets = load.shard().targets.len();
    give_back(load, 0..targets, urgency);
}

/// A bug in here must end neither the program nor the wait for this revision. A target ends only when no other thread
/// writes to it any more: the next revision may get the same blocks.
fn guard(work: impl FnOnce(), fail: impl FnOnce(Error)) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        fail(Error::Internal { what: "an I/O thread panicked".to_owned() });
    }
}

fn follow(following: SnapshotFollower, queues: &Queues) {
    let shard = following.shard.clone();
    let work = || following.follow(|load| queues.carry(load)).unwrap_or_else(|error| shard.fail(error));
    guard(work, |error| shard.fail(error));
    queues.all_staged(&shard);
}

/// Ends a part of each of `targets`, and drops the load.
fn give_back(load: Arc<LogSegment>, targets: Range<usize>, urgency: &mut Urgency) {
    let shard = load.shard().clone();
    // The program may be waiting for its chunk.
    drop(load);
    // End all parts first: a target that takes long to publish must not delay the others.
    let ended: Vec<usize> = targets.filter(|target| shard.targets[*target].end_part()).collect();
    if !ended.is_empty() {
        // A device wakes this thread several times until the revision is durable.
        urgency.set(true);
    }
    ended.into_iter().for_each(|target| commit(&shard, target));
}

fn commit(shard: &Shard, target: usize) {
    guard(|| shard.commit(target), |error| shard.abandon(target, error));
}

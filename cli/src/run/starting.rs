//! Ranks that end while their job starts. With its fault tolerance on, Open MPI leaves the others waiting in MPI_Init for
//! ever for one that has ended in it, or before.

use super::tree;
use nix::unistd::Pid;
use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

/// So long others may take to come to an end, or to open a space, once one has ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// What Open MPI's launcher tells each rank that it starts.
const NUMBER: &[u8] = b"PMIX_RANK=";

/// The ranks of a job on this machine that were seen before it has told anything.
#[derive(Debug, Default)]
pub struct Starting {
    seen: BTreeSet<Pid>,
    has_first: bool,
    lost: Option<Instant>,
}

impl Starting {
    /// Whether the job of `launcher`, which has told nothing yet, waits for a rank that has ended. It has told nothing
    /// here either where its first rank runs elsewhere: such a job is not judged.
    pub fn hangs(&mut self, launcher: Pid) -> bool {
        let mut ranks = BTreeSet::new();
        for pid in tree::below(launcher) {
            if let Some(number) = number_of(pid) {
                self.has_first |= number == b"0";
                ranks.insert(pid);
            }
        }
        let has_lost = !ranks.is_empty() && self.seen.difference(&ranks).next().is_some();
        // One that has started another program to work for it is no rank any more once that has ended.
        self.seen.extend(&ranks);
        if !has_lost {
            self.lost = None;
        }
        let lost = *self.lost.get_or_insert_with(Instant::now);
        has_lost && self.has_first && lost.elapsed() >= PATIENCE
    }
}

/// Its number as a rank, if this process was started as one and not by one.
fn number_of(pid: Pid) -> Option<Vec<u8>> {
    let number = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(NUMBER).map(<[u8]>::to_vec))
    };
    let mine = number(pid.as_raw())?;
    let parent = tree::parent_of(pid)?;
    number(parent.as_raw()).is_none().then_some(mine)
}

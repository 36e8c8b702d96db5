//! Ranks that end while their job starts. With fault tolerance on, Open MPI leaves the other ranks waiting in MPI_Init
//! for ever if one has ended in it, or before.

use super::tree;
use nix::unistd::Pid;
use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

/// How long a job that lacks a rank may take to open a space, or to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Variables that Open MPI gives each rank: its number, the number of ranks, and the number started by its own parent.
const TOLD: [&str; 3] = ["OMPI_COMM_WORLD_RANK=", "OMPI_COMM_WORLD_SIZE=", "OMPI_COMM_WORLD_LOCAL_SIZE="];

/// A job that has reported nothing yet.
#[derive(Debug, Default)]
pub struct Starting {
    lacking_since: Option<Instant>,
    has_seen_first: bool,
}

impl Starting {
    /// Does the job of `launcher` wait for a rank that has ended?
    pub fn hangs(&mut self, launcher: Pid) -> bool {
        let here = Here::of(launcher);
        self.has_seen_first |= here.has_first;
        if !here.lacks_rank() {
            self.lacking_since = None;
            return false;
        }
        self.lacking_since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
    }

    /// The first rank has been on this machine.
    pub fn has_seen_first(&self) -> bool {
        self.has_seen_first
    }
}

/// The ranks on this machine.
#[derive(Default)]
struct Here {
    /// Number of ranks in the job.
    ranks: u32,
    has_first: bool,
    /// By parent process: the number of present ranks, and of started ones.
    started: BTreeMap<Pid, (u32, u32)>,
}

impl Here {
    fn of(launcher: Pid) -> Here {
        let mut found = Here::default();
        for pid in tree::below(launcher) {
            let Some([number, size, here]) = told_to(pid) else { continue };
            // Processes that a rank has started have its environment.
            let Some(parent) = tree::parent_of(pid).filter(|parent| told_to(*parent).is_none()) else { continue };
            let of_parent = found.started.entry(parent).or_insert((0, here));
            of_parent.0 += 1;
            (found.ranks, found.has_first) = (size, found.has_first || number == 0);
        }
        found
    }

    /// Is one of the ranks missing that were started here? If the first rank runs elsewhere, the answer is no, because
    /// the job then reports nothing here.
    fn lacks_rank(&self) -> bool {
        let are_all_here = self.ranks == self.started.values().map(|(_, started)| started).sum::<u32>();
        (self.has_first || are_all_here) && self.started.values().any(|(there, started)| there < started)
    }
}

/// Open MPI's variables of this process, if it is a rank or was started by one.
fn told_to(pid: Pid) -> Option<[u32; 3]> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let told = |name: &str| {
        let value = environment.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(name.as_bytes()))?;
        str::from_utf8(value).ok()?.parse().ok()
    };
    let [number, size, here] = TOLD.map(told);
    Some([number?, size?, here?])
}

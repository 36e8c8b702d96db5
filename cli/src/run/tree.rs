//! A process and all that it has started.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{collections::BTreeMap, fs};

/// Ends `root`, a child that was not waited for yet, and all below it: a launcher that hangs, its remote shells, its ranks
/// on this machine.
pub fn end(root: Pid) {
    // They can start others meanwhile, but not once their parent is gone. Of what is below the root a number could be used
    // anew only within this loop.
    for pid in below(root).into_iter().chain([root]) {
        let _ = kill(pid, Signal::SIGKILL);
    }
}

fn below(root: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name of the program, in brackets, can hold anything.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut next = vec![root.as_raw()];
    while let Some(pid) = next.pop() {
        next.extend(children.remove(&pid).unwrap_or_default());
        found.extend((pid != root.as_raw()).then_some(Pid::from_raw(pid)));
    }
    found
}

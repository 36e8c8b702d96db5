//! A process and all its descendants.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{collections::BTreeMap, fs};

/// Kills `root`, a child that was not waited for yet, and all below it: a launcher that hangs, its remote shells, and
/// its ranks on this machine.
pub fn end(root: Pid) {
    // Stop the root first: it then starts no others. Nor does it end by itself with a useless status, as a script does
    // after its command is killed. The others can start more, but not once their parent is gone. A number below the
    // root could be reused only within this loop.
    let _ = kill(root, Signal::SIGSTOP);
    for pid in below(root).into_iter().chain([root]) {
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// All processes below `root`.
pub fn below(root: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let parent = parent_of(Pid::from_raw(pid)).map_or(0, Pid::as_raw);
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut next = vec![root.as_raw()];
    while let Some(pid) = next.pop() {
        next.extend(children.remove(&pid).unwrap_or_default());
        found.extend((pid != root.as_raw()).then_some(Pid::from_raw(pid)));
    }
    found
}

pub fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, can contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().map(Pid::from_raw)
}

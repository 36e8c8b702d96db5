//! Leaks: files that ended processes left open or mapped, and files that ended jobs left in the memory of nodes.

use crate::{
    cluster::{Cluster, Fault},
    job::Job,
    lock::locked,
    plan::PlannedFault,
};
use std::{fs, path::PathBuf};

/// Fails if a process that ended in order has left a file open or mapped. Call it while no process lives.
pub fn check(cluster: &Cluster) -> Result<(), Fault> {
    if let Some(left) = cluster.left_open() {
        return Err(Fault(left));
    }
    match mapped(cluster) {
        1.. if !cluster.has_killed() => {
            Err(Fault("all processes have ended, and some of their files are still mapped".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Like `check`. Fails, too, if a job that ended in order has left a file in the memory of the nodes.
pub fn check_after(job: &Job, rival: &Job) -> Result<(), Fault> {
    check(&job.cluster)?;
    // The removal of a file may be the operation that failed.
    let may_fail = job.round.faults.iter().any(|fault| matches!(fault, PlannedFault::Fails { .. }));
    if may_fail || !job.has_closed() || !(rival.has_closed() || locked(&rival.ranks).is_empty()) {
        return Ok(());
    }
    let mut folders: Vec<PathBuf> =
        (0..job.setting.nodes).map(|node| job.cluster.node_folder(node).join("memory")).collect();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if !path.is_dir() {
                return Err(Fault(format!("job {} has ended in order, and {} is left", job.number, path.display())));
            }
            folders.push(path);
        }
    }
    Ok(())
}

/// The number of mapped files of the cluster, with a name or removed.
fn mapped(cluster: &Cluster) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let folder = cluster.shared_folder().with_file_name("").display().to_string();
    maps.lines().filter(|line| line.contains(&folder)).count()
}

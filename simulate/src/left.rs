//! The remains of processes and jobs: files that are open, memory that is mapped, files in the memory of nodes.

use crate::{
    cluster::{Cluster, Fault},
    job::Job,
    lock::locked,
    plan::PlannedFault,
};
use std::{fs, path::PathBuf};

/// No process is left. Those that have ended in order leave no file open, and none mapped.
pub fn check(cluster: &Cluster) -> Result<(), Fault> {
    if let Some(left) = cluster.left_open() {
        return Err(Fault(left));
    }
    match mapped(cluster) {
        1.. if !cluster.has_killed() => Err(Fault("all processes have ended, and files are mapped".to_owned())),
        _ => Ok(()),
    }
}

/// In addition, a job that has ended in order leaves no file in the memory of the nodes.
pub fn check_after(job: &Job, rival: &Job) -> Result<(), Fault> {
    check(&job.cluster)?;
    // An operation that failed may have been the removal of a file.
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

/// The mappings of files of the cluster, named or not.
fn mapped(cluster: &Cluster) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let folder = cluster.shared_folder().with_file_name("").display().to_string();
    maps.lines().filter(|line| line.contains(&folder)).count()
}

//! The remains of processes and jobs: files that are open, memory that is mapped, files in the memory of nodes.

use crate::{
    cluster::{Cluster, Fault},
    job::Job,
    lock::locked,
};
use std::{fs, path::PathBuf, sync::Arc};

pub struct Left {
    cluster: Arc<Cluster>,
    /// Mappings of killed processes of earlier runs.
    mapped_before: usize,
}

impl Left {
    /// Call it before the first job.
    pub fn new(cluster: &Arc<Cluster>) -> Left {
        Left { cluster: cluster.clone(), mapped_before: mapped(cluster) }
    }

    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// No process is left. Those that have ended in order leave no file open, and none mapped.
    pub fn check(&self) -> Result<(), Fault> {
        if let Some(left) = self.cluster.left_open() {
            return Err(Fault(left));
        }
        let mapped = mapped(&self.cluster);
        if mapped > self.mapped_before && !self.cluster.has_killed() {
            return Err(Fault(format!("all processes have ended, and {mapped} files are mapped")));
        }
        Ok(())
    }

    /// In addition, a job that has ended in order leaves no file in the memory of the nodes.
    pub fn check_after(&self, job: &Job, rival: &Job) -> Result<(), Fault> {
        self.check()?;
        if !job.has_closed() || !(rival.has_closed() || locked(&rival.ranks).is_empty()) {
            return Ok(());
        }
        let mut folders: Vec<PathBuf> =
            (0..job.setting.nodes).map(|node| self.cluster.node_folder(node).join("memory")).collect();
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
                if !path.is_dir() {
                    return Err(Fault(format!(
                        "job {} has ended in order, and {} is left",
                        job.number,
                        path.display()
                    )));
                }
                folders.push(path);
            }
        }
        Ok(())
    }
}

/// The mappings of files of the cluster, named or not.
fn mapped(cluster: &Cluster) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let folder = cluster.shared_folder().with_file_name("").display().to_string();
    maps.lines().filter(|line| line.contains(&folder)).count()
}

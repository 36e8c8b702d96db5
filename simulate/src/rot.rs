//! Damage on a disk.

use crate::{cluster::Cluster, job::Job, judge::Place, lock::locked};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::PathBuf,
};

/// Changes a byte of a file with revisions, on a disk of a node or in the space. Both numbers count modulo the files and
/// the bytes that there are.
pub fn rot(cluster: &Cluster, job: &Job, file: usize, byte: u64) {
    let disks = (0..job.setting.nodes).map(|node| (Place::Disk, cluster.node_folder(node).join("disk")));
    let mut all: Vec<(Place, PathBuf)> = Vec::new();
    for (place, folder) in disks.chain([(Place::Pfs, cluster.shared_folder())]) {
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("layout-")) {
                    all.push((place, path));
                }
            }
        }
    }
    all.sort_by(|one, other| one.1.cmp(&other.1));
    let Some((place, path)) = all.get(file % all.len().max(1)) else { return };
    let Ok(open) = File::options().read(true).write(true).open(path) else { return };
    let at = byte % open.metadata().map_or(1, |found| found.len().max(1));
    let mut old = [0];
    if open.read_exact_at(&mut old, at).is_ok() && open.write_all_at(&[old[0] ^ 0x10], at).is_ok() {
        cluster.tell(|| format!("byte {at} of {} changes", path.display()));
        locked(&job.judge).rotted(*place);
    }
}

//! The memory left by the control groups of this process. Files in /dev/shm count too, and a process that exceeds the
//! limit is killed.

use super::files::kernel_text;
use std::path::{Path, PathBuf};

/// The memory that this process may still take, in bytes; `u64::MAX` without a limit.
pub(crate) fn free_bytes() -> u64 {
    groups(Path::new("/")).iter().map(|group| group.free).min().unwrap_or(u64::MAX)
}

/// The memory that this process may have in all, in bytes; `u64::MAX` without a limit.
pub(crate) fn limit_bytes() -> u64 {
    groups(Path::new("/")).iter().map(|group| group.limit).min().unwrap_or(u64::MAX)
}

/// The limit and the free memory of one control group of this process.
struct Group {
    limit: u64,
    free: u64,
}

/// The control groups of this process that limit memory: its own, and those above it. `root`: the place of /proc and
/// /sys.
fn groups(root: &Path) -> Vec<Group> {
    let of_process = kernel_text(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounted = root.join("sys/fs/cgroup");
    let folders = of_process.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (version, hierarchy) = match controllers {
            "" if mounted.join("unified").is_dir() => (&VERSION_2, mounted.join("unified")),
            "" => (&VERSION_2, mounted.clone()),
            named if named.split(',').any(|name| name == "memory") => (&VERSION_1, mounted.join("memory")),
            _ => return None,
        };
        Some((version, hierarchy, PathBuf::from(path.trim_start_matches('/'))))
    });
    folders
        .flat_map(|(version, hierarchy, path)| {
            // A container may see its own group as the root, while the group's name is the one outside.
            let above: Vec<PathBuf> = path.ancestors().map(|path| hierarchy.join(path)).collect();
            above.into_iter().filter_map(|folder| version.read(&folder))
        })
        .collect()
}

/// The files of a version of control groups.
struct Version {
    limit: &'static str,
    used: &'static str,
    /// The field of memory.stat for memory that the kernel frees as soon as memory is short.
    cached: &'static str,
}

const VERSION_1: Version =
    Version { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", cached: "total_inactive_file" };
const VERSION_2: Version = Version { limit: "memory.max", used: "memory.current", cached: "inactive_file" };

impl Version {
    fn read(&self, folder: &Path) -> Option<Group> {
        let number = |name| kernel_text(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        // "max" is not a number; version 1 expresses no limit by an impossibly large number.
        let limit = number(self.limit).filter(|limit| *limit < 1 << 60)?;
        let stat = kernel_text(folder.join("memory.stat")).unwrap_or_default();
        let cached = stat.lines().find_map(|line| line.strip_prefix(self.cached)?.trim().parse::<u64>().ok());
        let used = number(self.used).unwrap_or(0).saturating_sub(cached.unwrap_or(0));
        Some(Group { limit, free: limit.saturating_sub(used) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn found(files: &[(&str, &str)]) -> (u64, u64) {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), files);
        let of = |of: fn(&Group) -> u64| groups(root.path()).iter().map(of).min().unwrap_or(u64::MAX);
        (of(|group| group.limit), of(|group| group.free))
    }

    #[test]
    fn the_control_group_and_those_above_it_count() {
        let two = [
            ("proc/self/cgroup", "0::/job/step\n"),
            ("sys/fs/cgroup/job/memory.max", "1000\n"),
            ("sys/fs/cgroup/job/memory.current", "700\n"),
            ("sys/fs/cgroup/job/memory.stat", "anon 100\ninactive_file 50\nactive_file 9\n"),
            ("sys/fs/cgroup/job/step/memory.max", "max\n"),
            ("sys/fs/cgroup/job/step/memory.current", "600\n"),
        ];
        assert_eq!(found(&two), (1000, 350));
        let one = [
            ("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/job\n0::/\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "500\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "600\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(found(&one), (500, 0));
        // In a container the name is the one outside, and the group itself is the root.
        let inside = [
            ("proc/self/cgroup", "4:memory:/docker/abc\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "800\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "200\n"),
            ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 100\n"),
        ];
        assert_eq!(found(&inside), (800, 700));
        assert_eq!(found(&[]), (u64::MAX, u64::MAX));
        assert_eq!(found(&[("proc/self/cgroup", "garbage\n::\n7\n")]), (u64::MAX, u64::MAX));
    }
}

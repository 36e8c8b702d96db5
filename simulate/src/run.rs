//! One run of a plan.

use crate::{
    cluster::{Cluster, Fault, Limits, ProcessId},
    job::{Job, Rank, locked, sleep},
    judge::{Judge, Place},
    objects::Models,
    plan::{Plan, PlannedFault},
};
use mainstay_engine::current_world;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The outcome of a run.
#[derive(Debug)]
pub struct Ran {
    pub outcome: Result<(), Fault>,
    /// Empty unless it was asked for.
    pub story: Vec<String>,
    pub steps: u64,
    pub time: Duration,
    pub acknowledged: u64,
    pub restores: u64,
}

/// Runs `plan`.
pub fn run(plan: &Plan, keeps_story: bool) -> Ran {
    let plan = plan.clone();
    in_cluster(plan.seed, keeps_story, move |cluster, judge| operate(cluster, &plan, judge))
}

/// Runs `operate` as the operator of a cluster in a folder in memory of its own.
pub fn in_cluster(
    seed: u64,
    keeps_story: bool,
    operate: impl FnOnce(&Arc<Cluster>, &Arc<Mutex<Judge>>) -> Result<(), Fault> + Send + 'static,
) -> Ran {
    let folder = Folder::make();
    let _processor = OneProcessor::choose(folder.slot);
    let cluster = Cluster::new(seed, &folder.path, Limits::DEFAULT, keeps_story);
    let judge: Arc<Mutex<Judge>> = Arc::default();
    let of_run = judge.clone();
    let outcome = cluster.run(move |cluster| operate(cluster, &of_run));
    let judge = locked(&judge);
    Ran {
        outcome,
        story: cluster.story(),
        steps: cluster.steps(),
        time: cluster.now(),
        acknowledged: judge.acknowledged,
        restores: judge.restores,
    }
}

/// Keeps the threads of a run on one processor, so that one hands over to the next without waking another processor.
struct OneProcessor(libc::cpu_set_t);

impl OneProcessor {
    /// The processor is chosen by `number` of those that this thread may use.
    fn choose(number: usize) -> OneProcessor {
        // SAFETY: all zeros are a valid set, and the sets outlive the calls.
        #[allow(unsafe_code)]
        unsafe {
            let mut before: libc::cpu_set_t = std::mem::zeroed();
            let bytes = size_of_val(&before);
            if libc::sched_getaffinity(0, bytes, &raw mut before) == 0 {
                let all: Vec<usize> =
                    (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &before)).collect();
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(all[number % all.len().max(1)], &mut one);
                libc::sched_setaffinity(0, bytes, &raw const one);
            }
            OneProcessor(before)
        }
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // SAFETY: as above.
        #[allow(unsafe_code)]
        unsafe {
            libc::sched_setaffinity(0, size_of_val(&self.0), &raw const self.0);
        }
    }
}

/// The folder of a run. Its path has the same length in each run, because files of the engine hold paths.
struct Folder {
    slot: usize,
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn make() -> Folder {
        (0..1000).find_map(|turn| Folder::take(turn % 100)).expect("a folder in memory for the simulation")
    }

    /// Takes the folder with this number, unless another simulation has it. One of a killed simulation is emptied.
    fn take(slot: usize) -> Option<Folder> {
        // SAFETY: the call has no conditions.
        #[allow(unsafe_code)]
        let user = unsafe { libc::geteuid() };
        let path = PathBuf::from(format!("/dev/shm/mainstay-simulated-{user:010}-{slot:02}"));
        let _ = fs::create_dir(&path);
        let lock = File::open(&path).ok()?;
        lock.try_lock().ok()?;
        let (opened, named) = (lock.metadata().ok()?, fs::symlink_metadata(&path).ok()?);
        if opened.ino() != named.ino() || opened.uid() != user {
            // Another simulation has just removed this folder, at its end; or another user has put something in its place.
            return None;
        }
        for entry in fs::read_dir(&path).ok()? {
            fs::remove_dir_all(entry.ok()?.path()).ok()?;
        }
        Some(Folder { slot, path, _lock: lock })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The operator's work: starts one job after the other, and carries out the planned faults.
fn operate(cluster: &Arc<Cluster>, plan: &Plan, judge: &Arc<Mutex<Judge>>) -> Result<(), Fault> {
    for node in 0..plan.setting.nodes {
        for name in ["memory", "disk"] {
            fs::create_dir_all(cluster.node_folder(node).join(name)).map_err(|error| Fault(error.to_string()))?;
        }
    }
    fs::create_dir_all(cluster.shared_folder()).map_err(|error| Fault(error.to_string()))?;
    let models: Arc<Mutex<Models>> = Arc::default();
    for (index, round) in plan.rounds.iter().enumerate() {
        let job = Arc::new(Job {
            cluster: cluster.clone(),
            setting: plan.setting.clone(),
            round: round.clone(),
            number: index as u64 + 1,
            judge: judge.clone(),
            models: models.clone(),
            ranks: Mutex::default(),
            closed: AtomicUsize::new(0),
        });
        operate_job(cluster, &job);
        check_left(cluster, &job)?;
    }
    Ok(())
}

/// Processes that have ended leave no file open, and a job that has ended in order none in the memory of the nodes.
fn check_left(cluster: &Cluster, job: &Job) -> Result<(), Fault> {
    if let Some(left) = cluster.left_open() {
        return Err(Fault(left));
    }
    // An operation that failed may have been the removal of a file.
    let may_fail = job.round.faults.iter().any(|fault| matches!(fault, PlannedFault::Fails { .. }));
    if may_fail || job.closed.load(Ordering::Relaxed) < job.round.seats.len() {
        return Ok(());
    }
    let mut folders: Vec<PathBuf> =
        (0..job.setting.nodes).map(|node| cluster.node_folder(node).join("memory")).collect();
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

/// Starts a job, carries out its faults, and waits for its end.
fn operate_job(cluster: &Arc<Cluster>, job: &Arc<Job>) {
    let (round, start) = (&job.round, cluster.now());
    let world = current_world().expect("a thread of the cluster");
    job.start();
    let first: Vec<ProcessId> = locked(&job.ranks).iter().map(|rank| rank.process).collect();
    let is_over = || locked(&job.ranks).iter().all(Rank::is_gone);
    let mut lost = BTreeSet::new();
    let mut lose = |node, with_disk| {
        cluster.lose_node(node, with_disk);
        if lost.insert(job.setting.domain(node)) {
            locked(&job.judge).lost(with_disk);
        }
    };
    let mut timed = Vec::new();
    for fault in &round.faults {
        match *fault {
            PlannedFault::DiesIn { rank, operation } => cluster.dies_in(first[rank], operation),
            PlannedFault::Fails { rank, operation, failure } => cluster.fails_in(first[rank], operation, failure),
            PlannedFault::DiesAt { time, .. }
            | PlannedFault::NodeLost { time, .. }
            | PlannedFault::ClockJumps { time, .. } => timed.push((time, *fault)),
        }
    }
    timed.sort_by_key(|(time, _)| *time);
    for (time, fault) in timed {
        if world.wait("the job, or the time of a fault", Some(start + time), &mut { is_over }) {
            break;
        }
        match fault {
            PlannedFault::DiesAt { rank, .. } => cluster.kill(first[rank]),
            PlannedFault::NodeLost { node, with_disk, .. } => lose(node, with_disk),
            PlannedFault::ClockJumps { by_seconds, .. } => cluster.jump_clock(by_seconds * 1_000_000_000),
            PlannedFault::DiesIn { .. } | PlannedFault::Fails { .. } => {}
        }
    }
    // A launcher may end a job some time after one of its processes has died.
    if !round.is_healthy() && cluster.draw(|random| random.bool()) {
        let has_died = || locked(&job.ranks).iter().any(Rank::is_dead) || is_over();
        world.wait("a death, or the job", None, &mut { has_died });
        sleep(Duration::from_micros(cluster.draw(|random| random.u64(0..20_000))));
        let alive: Vec<ProcessId> =
            locked(&job.ranks).iter().filter(|rank| !rank.is_gone()).map(|rank| rank.process).collect();
        alive.into_iter().for_each(|process| cluster.kill(process));
    }
    world.wait("the job", None, &mut { is_over });
    round.lost.iter().for_each(|(node, with_disk)| lose(*node, *with_disk));
    if let Some((file, byte)) = round.rots {
        rot(cluster, job, file, byte);
    }
}

/// Changes a byte of a file with revisions, on a disk of a node or in the space.
fn rot(cluster: &Cluster, job: &Job, file: usize, byte: u64) {
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

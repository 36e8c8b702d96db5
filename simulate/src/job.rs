//! One job: its ranks as processes, and their settings.

use crate::{
    cluster::{Cluster, Death, ProcessId},
    group::{Refill, SimulatedGroup},
    judge::Judge,
    lock::locked,
    objects::Models,
    openings::Openings,
    plan::{Round, Setting},
};
use mainstay_engine::{Config, DiskLost, LevelPlace, Recovery};
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// A job of a run, for all its ranks.
pub struct Job {
    pub cluster: Arc<Cluster>,
    pub setting: Setting,
    pub round: Round,
    pub space: PathBuf,
    /// A later job has a higher number.
    pub number: u64,
    pub judge: Arc<Mutex<Judge>>,
    pub openings: Arc<Openings>,
    /// The right states of objects.
    pub models: Arc<Mutex<Models>>,
    /// All processes that were started.
    pub ranks: Mutex<Vec<Rank>>,
    /// Ranks that have saved, and have closed in order.
    pub closed: AtomicUsize,
}

/// A rank whose process was started.
#[derive(Clone)]
pub struct Rank {
    pub process: ProcessId,
    pub node: usize,
    death: Death,
    is_over: Arc<AtomicBool>,
}

impl Rank {
    /// Whether its process has ended or was killed. Does not lock the cluster, so conditions of waits may ask.
    pub fn is_gone(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.is_dead()
    }

    pub fn is_dead(&self) -> bool {
        self.death.time().is_some()
    }
}

/// The group of a rank. Its process takes it once all processes of the group exist.
type Slot = Arc<Mutex<Option<SimulatedGroup>>>;

impl Job {
    /// Starts the ranks. They run once the caller waits.
    pub fn start(self: &Arc<Job>) {
        let slots: Vec<Slot> = self.round.seats.iter().map(|_| Slot::default()).collect();
        let seated = slots.iter().zip(&self.round.seats).enumerate();
        let members: Vec<(ProcessId, usize)> =
            seated.map(|(rank, (slot, node))| (self.start_rank(rank, *node, slot.clone()), *node)).collect();
        let refill = (self.setting.recovery != Recovery::Off).then(|| {
            let job = Arc::downgrade(self);
            let start = move |rank, node, slot| job.upgrade().expect("the job goes on").start_rank(rank, node, slot);
            Refill {
                start: Arc::new(start),
                always: self.setting.recovery == Recovery::Replace || !self.setting.is_global,
            }
        });
        for (group, slot) in SimulatedGroup::of(&self.cluster, &members, refill).into_iter().zip(&slots) {
            *locked(slot) = Some(group);
        }
    }

    fn start_rank(self: &Arc<Job>, rank: usize, node: usize, slot: Slot) -> ProcessId {
        let is_over = Arc::new(AtomicBool::new(false));
        let (job, over) = (self.clone(), is_over.clone());
        let process =
            self.cluster.start_process(&format!("rank {rank} of job {}", self.number), Some(node), move || {
                let group = locked(&slot).take();
                if let Some(Err(why)) = group.map(|group| job.live(group, node)) {
                    job.cluster.has_failed(format!("job {}, rank {rank}: {why}", job.number));
                }
                over.store(true, Ordering::Release);
            });
        if self.setting.has_racks {
            self.cluster.set_variable(process, "MAINSTAY_DOMAIN", &format!("rack{}", self.setting.domain(node)));
        }
        locked(&self.ranks).push(Rank { process, node, death: self.cluster.death_of(process), is_over });
        process
    }

    pub fn config(&self, node: usize) -> Config {
        let (setting, folder) = (&self.setting, self.cluster.node_folder(node));
        let place =
            |copies: u32, name: &str| if copies == 0 { LevelPlace::Off } else { LevelPlace::At(folder.join(name)) };
        Config {
            keep: setting.keep,
            per: setting.per,
            stage: setting.stage,
            capture: setting.capture,
            compress: setting.compress,
            track: setting.track,
            predictor: setting.predictor,
            exchange: setting.exchange,
            io_threads: setting.io_threads,
            recovery: setting.recovery,
            pool_bytes: Some(128 << 10),
            chunk_bytes: Some(16 << 10),
            buffer_bytes: 16 << 10,
            threshold_bytes: Some(8 << 10),
            pool_directory: folder.join("memory"),
            memory: place(setting.memory_copies, "memory"),
            memory_copies: setting.memory_copies.max(1),
            disk: place(setting.disk_copies, "disk"),
            disk_copies: setting.disk_copies.max(1),
            disk_lost: DiskLost::Accepted,
            pfs_every: setting.pfs_every,
            portion_bytes: setting.portion_bytes,
            ..Config::default()
        }
    }
}

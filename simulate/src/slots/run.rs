//! One run of a plan of messages.

use super::{
    host::Host,
    plan::Plan,
    player::{Player, Trouble},
};
use crate::{
    cluster::{Cluster, Death, Fault},
    group::SimulatedGroup,
    judge::Judge,
    lock::locked,
    run::{Ran, in_cluster},
};
use mainstay_engine::{ErrorKind, current_world};
use mainstay_ranks::{Error, played};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// All ranks, each with its player and its bytes.
pub(super) type Saved = BTreeMap<u32, (Player, Vec<u8>)>;

/// The job, for all its hosts.
pub(super) struct Job {
    pub cluster: Arc<Cluster>,
    pub plan: Plan,
    pub judge: Arc<Mutex<Judge>>,
    /// The ranks that each checkpoint of this round has so far.
    pub saving: Mutex<BTreeMap<usize, Saved>>,
    /// The latest checkpoint that has all ranks.
    pub latest: Mutex<Option<Saved>>,
    /// Ranks that have left their host, and have not come to the next.
    pub moving: Mutex<BTreeMap<u32, Player>>,
    /// Hosts of this round that have ended in order.
    whole: AtomicUsize,
    /// Hosts of this round that could not reach the others.
    failed: AtomicUsize,
}

/// Runs `plan`.
pub fn run(plan: &Plan, keeps_story: bool) -> Ran {
    let plan = plan.clone();
    in_cluster(plan.seed, keeps_story, move |cluster, judge| operate(cluster, plan, judge))
}

fn operate(cluster: &Arc<Cluster>, plan: Plan, judge: &Arc<Mutex<Judge>>) -> Result<(), Fault> {
    let (saving, latest, moving, whole, failed) = Default::default();
    let job = Job { cluster: cluster.clone(), plan, judge: judge.clone(), saving, latest, moving, whole, failed };
    let job = Arc::new(job);
    for round in 0..job.plan.rounds.len() {
        if operate_round(&job, round)? {
            return Ok(());
        }
        locked(judge).restores += u64::from(locked(&job.latest).is_some());
    }
    Err(Fault("the ranks have not ended".to_owned()))
}

/// Starts hosts, and waits for their end. True: all ranks have ended.
fn operate_round(job: &Arc<Job>, number: usize) -> Result<bool, Fault> {
    let round = &job.plan.rounds[number];
    played::clear_memory().map_err(|error| Fault(error.to_string()))?;
    locked(&job.saving).clear();
    locked(&job.moving).clear();
    job.whole.store(0, Ordering::Relaxed);
    job.failed.store(0, Ordering::Relaxed);
    let slots: Vec<Arc<Mutex<Option<SimulatedGroup>>>> = (0..round.hosts).map(|_| Arc::default()).collect();
    let start = |(host, slot): (usize, &Arc<Mutex<Option<SimulatedGroup>>>)| {
        let (job, slot) = (job.clone(), slot.clone());
        let cluster = job.cluster.clone();
        let process = cluster.start_process(&format!("host {host} of round {number}"), Some(host), move || {
            if let Some(group) = locked(&slot).take() {
                job.ends(number, host, Host::work(&job, number, group));
            }
        });
        (process, host)
    };
    let members: Vec<_> = slots.iter().enumerate().map(start).collect();
    for (group, slot) in SimulatedGroup::of(&job.cluster, &members, None).into_iter().zip(&slots) {
        *locked(slot) = Some(group);
    }
    if let Some((host, message)) = round.dies {
        job.cluster.dies_in(members[host].0, message);
    }
    let deaths: Vec<Death> = members.iter().map(|(process, _)| job.cluster.death_of(*process)).collect();
    let world = current_world().expect("a thread of the cluster");
    let ended = || job.whole.load(Ordering::Relaxed) + job.failed.load(Ordering::Relaxed);
    let is_over = || ended() + deaths.iter().filter(|death| death.time().is_some()).count() == round.hosts;
    world.wait("the hosts", None, &mut { is_over });
    Ok(job.whole.load(Ordering::Relaxed) > 0)
}

impl Job {
    fn ends(&self, round: usize, host: usize, ended: Result<(), Trouble>) {
        self.cluster.tell(|| format!("host {host} of round {round} ends"));
        match ended {
            Ok(()) => drop(self.whole.fetch_add(1, Ordering::Relaxed)),
            Err(Trouble::Failed(Error::Engine(error)))
                if error.kind() == ErrorKind::GroupFailed && self.plan.rounds[round].dies.is_some() =>
            {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
            Err(Trouble::Failed(error)) => self.cluster.has_failed(format!("host {host} of round {round}: {error}")),
            Err(Trouble::Wrong(why)) => self.cluster.has_failed(why),
        }
    }
}

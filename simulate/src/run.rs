//! One run of a plan.

use crate::{
    cluster::{Cluster, Fault, Limits},
    folder::Folder,
    judge::Judge,
    lock::locked,
    operate::operate,
    plan::Plan,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// A run that is over.
#[derive(Debug)]
pub struct Ran {
    pub outcome: Result<(), Fault>,
    /// Empty unless it was asked for.
    pub story: Vec<String>,
    /// Hand-overs from thread to thread.
    pub steps: u64,
    pub time: Duration,
    /// Promised revisions.
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

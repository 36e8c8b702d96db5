//! What `advise` says of failures, levels and memory.

use super::Advise;
use serde::Serialize;

/// What was asked for; the rest is left out.
#[derive(Serialize)]
pub struct Advice<'a> {
    #[serde(flatten)]
    pub pool: Option<Advise<'a>>,
    #[serde(flatten)]
    pub levels: Option<AdvisedLevels>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reliability: Option<Reliability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
}

#[derive(Serialize)]
pub struct AdvisedLevels {
    /// Of the job.
    pub mtbf_ns: u64,
    /// What the program computes from one checkpoint to the next.
    pub interval_ns: u64,
    /// The share of its time that goes into checkpoints, restarts and work that is done again.
    pub lost_share: f64,
    /// The share of failures that no level survives.
    pub unsurvived_share: f64,
    pub levels: Vec<AdvisedLevel>,
}

#[derive(Serialize)]
pub struct AdvisedLevel {
    pub level: &'static str,
    pub checkpoint_ns: u64,
    pub restart_ns: u64,
    pub survives_share: f64,
    /// The share of failures that it survives and no nearer level does.
    pub left_share: f64,
    /// Intervals for these failures alone; `None` where there are none.
    pub young_ns: Option<u64>,
    pub daly_ns: Option<u64>,
    /// At how many checkpoints once; `None`: less is lost without this level.
    pub every: Option<u64>,
}

/// Paper 002, formulas (1) and (2).
#[derive(Serialize)]
pub struct Reliability {
    pub nodes: u64,
    pub node_mtbf_ns: u64,
    pub run_ns: u64,
    pub run_with_ns: u64,
    pub interval_ns: u64,
    /// Probabilities.
    pub fails_without_checkpoints: f64,
    pub fails_with_buddies: f64,
}

/// Of a rank, in a level in memory.
#[derive(Serialize)]
pub struct Memory {
    pub shard_bytes: u64,
    pub copies: u64,
    pub keep: u64,
    pub bytes: u64,
    /// While all slower levels are fed from there; `None`: there is none.
    pub feeding_bytes: Option<u64>,
}

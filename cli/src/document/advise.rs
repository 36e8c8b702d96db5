//! The results of `advise` on failures, levels and memory.

use super::Advise;
use serde::Serialize;

/// The requested parts; the others are left out.
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
    /// The time that the program computes between two checkpoints.
    pub interval_ns: u64,
    /// The share of its time that goes into checkpoints, restarts and repeated work.
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
    /// The share of failures that this level survives and no nearer level does.
    pub left_share: f64,
    /// Intervals for these failures alone; `None` without failures.
    pub young_ns: Option<u64>,
    pub daly_ns: Option<u64>,
    /// One checkpoint in so many; `None`: less is lost without this level.
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

/// Bytes of a rank in a memory level.
#[derive(Serialize)]
pub struct Memory {
    pub shard_bytes: u64,
    pub copies: u64,
    pub keep: u64,
    pub bytes: u64,
    /// While all slower levels read from there; `None` without slower levels.
    pub feeding_bytes: Option<u64>,
}

//! The results of `model`.

use super::Key;
use serde::Serialize;

#[derive(Serialize)]
pub struct Modelled {
    /// The revision with the measured costs; `None` without a space.
    pub measured_in: Option<MeasuredIn>,
    pub costs: Vec<Cost>,
    /// One for each number of ranks, ascending.
    pub jobs: Vec<ModelledJob>,
}

#[derive(Serialize)]
pub struct MeasuredIn {
    pub space: String,
    #[serde(flatten)]
    pub key: Key,
    pub t1_unix_ns: u64,
}

/// A cost of the machine, by the name of its option.
#[derive(Serialize)]
pub struct Cost {
    pub cost: &'static str,
    /// `None`: it never comes.
    pub value: Option<f64>,
    pub unit: Unit,
    pub source: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Count,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Ns,
    Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Measured,
    Given,
    Assumed,
}

#[derive(Serialize)]
pub struct ModelledJob {
    pub ranks: u64,
    pub nodes: u64,
    pub bytes: u64,
    /// Mean time between failures of the job.
    pub mtbf_ns: u64,
    /// One for each level and number of copies.
    pub checkpoints: Vec<LevelTimes>,
    /// The best first.
    pub choices: Vec<ModelledChoice>,
}

/// One checkpoint that goes to this level.
#[derive(Serialize)]
pub struct LevelTimes {
    pub level: &'static str,
    pub copies: u64,
    /// t2 − t1.
    pub perceived_ns: u64,
    /// t3 − t1.
    pub durable_ns: u64,
    /// From a failure until the program goes on from this level.
    pub restart_ns: u64,
}

#[derive(Serialize)]
pub struct ModelledChoice {
    /// The nearest first.
    pub levels: Vec<ModelledLevel>,
    /// The time that the program computes between two checkpoints.
    pub interval_ns: u64,
    /// Of a node.
    pub memory_bytes: u64,
    /// The share of failures after which the job begins again.
    pub unsurvived_share: f64,
    /// The useful share of the job's time, by formula.
    pub efficiency: f64,
    /// `None`: this choice was not simulated.
    pub simulated: Option<SimulatedChoice>,
}

#[derive(Serialize)]
pub struct ModelledLevel {
    pub level: &'static str,
    pub copies: u64,
    /// One checkpoint in so many.
    pub every: u64,
    /// The share of failures that this level survives and no nearer level does.
    pub left_share: f64,
}

#[derive(Serialize)]
pub struct SimulatedChoice {
    pub efficiency: f64,
    /// Its standard error; `None`: fewer than two jobs were done.
    pub error: Option<f64>,
    pub failures: u64,
    /// Failures after which the job began again.
    pub begun_again: u64,
}

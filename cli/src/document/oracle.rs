//! The results of `oracle`.

use serde::Serialize;

#[derive(Serialize)]
pub struct Replayed {
    pub traces: Vec<Trace>,
}

#[derive(Serialize)]
pub struct Trace {
    pub trace: String,
    /// Number of counted intervals.
    pub intervals: u64,
    pub predictors: Vec<Predicted>,
}

/// Pages of 4 KiB, summed over all intervals.
#[derive(Serialize)]
pub struct Predicted {
    pub predictor: &'static str,
    pub dirty_pages: u64,
    pub early_pages: u64,
    pub wasted_pages: u64,
    /// Share of the dirty pages, 0 to 1.
    pub early_share: f64,
    /// Extra writes for each dirty page.
    pub wasted_share: f64,
    /// Average time of a checkpoint until the server has the data of all processes; `None` without a bandwidth.
    pub checkpoint_ns: Option<u64>,
}

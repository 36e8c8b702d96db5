//! What `oracle` found in traces.

use serde::Serialize;

#[derive(Serialize)]
pub struct Replayed {
    pub traces: Vec<Trace>,
}

#[derive(Serialize)]
pub struct Trace {
    pub trace: String,
    /// Intervals that were counted.
    pub intervals: u64,
    pub predictors: Vec<Predicted>,
}

/// Pages are of 4 KiB; all intervals together.
#[derive(Serialize)]
pub struct Predicted {
    pub predictor: &'static str,
    pub dirty_pages: u64,
    pub early_pages: u64,
    pub wasted_pages: u64,
    /// Of the dirty pages, 0 to 1.
    pub early_share: f64,
    /// Extra writes for each dirty page.
    pub wasted_share: f64,
    /// What all processes wait for the server in a checkpoint, on average; `None` without a bandwidth.
    pub checkpoint_ns: Option<u64>,
}

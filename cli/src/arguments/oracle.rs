//! Replaying a trace of page writes: `oracle`.

use super::{size, time};
use clap::{ArgGroup, Args};
use std::{path::PathBuf, time::Duration};

/// Compute the gain of saving pages early, for each predictor and a perfect one
///
/// Replays recorded page writes. Between two checkpoints, a predictor picks the pages that it expects not to change
/// again, and the writer saves them in the background, as fast as it can. If the program writes such a page again, that
/// save was in vain. `early` is the share of dirty pages that the checkpoint need not write any more. `in vain` is the
/// number of extra writes for each dirty page. `off` is plain incremental checkpointing. `oracle` knows the future: no
/// predictor is better.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("writer").args(["share", "bandwidth"]))]
#[command(after_help = "\
Examples:
  mainstay oracle trace
  mainstay oracle run.trace --iterations 20 --bandwidth 30MB --processes 8
  mainstay oracle *.trace --iterations 5 --inside --share 0.1 --plot gains.svg

Exit codes:
  0  good
  2  wrong usage, or not a trace
  4  refused: I/O error, no permission")]
pub struct Oracle {
    /// Recorded traces: words of 64 bits, as the guide describes them. A directory stands for all NAME.trace files in
    /// it
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Iterations from one checkpoint to the next
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: u32,
    /// Take checkpoints halfway through an iteration
    #[arg(long)]
    pub inside: bool,
    /// Moments in an interval, besides the ends of iterations, at which pages may be saved. Default: all recorded
    /// moments
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub ticks: Option<u32>,
    /// Time to save the data of one interval, as a share of the interval [default: 0.25]
    #[arg(long, value_name = "X", value_parser = share)]
    pub share: Option<f64>,
    /// Bytes a second that the server of all processes accepts
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bandwidth: Option<u64>,
    /// Number of processes like this one that share the server
    #[arg(long, value_name = "N", requires = "bandwidth", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub processes: u32,
    /// Number of first intervals that only train the predictors and are not counted
    #[arg(long, value_name = "N", default_value = "2")]
    pub learn: u32,
    /// Also treat a page as infrequent if it was not written for TIME, like the setting infrequent_seconds
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub infrequent: Option<Duration>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// Draw the gain of each predictor as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && f64::is_finite(*share));
    share.ok_or_else(|| format!("{text:?} is no share, such as 0.25"))
}

//! What a trace of page writes is asked: `oracle`.

use super::{size, time};
use clap::{ArgGroup, Args};
use std::{path::PathBuf, time::Duration};

/// Says what saving pages early would gain: with a perfect predictor, and with each real one
///
/// Replays recorded page writes. Between two checkpoints, pages that a predictor takes for settled are written in the
/// background, as fast as the writer allows; what is written again after that was saved in vain. `early` is the share of
/// the dirty pages that a checkpoint does not have to write any more, `in vain` the extra writes for each dirty page. `off`
/// is plain incremental checkpointing; `oracle` knows the future, and nothing is better.
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
    /// What was recorded: words of 64 bits, as the guide describes them; a directory stands for all NAME.trace in it
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// From one checkpoint to the next
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: u32,
    /// Checkpoints are taken half-way through an iteration
    #[arg(long)]
    pub inside: bool,
    /// Moments at which pages may be saved, in an interval, beside the ends of iterations; left out: all that were recorded
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub ticks: Option<u32>,
    /// What an interval writes takes this share of it to save [default: 0.25]
    #[arg(long, value_name = "X", value_parser = share)]
    pub share: Option<f64>,
    /// Bytes in a second that the server of all processes takes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub bandwidth: Option<u64>,
    /// Processes like this one that share the server
    #[arg(long, value_name = "N", requires = "bandwidth", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub processes: u32,
    /// Intervals to learn from, which are not counted
    #[arg(long, value_name = "N", default_value = "2")]
    pub learn: u32,
    /// A page that was not written for so long is infrequent, too, as by infrequent_seconds
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub infrequent: Option<Duration>,
    /// One JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// Draws what each gains, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && f64::is_finite(*share));
    share.ok_or_else(|| format!("{text:?} is no share, such as 0.25"))
}

//! A machine by its number of ranks: `model`.

use super::{EXIT_CODES, advise::share, size};
use clap::Args;
use mainstay_engine::{group::RANKS_MAX, model::SLOWDOWN_MAX};
use std::{path::PathBuf, time::Duration};

/// Compute the cost of checkpoints on a machine, and the levels, copies and intervals that lose least
///
/// For each number of ranks, `model` prints the cost of a checkpoint, the memory of a node, the best levels with their
/// copies and intervals, and the share of the machine that computes: by formula and by simulation. With SPACE, it
/// takes costs from the newest complete revision; the others are those that you give, or the defaults below. The output
/// names the source of each. `advise` computes the settings of one job from its records.
///
/// The defaults stand for a machine of today: nodes with 128 ranks and 64 GiB of state, a network of 200 Gbit/s, an NVMe
/// disk, and a shared file system of 2 TB/s.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay model
  mainstay model /scratch/me/space --ranks 1e3..1e6 --node-mtbf 3y --plot efficiency.svg
  mainstay model --ranks 4096 --all --network 12GB --file-system 500GB
  mainstay model --ranks 64,128 --rank-bytes 3MB --json | jq .jobs[].checkpoints

{EXIT_CODES}"))]
pub struct Model {
    /// A space with measured costs: the directory that a job opened
    #[arg(value_name = "SPACE")]
    pub space: Option<PathBuf>,
    /// Numbers of ranks. FROM..TO stands for FROM, 10 · FROM and so on up to TO
    #[arg(long, value_name = "N,N|FROM..TO", default_value = "1e3..1e6", value_parser = ranks)]
    pub ranks: Numbers,
    /// Print every choice of levels and copies, not only the best one
    #[arg(long)]
    pub all: bool,
    /// Leave out choices that take more memory of a node for checkpoints
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Computing time of the job
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = super::time)]
    pub run: Duration,
    /// Number of complete revisions that the memory level keeps
    #[arg(long, value_name = "K", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub keep: u64,
    #[command(flatten)]
    pub costs: Costs,
    /// Number of failures to simulate for each choice. 0: formulas only
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub failures: u64,
    /// Begin of the random numbers of the simulation
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    /// Draw the efficiency over the number of ranks as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// The costs of the machine, as far as you give them. Bandwidths are bytes a second.
#[derive(Debug, Args)]
#[command(next_help_heading = "Costs of the machine")]
pub struct Costs {
    /// Number of ranks on a node [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RANKS_MAX as u64))]
    pub ranks_per_node: Option<u64>,
    /// Bytes that a rank saves [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = some)]
    pub rank_bytes: Option<u64>,
    /// Bytes a second that all ranks of a node together copy in memory [default: 100GB]
    #[arg(long, value_name = "SIZE", value_parser = some)]
    pub copy: Option<u64>,
    /// Bytes a second that a node sends, and receives at the same time [default: 25GB]
    #[arg(long, value_name = "SIZE", value_parser = some)]
    pub network: Option<u64>,
    /// Time of a small message between two nodes [default: 2us]
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    pub message: Option<Duration>,
    /// Bytes a second of a node's disk [default: 4GB]
    #[arg(long, value_name = "SIZE", value_parser = some)]
    pub disk: Option<u64>,
    /// Bytes a second of the file system that all nodes share [default: 2TB]
    #[arg(long, value_name = "SIZE", value_parser = some)]
    pub file_system: Option<u64>,
    /// Metadata operations a second of that file system [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub metadata: Option<u64>,
    /// Metadata operations of each rank in a checkpoint. Mainstay has none [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub checkpoint_operations: Option<u64>,
    /// Metadata operations of each rank in an opening [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub open_operations: Option<u64>,
    /// Share of its speed that the program loses while a level has a checkpoint under way, at most 30% [default: 5%]
    #[arg(long, value_name = "N%", value_parser = slowdown)]
    pub slowdown: Option<f64>,
    /// Time from a failure until the ranks run again, before they open the space [default: 1min]
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    pub relaunch: Option<Duration>,
    /// Mean time between failures of one node; 1y is 365.25 days [default: 5y]
    #[arg(long, value_name = "TIME", value_parser = lasting)]
    pub node_mtbf: Option<Duration>,
    /// Share of these failures in which only processes fail, and the node keeps its memory [default: 30%]
    #[arg(long, value_name = "N%", value_parser = share)]
    pub processes: Option<f64>,
    /// Mean time between failures of all nodes at once, such as a loss of power; or `never` [default: 90d]
    #[arg(long, value_name = "TIME", value_parser = outage)]
    pub outage_mtbf: Option<Outage>,
}

/// Numbers of ranks, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers(pub Vec<u64>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    Never,
    Every(Duration),
}

/// As in `1e3..1e6` and `64,128`.
fn ranks(text: &str) -> Result<Numbers, String> {
    const NUMBERS_MAX: usize = 100;
    let mut all = match text.split_once("..") {
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to)?);
            std::iter::successors(Some(from), |ranks| Some(10 * ranks)).take_while(|ranks| *ranks <= to).collect()
        }
        None => text.split(',').map(number).collect::<Result<Vec<u64>, String>>()?,
    };
    all.sort_unstable();
    all.dedup();
    match all.len() {
        1..=NUMBERS_MAX => Ok(Numbers(all)),
        0 => Err(format!("{text:?} has no number: give the smaller one first")),
        _ => Err(format!("give at most {NUMBERS_MAX} numbers")),
    }
}

/// As in `4096` and `1e6`.
fn number(text: &str) -> Result<u64, String> {
    let ranks = text.trim().parse().ok().filter(|ranks: &f64| ranks.fract() == 0.0);
    let ranks = ranks.filter(|ranks| (1.0..=RANKS_MAX as f64).contains(ranks)).map(|ranks| ranks as u64);
    ranks.ok_or_else(|| format!("{text:?} is no number of ranks, such as 4096 or 1e6, at most {RANKS_MAX}"))
}

fn some(text: &str) -> Result<u64, String> {
    size(text).and_then(|bytes| if bytes == 0 { Err("give more than 0".to_owned()) } else { Ok(bytes) })
}

fn lasting(text: &str) -> Result<Duration, String> {
    super::time(text).and_then(|time| if time.is_zero() { Err("give more than 0".to_owned()) } else { Ok(time) })
}

fn slowdown(text: &str) -> Result<f64, String> {
    share(text).and_then(|share| match share <= SLOWDOWN_MAX {
        true => Ok(share),
        false => Err(format!("give at most {} %", 100.0 * SLOWDOWN_MAX)),
    })
}

fn outage(text: &str) -> Result<Outage, String> {
    if text == "never" { Ok(Outage::Never) } else { lasting(text).map(Outage::Every) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_ranks_are_read() {
        let of = |text| ranks(text).map(|numbers| numbers.0);
        assert_eq!(of("1e3..1e6"), Ok(vec![1000, 10_000, 100_000, 1_000_000]));
        assert_eq!(of("64..1000"), Ok(vec![64, 640]));
        assert_eq!(of("128, 64,128"), Ok(vec![64, 128]));
        assert_eq!(of("1e7"), Ok(vec![10_000_000]));
        for text in ["", "0", "1.5", "-4", "1e9", "nan", "2..1", "1..", "1e3-1e6"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}

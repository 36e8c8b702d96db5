//! Advice on pools and intervals: `advise`.

use super::{EXIT_CODES, size};
use clap::{ArgGroup, Args};
use mainstay_engine::{LevelKind, group::RANKS_MAX};
use std::{path::PathBuf, time::Duration};

/// Advise on the size of the pool, and on how often to save to each level
///
/// For a space: `advise` reads the newest complete revision that was staged through a pool. It measures how fast each
/// node copied into the pool and how fast it wrote the data. A pool hides the writing if it holds all data that is not
/// yet written when the copy ends. A larger pool gains nothing.
///
/// For levels (--level): give the cost of a checkpoint, the time of a restart and the share of failures that each level
/// survives. `advise` computes the intervals that lose least time, and how much they lose: Young's and Daly's interval
/// for each level alone, and one pattern for all levels together. Without --level, --mtbf gives the interval for SPACE
/// from its measured cost. For a run (--run): the probability that it fails, without checkpoints and with copies on two
/// nodes. For a shard (--shard): the memory of a memory level.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("rate").args(["mtbf", "node_mtbf"]))]
#[command(after_help = format!("\
Examples:
  mainstay advise /scratch/me/space
  mainstay advise /scratch/me/space --mtbf 6h
  mainstay advise /scratch/me/space --json | jq -r .setting
  mainstay advise --mtbf 6h --level memory:cost=300ms,restart=5s,survives=90% --level space:cost=40s,restart=3min
  mainstay advise --nodes 5000 --node-mtbf 175200h --run 400h --run-with 1200h --interval 6min
  mainstay advise --shard 256MiB --copies 3 --keep 2

{EXIT_CODES}"))]
pub struct Advise {
    /// The space: the directory that the job opened
    #[arg(value_name = "SPACE", required_unless_present_any = ["level", "run", "shard"])]
    pub space: Option<PathBuf>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub failures: Failures,
}

/// The failures of the machine and the job, as you state them.
#[derive(Debug, Args)]
pub struct Failures {
    /// Mean time between failures of the job ("6h")
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    pub mtbf: Option<Duration>,
    /// Mean time between failures of one node; 1y is 365.25 days
    #[arg(long, value_name = "TIME", requires = "nodes", value_parser = super::time)]
    pub node_mtbf: Option<Duration>,
    /// Number of nodes of the job
    #[arg(long, value_name = "N", requires = "node_mtbf", value_parser = clap::value_parser!(u64).range(1..=RANKS_MAX as u64))]
    pub nodes: Option<u64>,
    /// A level; repeat for several. NAME is memory, disk or space. cost: how long the program waits for a checkpoint
    /// (default: as measured in SPACE). restart: time of a restart (default 0s). survives: share of failures that the
    /// level survives (default 100%)
    #[arg(long, value_name = "NAME:cost=TIME,restart=TIME,survives=N%", requires = "rate", value_parser = level)]
    pub level: Vec<Level>,
    /// Print how likely a job fails that takes TIME without checkpoints and failures
    #[arg(long, value_name = "TIME", requires = "node_mtbf", value_parser = super::time)]
    pub run: Option<Duration>,
    /// Time of the run with checkpoints. Default: computed from the levels
    #[arg(long, value_name = "TIME", requires = "run", value_parser = super::time)]
    pub run_with: Option<Duration>,
    /// Time from one checkpoint to the next. Default: computed from the levels
    #[arg(long, value_name = "TIME", requires = "run", value_parser = super::time)]
    pub interval: Option<Duration>,
    /// Print the memory that a memory level needs if each rank saves SIZE
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub shard: Option<u64>,
    /// Number of copies of each shard
    #[arg(long, value_name = "N", requires = "shard", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=16))]
    pub copies: u64,
    /// Number of complete revisions that the level keeps
    #[arg(long, value_name = "K", requires = "shard", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub keep: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    pub name: &'static str,
    /// `None`: as measured.
    pub cost: Option<Duration>,
    pub restart: Duration,
    /// 0 to 1.
    pub survives: f64,
}

impl Failures {
    /// Does the call give a failure rate and ask for an interval?
    pub fn asks_how_often(&self) -> bool {
        let has_rate = self.mtbf.is_some() || self.node_mtbf.is_some() && self.nodes.is_some();
        has_rate && self.run.is_none()
    }
}

impl Level {
    /// A space that survives all failures, at the measured cost.
    pub fn of_space() -> Level {
        Level { name: "space", cost: None, restart: Duration::ZERO, survives: 1.0 }
    }

    /// Nearest first.
    pub const NAMES: [&str; 3] = ["memory", "disk", "space"];
}

/// As in `memory:cost=300ms,restart=5s,survives=90%`.
fn level(text: &str) -> Result<Level, String> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let name = LevelKind::named(name).map_err(|_| format!("a level is one of {}", Level::NAMES.join(", ")))?.name();
    let (mut cost, mut restart, mut survives) = (None, None, None);
    for part in rest.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is no key=value"))?;
        let is_new = match key {
            "cost" => cost.replace(super::time(value)?).is_none(),
            "restart" => restart.replace(super::time(value)?).is_none(),
            "survives" => survives.replace(share(value)?).is_none(),
            _ => return Err(format!("{key:?} is none of cost, restart, survives")),
        };
        if !is_new {
            return Err(format!("{key} is there twice"));
        }
    }
    Ok(Level { name, cost, restart: restart.unwrap_or_default(), survives: survives.unwrap_or(1.0) })
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let share = percent.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent: f64| percent / 100.0);
    share.ok_or_else(|| format!("{text:?} is no share, 0% to 100%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_read() {
        let ms = Duration::from_millis;
        let of = |name, cost, restart, survives| Level { name, cost, restart, survives };
        assert_eq!(level("memory:cost=300ms,restart=5s,survives=90%"), Ok(of("memory", Some(ms(300)), ms(5000), 0.9)));
        assert_eq!(level("pfs"), Ok(of("space", None, ms(0), 1.0)));
        assert_eq!(level("disk:survives=99.5%"), Ok(of("disk", None, ms(0), 0.995)));
        for (text, words) in [
            ("tape:cost=1s", "one of memory, disk, space"),
            ("disk:cost", "key=value"),
            ("disk:price=1s", "none of"),
            ("disk:cost=1s,cost=2s", "twice"),
            ("disk:cost=-1s", "no time"),
            ("disk:survives=0.9", "no share"),
            ("disk:survives=101%", "no share"),
            ("disk:survives=NaN%", "no share"),
        ] {
            let why = level(text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}

//! The part of `mainstay advise` on levels, failures and memory: the interval of each level, the lost time, the
//! probability that a run fails, and the memory of a memory level.

use crate::{
    arguments::{Failures, Level},
    document::{AdvisedLevel, AdvisedLevels, Memory, Reliability},
    exit::Failure,
    text::{self, Align},
};
use mainstay_engine::model::{self, LevelCost};
use std::{iter::zip, time::Duration};

const HOUR_NS: u64 = 3_600_000_000_000;

/// `measured`: the program's wait for a checkpoint, if known.
pub fn levels(stated: &Failures, measured: Option<Duration>) -> Result<Option<AdvisedLevels>, Failure> {
    let levels = match in_order(&stated.level)? {
        levels if !levels.is_empty() => levels,
        // The space itself, if its cost was measured.
        _ if stated.asks_how_often() && measured.is_some() => vec![Level::of_space()],
        _ => return Ok(None),
    };
    let mtbf = match (stated.mtbf, stated.node_mtbf, stated.nodes) {
        (Some(mtbf), ..) => mtbf,
        (None, Some(node), Some(nodes)) => node.div_f64(nodes as f64),
        _ => return Err(Failure::usage("--level needs --mtbf, or --node-mtbf and --nodes")),
    };
    let costs = levels.iter().map(|level| {
        let why =
            || Failure::usage(format!("--level {0}: give {0}:cost=TIME, or a SPACE with a measured cost", level.name));
        let checkpoint = level.cost.or(measured).ok_or_else(why)?;
        Ok(LevelCost { checkpoint, under_way: Duration::ZERO, restart: level.restart, survives: level.survives })
    });
    let costs: Vec<LevelCost> = costs.collect::<Result<_, Failure>>()?;
    let pattern = model::pattern(&costs, mtbf)?;
    let left = model::left_to(&costs);
    let advised = zip(zip(&levels, &costs), zip(&left, &pattern.every)).map(|((level, cost), (left, every))| {
        let alone = (*left > 0.0).then(|| mtbf.as_secs_f64() / left);
        let alone = alone.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        AdvisedLevel {
            level: level.name,
            checkpoint_ns: ns(cost.checkpoint),
            restart_ns: ns(cost.restart),
            survives_share: cost.survives,
            left_share: *left,
            young_ns: alone.map(|mtbf| ns(model::young(cost.checkpoint, mtbf))),
            daly_ns: alone.map(|mtbf| ns(model::daly(cost.checkpoint, mtbf))),
            every: *every,
        }
    });
    Ok(Some(AdvisedLevels {
        mtbf_ns: ns(mtbf),
        interval_ns: ns(pattern.interval),
        lost_share: pattern.lost,
        unsurvived_share: 1.0 - costs.iter().map(|cost| cost.survives).fold(0.0, f64::max),
        levels: advised.collect(),
    }))
}

/// Nearest first, each once.
fn in_order(stated: &[Level]) -> Result<Vec<Level>, Failure> {
    let named = |name: &'static str| stated.iter().filter(move |level| level.name == name).copied();
    match Level::NAMES.into_iter().find(|name| named(name).count() > 1) {
        Some(name) => Err(Failure::usage(format!("--level {name} is there twice"))),
        None => Ok(Level::NAMES.into_iter().flat_map(named).collect()),
    }
}

pub fn reliability(stated: &Failures, levels: Option<&AdvisedLevels>) -> Result<Option<Reliability>, Failure> {
    let (Some(run), Some(node_mtbf), Some(nodes)) = (stated.run, stated.node_mtbf, stated.nodes) else {
        return Ok(None);
    };
    let lasts =
        |levels: &AdvisedLevels| Duration::try_from_secs_f64(run.as_secs_f64() / (1.0 - levels.lost_share)).ok();
    let run_with = stated.run_with.or_else(|| levels.and_then(lasts));
    let run_with = run_with.ok_or_else(|| Failure::usage("--run needs --run-with, or levels that let the job end"))?;
    let interval = stated.interval.or_else(|| levels.map(|levels| Duration::from_nanos(levels.interval_ns)));
    let interval = interval.ok_or_else(|| Failure::usage("--run needs --interval, or levels to compute it from"))?;
    Ok(Some(Reliability {
        nodes,
        node_mtbf_ns: ns(node_mtbf),
        run_ns: ns(run),
        run_with_ns: ns(run_with),
        interval_ns: ns(interval),
        fails_without_checkpoints: model::failure_without_checkpoints(nodes, node_mtbf, run)?,
        fails_with_buddies: model::failure_with_buddies(nodes, node_mtbf, run_with, interval)?,
    }))
}

pub fn memory(stated: &Failures) -> Result<Option<Memory>, Failure> {
    let Some(shard) = stated.shard else { return Ok(None) };
    let (copies, keep) = (stated.copies, stated.keep);
    let bytes = |feeds| {
        let bytes = model::memory_bytes(shard, copies, keep, feeds);
        bytes.ok_or_else(|| Failure::usage("--shard: more than any memory has"))
    };
    // The first stated level is the memory, and the others read from it. Without stated levels, one unnamed slower
    // level does.
    let feeds = match stated.level.len() {
        0 => 1,
        levels => levels as u64 - 1,
    };
    let feeding_bytes = (feeds > 0).then(|| bytes(feeds)).transpose()?;
    Ok(Some(Memory { shard_bytes: shard, copies, keep, bytes: bytes(0)?, feeding_bytes }))
}

pub fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub fn levels_page(advised: &AdvisedLevels) -> String {
    let heads = ["level", "checkpoint", "restart", "survives", "left to it", "Young", "Daly", "checkpoints"];
    let heads = heads.map(|head| (head, if head == "level" { Align::Left } else { Align::Right }));
    let rows = advised.levels.iter().map(|level| {
        let known = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), time);
        vec![
            level.level.to_owned(),
            time(level.checkpoint_ns),
            time(level.restart_ns),
            percent(level.survives_share),
            percent(level.left_share),
            known(level.young_ns),
            known(level.daly_ns),
            match level.every {
                Some(1) => "all".to_owned(),
                Some(every) => format!("1 in {every}"),
                None => "none: less is lost without it".to_owned(),
            },
        ]
    });
    let mut page = format!("a failure of the job every {}\n\n{}\n", time(advised.mtbf_ns), text::table(&heads, rows));
    let together = if advised.levels.len() > 1 { ", of all levels together" } else { "" };
    page += &format!("a checkpoint every {}{together}\n", time(advised.interval_ns));
    page += &format!("time lost: {} of the job's\n", percent(advised.lost_share));
    if advised.unsurvived_share > 0.0 {
        page += &format!(
            "no level survives {} of the failures: after one of these no revision is left\n",
            percent(advised.unsurvived_share)
        );
    }
    page
}

pub fn reliability_page(told: &Reliability) -> String {
    format!(
        "{}, each with a failure every {}:\n\
         without checkpoints, in {}, the job fails with a probability of {}\n\
         with the copies of two nodes, in {}, saved every {}: {}\n",
        text::count(told.nodes, "node"),
        time(told.node_mtbf_ns),
        time(told.run_ns),
        percent(told.fails_without_checkpoints),
        time(told.run_with_ns),
        time(told.interval_ns),
        percent(told.fails_with_buddies),
    )
}

pub fn memory_page(memory: &Memory) -> String {
    let feeding =
        memory.feeding_bytes.map(|bytes| format!("; {} while slower levels read from there", text::bytes(bytes)));
    format!(
        "memory of a rank: {}, {} of {} + 1 revisions of {}{}\n",
        text::bytes(memory.bytes),
        text::count(memory.copies, "copy"),
        memory.keep,
        text::bytes(memory.shard_bytes),
        feeding.unwrap_or_default(),
    )
}

/// As elsewhere, but hours if minutes are too small.
pub fn time(ns: u64) -> String {
    if ns < 2 * HOUR_NS { text::duration(ns) } else { format!("{} h", text::number(ns as f64 / HOUR_NS as f64)) }
}

/// With enough digits to distinguish it from none and from all.
pub fn percent(share: f64) -> String {
    let (percent, near) = (100.0 * share, 100.0 * share.min(1.0 - share));
    let digits = if share > 0.5 { 2 } else { 3 };
    let places = if near > 0.0 { (digits - 1 - near.log10().floor() as i32).clamp(0, 18) } else { 0 };
    let text = format!("{percent:.*}", places as usize);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_read_well() {
        let all = [0.0, 1.0, 0.5, 0.9, 0.0123, 0.9999891, 0.00000977358, 0.05, 0.995].map(percent);
        let expected = ["0 %", "100 %", "50 %", "90 %", "1.23 %", "99.9989 %", "0.000977 %", "5 %", "99.5 %"];
        assert_eq!(all, expected);
        assert_eq!(percent(1e-300), "0 %");
    }

    #[test]
    fn times_read_well() {
        let all = [300_000_000, 360_000_000_000, 2 * HOUR_NS, 175_200 * HOUR_NS].map(time);
        assert_eq!(all, ["300 ms", "6 min", "2 h", "175200 h"]);
    }
}
